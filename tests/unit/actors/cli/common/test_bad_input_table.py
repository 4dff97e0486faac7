"""Sixty bad inputs and more: for each the one clear line that `run` says, with exit code 2."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from actors.cli.main import main

ALIASES = "clusters = A, B\n"
BOOTSTRAP_A, BOOTSTRAP_B = "A.bootstrap.servers = a:1\n", "B.bootstrap.servers = b:1\n"
PAIR = ALIASES + BOOTSTRAP_A + BOOTSTRAP_B
GOOD = PAIR + "A->B.enabled = true\n"
SASL = GOOD + "A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n"
SSL = GOOD + "A.security.protocol = SSL\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
WARN = "; or set raymirror.unsupported = warn to continue without it"
REGEX = "; give Java regular expressions that match whole names"
YAML = "; check the indentation (spaces, no tabs), and put text with any of : # * & ! \\ { [ into single quotes"


class Bad(NamedTuple):
    """A file, and the line about it, without the file's name at its beginning."""

    text: str | bytes
    line: str


LISTS = "missing; list the cluster aliases, e.g. clusters = A, B"
PROPERTIES = {
    "nothing in it": Bad("", f": clusters: {LISTS}"),
    "only a comment": Bad("# later\n", f": clusters: {LISTS}"),
    "no clusters": Bad(BOOTSTRAP_A, f": clusters: {LISTS}"),
    "clusters without aliases": Bad(
        "clusters =\n", ":1: clusters: empty; list the cluster aliases, e.g. clusters = A, B"
    ),
    "saved as UTF-16": Bad(GOOD.encode("utf-16"), ": file: saved as UTF-16; save it as UTF-8"),
    "clusters in quotes": Bad(
        'clusters = "A, B"\n',
        ":1: clusters: quotes are part of the value, but a name or address has none; write A,B",
    ),
    "an arrow in an alias": Bad(
        "clusters = A->B, C\n",
        ":1: clusters: alias 'A->B' contains ->; write an alias without ->, which separates the two clusters of a flow",
    ),
    "no brokers": Bad(
        ALIASES + BOOTSTRAP_A,
        ": B.bootstrap.servers: missing; name the brokers of cluster 'B', e.g. host1:9092,host2:9092",
    ),
    "brokers without a name": Bad(
        ALIASES + "A.bootstrap.servers = ,\n" + BOOTSTRAP_B,
        ":2: A.bootstrap.servers: empty; name at least one broker as host:port",
    ),
    "a broker without a port": Bad(
        ALIASES + "A.bootstrap.servers = kafka-1\n" + BOOTSTRAP_B,
        ":2: A.bootstrap.servers: 'kafka-1' is not an address; write host:port, e.g. kafka-1:9092",
    ),
    "a port above all ports": Bad(
        ALIASES + "A.bootstrap.servers = kafka-1:99999\n" + BOOTSTRAP_B,
        ":2: A.bootstrap.servers: 'kafka-1:99999' is not an address; write host:port, e.g. kafka-1:9092",
    ),
    "IPv6 without brackets": Bad(
        ALIASES + "A.bootstrap.servers = ::1:9092\n" + BOOTSTRAP_B,
        ":2: A.bootstrap.servers: '::1:9092' is not an address; write host:port, e.g. kafka-1:9092",
    ),
    "no flow": Bad(PAIR, ":1: clusters: no flow is enabled; enable one, e.g. A->B.enabled = true"),
    "a flow that is on with another word": Bad(
        PAIR + "A->B.enabled = yes\n", ":4: A->B.enabled: 'yes' is neither true nor false; write true or false"
    ),
    "a flow without a setting": Bad(
        GOOD + "A->B = true\n",
        ":5: A->B: names a flow, but no setting; write a setting of it, e.g. A->B.enabled = true",
    ),
    "a space in a flow's name": Bad(
        PAIR + "A ->B.enabled = true\n",
        ":4: A: names a cluster, but no setting; a space ends a key: write A->B.enabled = true",
    ),
    "a flow to itself": Bad(
        GOOD + "A->A.enabled = true\n",
        ":5: A->A.enabled: a flow from a cluster to itself; name two different clusters, e.g. A->B",
    ),
    "a flow of a cluster that is not listed": Bad(
        GOOD + "A->C.enabled = true\n",
        ":5: A->C.enabled: cluster 'C' is not in clusters; add it to clusters, or use one of A, B",
    ),
    "a letter too many in a key": Bad(
        GOOD + "A->B.topcis = x\n", ":5: A->B.topcis: no such key; did you mean A->B.topics?"
    ),
    "a line break in a key": Bad(
        GOOD + "A->B.topics\\ne = x\n", r":5: A->B.topics\ne: no such key; did you mean A->B.topics?"
    ),
    "an own key that does not exist": Bad(
        GOOD + "raymirror.copier = 2\n",
        ":5: raymirror.copier: raymirror has no such key; did you mean raymirror.copiers?",
    ),
    "an own key at the wrong place": Bad(
        GOOD + "A.raymirror.copiers = 2\n",
        ":5: A.raymirror.copiers: it is read for a flow, or at top level for all flows; write A->B.raymirror.copiers"
        + WARN,
    ),
    "a key of clusters at a flow": Bad(
        GOOD + "A->B.raymirror.site = x\n",
        ":5: A->B.raymirror.site: it is read for a cluster, or at top level for all clusters;"
        " write A.raymirror.site or B.raymirror.site" + WARN,
    ),
    "a key of another library": Bad(
        GOOD + "A.sasl.username = me\n",
        ":5: A.sasl.username: this is a key of librdkafka; write A.sasl.jaas.config" + WARN,
    ),
    "topics under a cluster": Bad(
        GOOD + "A.topics = x\n",
        ":5: A.topics: has no effect under a cluster, as in MM2, so it selects nothing; write A->B.topics" + WARN,
    ),
    "an escape that is cut short": Bad(
        GOOD + "topics = \\u12\n",
        ":5: topics: a \\u without four hex digits; write four hex digits after \\u, or two backslashes",
    ),
    "a word for a number": Bad(
        GOOD + "tasks.max = many\n", ":5: tasks.max: 'many' is not a number; give a whole number from 1 to 10000"
    ),
    "a number below the least": Bad(
        GOOD + "A->B.refresh.topics.interval.seconds = 0\n",
        ":5: A->B.refresh.topics.interval.seconds: 0 is out of range; give a number from 1 to 2147483647",
    ),
    "a negative number": Bad(
        GOOD + "offset.storage.partitions = -3\n",
        ":5: offset.storage.partitions: -3 is out of range; give a number from 1 to 2147483647",
    ),
    "a number without end": Bad(
        GOOD + f"offset.lag.max = {'9' * 30}\n",
        f":5: offset.lag.max: '{'9' * 30}' is not a number; give a whole number from 0 to 9223372036854775807",
    ),
    "no replica": Bad(
        GOOD + "replication.factor = 0\n",
        ":5: replication.factor: 0 is out of range; give a number from 1 to 32767, or -1 (the broker's default)",
    ),
    "a word for a switch": Bad(
        GOOD + "sync.topic.acls.enabled = on\n",
        ":5: sync.topic.acls.enabled: 'on' is neither true nor false; write true or false",
    ),
    "a place that does not exist": Bad(
        GOOD + "offset-syncs.topic.location = both\n",
        ":5: offset-syncs.topic.location: 'both' is unknown; write source or target",
    ),
    "a bracket that is not closed": Bad(
        GOOD + "topics = orders(\n",
        ":5: topics: pattern 'orders(': missing ), unterminated subpattern at position 6" + REGEX,
    ),
    "a pattern of file names": Bad(
        GOOD + "topics = *.log\n",
        ":5: topics: pattern '*.log': nothing to repeat at position 0" + REGEX + ", e.g. .*.log",
    ),
    "a comma in a pattern": Bad(
        GOOD + "topics = x{1,3}\n",
        ":5: topics: pattern 'x{1': { does not start {m} or {m,n}; a list is split at every comma, so write {m,n} out"
        + REGEX,
    ),
    "a group of letters that is not closed": Bad(
        GOOD + "groups.exclude = [a\n",
        ":5: groups.exclude: pattern '[a': unterminated character set at position 0" + REGEX,
    ),
    "a separator that no topic may have": Bad(
        GOOD + "replication.policy.separator = /\n",
        ":5: replication.policy.separator: '/' is not allowed in a topic name; write letters, digits, '.', '_' or '-',"
        " without white space after them",
    ),
    "a policy in Java": Bad(
        GOOD + "replication.policy.class = com.acme.Names\n",
        ":5: replication.policy.class: unknown policy 'com.acme.Names'; use DefaultReplicationPolicy or"
        " IdentityReplicationPolicy, or install a Python package that provides it on every node (docs/policies.md);"
        " Java classes cannot run here",
    ),
    "a filter in Java": Bad(
        GOOD + "group.filter.class = com.acme.Groups\n",
        ":5: group.filter.class: unknown filter 'com.acme.Groups'; use DefaultGroupFilter, with groups and"
        " groups.exclude, or install a Python package that provides it on every node (docs/policies.md);"
        " Java classes cannot run here" + WARN,
    ),
    "the same names both ways": Bad(
        GOOD
        + "B->A.enabled = true\nreplication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n",
        ":6: replication.policy.class: IdentityReplicationPolicy in a loop: topic 'x' would be copied A -> B -> A in an"
        " endless loop; use DefaultReplicationPolicy for these flows, disable one, or give them topics that do not"
        " overlap",
    ),
    "offset syncs off, but their topic set": Bad(
        GOOD + "A->B.emit.offset-syncs.enabled = false\nA->B.offset-syncs.topic.location = target\n",
        ":6: A->B.offset-syncs.topic.location: set although A->B.emit.offset-syncs.enabled is false; remove one of the"
        " two, as MM2 requires",
    ),
    "transformations": Bad(
        GOOD + "transforms = mask\n",
        ":5: transforms: raymirror runs no transformations: records would arrive unchanged and unfiltered; remove the"
        " key if you want that" + WARN,
    ),
    "a converter": Bad(
        GOOD + "key.converter = org.apache.kafka.connect.json.JsonConverter\n",
        ":5: key.converter: raymirror runs no converters: keys and values would arrive byte for byte; remove the key if"
        " you want that, or write org.apache.kafka.connect.converters.ByteArrayConverter" + WARN,
    ),
    "records that are skipped": Bad(
        GOOD + "errors.tolerance = all\n",
        ":5: errors.tolerance: by default raymirror skips no record: if the target refuses one, the partition waits,"
        " and an event reports it; set raymirror.refused = skip, or quarantine to keep such records, instead" + WARN,
    ),
    "an interceptor in Java": Bad(
        GOOD + "A.consumer.interceptor.classes = com.acme.Mask\n",
        ":5: A.consumer.interceptor.classes: Java classes that read or change every record cannot run here; remove the"
        " key" + WARN,
    ),
    "an isolation that does not exist": Bad(
        GOOD + "A.consumer.isolation.level = committed\n",
        ":5: A.consumer.isolation.level: 'committed' is unknown; write read_committed or read_uncommitted",
    ),
    "a codec that does not exist": Bad(
        GOOD + "B.producer.compression.type = brotli\n",
        ":5: B.producer.compression.type: 'brotli' is unknown; write none, gzip, snappy, lz4 or zstd",
    ),
    "a start that is no start": Bad(
        GOOD + "A.consumer.auto.offset.reset = none\n",
        ":5: A.consumer.auto.offset.reset: 'none' is not a start; write earliest, latest or by_duration:PT6H; MM2's"
        " default is earliest",
    ),
    "a choice that does not exist": Bad(
        GOOD + "raymirror.source.gap = shrug\n",
        ":5: raymirror.source.gap: 'shrug' does not end in one of fail, continue; write pattern@choice, ..., e.g."
        " logs.*@continue; a choice without a pattern is for all topics",
    ),
    "a bandwidth without a number": Bad(
        GOOD + "raymirror.bandwidth.bytes = fast\n",
        ":5: raymirror.bandwidth.bytes: 'fast' does not end in a whole number of bytes per second; write bytes per"
        " second for the whole flow, pattern@bytes for topics, e.g. 50000000, logs.*@10000000",
    ),
    "fewer at most than at least": Bad(
        GOOD + "raymirror.copiers = 3\nraymirror.copiers.max = 2\n",
        ":6: raymirror.copiers.max: 2 is less than raymirror.copiers (3); give 3 or more",
    ),
    "a storage that does not exist": Bad(
        GOOD + "raymirror.storage = ftp://x\n",
        ":5: raymirror.storage: storage of kind 'ftp' is not supported; write file:/var/lib/raymirror,"
        " s3a://bucket/raymirror or gs://bucket/raymirror",
    ),
    "Spark for a job without Spark": Bad(
        GOOD + "raymirror.config.sync.on = spark\n",
        ":5: raymirror.config.sync.on: spark, but raymirror.spark is off; set raymirror.spark = on, or set this to"
        " actor",
    ),
    "a protocol that does not exist": Bad(
        GOOD + "A.security.protocol = TLS\n",
        ":5: A.security.protocol: 'TLS' is not a security protocol; use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    "no login": Bad(
        SASL,
        ": A.sasl.jaas.config: missing, but security.protocol asks for SASL; give a login module with"
        ' username="..." and password="..."; ${file:PATH:KEY} keeps the password out of this file',
    ),
    "a login without its semicolon": Bad(
        SASL + f'A.sasl.jaas.config = {PLAIN} username="u" password="p"\n',
        ":7: A.sasl.jaas.config: has no ; at its end; write a ; after the last option, as Kafka's clients require",
    ),
    "a quote that is not closed": Bad(
        SASL + f'A.sasl.jaas.config = {PLAIN} username="u" password="p;\n',
        ':7: A.sasl.jaas.config: has a quote that is not closed; put each value in double quotes, with \\" for a quote'
        " and \\\\ for a backslash inside; a properties file wants every backslash twice",
    ),
    "a login of another mechanism": Bad(
        SASL.replace("PLAIN", "SCRAM-SHA-512") + f'A.sasl.jaas.config = {PLAIN} username="u" password="p";\n',
        ":7: A.sasl.jaas.config: PlainLoginModule is for PLAIN, but sasl.mechanism is SCRAM-SHA-512; use"
        " org.apache.kafka.common.security.scram.ScramLoginModule, or set sasl.mechanism = PLAIN",
    ),
    "two logins": Bad(
        SASL + f'A.sasl.jaas.config = {PLAIN} username="u" password="p"; {PLAIN} username="v" password="q";\n',
        ":7: A.sasl.jaas.config: has 2 login modules; Kafka's clients take one: remove the others",
    ),
    "a login of one client that is none": Bad(
        SASL + f'A.sasl.jaas.config = {PLAIN} username="u" password="p";\nA.admin.sasl.jaas.config = nonsense\n',
        ":8: A.admin.sasl.jaas.config: has none of required, requisite, sufficient, optional behind the login module;"
        ' write MODULE required NAME="VALUE" ... ;',
    ),
    "other brokers for one client": Bad(
        GOOD + "A.consumer.bootstrap.servers = c:1\n",
        ":5: A.consumer.bootstrap.servers: all clients of a cluster use the same connection settings; write"
        " A.bootstrap.servers" + WARN,
    ),
    "a store of another provider": Bad(
        SSL + "A.ssl.truststore.type = BCFKS\nA.ssl.truststore.location = /x\n",
        ":6: A.ssl.truststore.type: BCFKS stores cannot be read; convert it: keytool -importkeystore -srckeystore STORE"
        " -destkeystore STORE.p12 -deststoretype PKCS12, and set ssl.truststore.type = PKCS12",
    ),
    "a login class in Java": Bad(
        GOOD + "A.sasl.login.class = com.acme.Vault\n",
        ":5: A.sasl.login.class: a Java class that logs in cannot run here; remove the key: engine/CONFIG.md names the"
        " logins that raymirror has" + WARN,
    ),
    "a provider in Java": Bad(
        GOOD + "config.providers = v\nconfig.providers.v.class = com.acme.Vault\n",
        ":6: config.providers.v.class: unknown config provider 'com.acme.Vault'; use one of FileConfigProvider,"
        " EnvVarConfigProvider, DirectoryConfigProvider",
    ),
    "a placeholder of nobody": Bad(
        GOOD + "topics = ${vault:a:b}\n",
        ":5: topics: cannot resolve a placeholder of provider 'vault'; use ${file:PATH:KEY}, ${env:NAME} or"
        " ${directory:PATH:FILE}",
    ),
    "an environment variable that is not set": Bad(
        GOOD + "topics = ${env:NEVER_SET_HERE}\n",
        ":5: topics: environment variable NEVER_SET_HERE is not set; set it for this process",
    ),
    "a secret's file that is not there": Bad(
        GOOD + "topics = ${file:/nowhere:key}\n",
        ":5: topics: cannot read /nowhere: No such file or directory; give a readable file",
    ),
    "a watch that is no watch": Bad(
        GOOD + "raymirror.reload = always\n", ":5: raymirror.reload: 'always' is unknown; write command or watch"
    ),
    "a connector's JSON": Bad(
        '{"name": "m", "config": {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}}',
        ":1: file: this is a connector's JSON for Kafka Connect; convert it with the file of the Connect workers:"
        " raymirror convert FILE WORKERS",
    ),
    "the settings of a consumer": Bad(
        "bootstrap.servers=a:1\ngroup.id=x\n",
        ": clusters: these are settings of one client, for MirrorMaker 1; convert it with the other client's file:"
        " raymirror convert CONSUMER PRODUCER --whitelist TOPICS",
    ),
}
TREES = {
    "a tab": Bad("clusters:\n\tA: x\n", ":2: YAML: found character '\\t' that cannot start any token" + YAML),
    "a list that is not closed": Bad(
        "clusters: [A, B\n", ":2: YAML: expected ',' or ']', but got '<stream end>'" + YAML
    ),
    "a name of nothing": Bad("clusters: *b\n", ":1: YAML: found undefined alias 'b'" + YAML),
    "a key that is set twice": Bad(
        "clusters: [A]\nclusters: [B]\n", ":2: clusters: set twice, first in line 1; keep one of the two"
    ),
    "words": Bad("just words\n", ":1: file: not a tree of keys; write KEY: VALUE lines, e.g. clusters: [A, B]"),
    "bytes that are no text": Bad(b"clusters: \xff\n", ":1: YAML: bytes that are not UTF-8; save the file as UTF-8"),
    "a word that is read in two ways": Bad(
        "clusters: [A, no]\n",
        ":1: clusters: a word that some YAML readers take for true or false; put the word into quotes; where a key"
        " takes true or false, write one of these",
    ),
    "a tree without end": Bad("a: " + "{b: " * 2000, ": YAML: nested too deeply; write keys with dots instead"),
    "a list for one value": Bad(
        "clusters: [A, B]\nA.bootstrap.servers: a:1\nB.bootstrap.servers: b:1\nA->B.enabled: true\ntasks.max: [1, 2]\n",
        ":5: tasks.max: a list, but this key takes one value; write the value without brackets or dashes",
    ),
    "a resource of Strimzi": Bad(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nspec: {}\n",
        ":1: file: this is Strimzi's custom resource, which an operator reads; convert it: raymirror convert FILE",
    ),
}


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # whoever imports Ray for this fails


def said(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run; return what it said, if that is one line, without the warnings that may be before it."""
    assert main(["run", str(path), "--json"]) == 2
    out = capsys.readouterr()
    assert out.out == ""
    (line,) = (one for one in out.err.splitlines() if not one.startswith("warning: "))
    return line


def test_there_are_sixty_at_least() -> None:
    assert len(PROPERTIES) + len(TREES) >= 60


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_file_of_properties(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(tmp_path / "mm2.properties", PROPERTIES[name], capsys)


@pytest.mark.parametrize("name", TREES)
def test_a_tree(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(tmp_path / "mirror.yaml", TREES[name], capsys)


def refused(path: Path, bad: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(bad.text.encode() if isinstance(bad.text, str) else bad.text)
    assert said(path, capsys) == f"raymirror run: {path}{bad.line}"
    assert [one.name for one in path.parent.iterdir()] == [path.name], "nothing is written"


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = tmp_path / "absent.properties"
    wrong = "file: cannot be read"
    assert said(absent, capsys) == f"raymirror run: {absent}: {wrong}: No such file or directory; give a readable file"
    assert said(tmp_path, capsys) == f"raymirror run: {tmp_path}: {wrong}: Is a directory; give a readable file"
