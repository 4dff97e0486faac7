"""The corpus: each file becomes exactly the settings of the table, and the text of the new file loads as they are."""

import json
from pathlib import Path

import msgspec
import pytest

from engine.base.errors import ConfigError
from engine.config.config import read_config
from engine.config.file.config_file import parse_file
from engine.convert.conversion import Conversion, convert
from engine.convert.model import InputFile, Options
from tests.unit.engine.convert.cases import CASES, Case, expected

CORPUS = Path(__file__).parent / "corpus"


def converted(case: Case) -> Conversion:
    return convert([InputFile(name, (CORPUS / name).read_bytes()) for name in case.files], case.options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_becomes_these_settings(case: Case) -> None:
    found = converted(case)
    assert {one.key: one.value for one in found.settings} == expected(case)
    assert [str(one.origin) for one in found.lost] == list(case.lost)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_new_file_loads(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References of other keys than logins are resolved when a file is read: here they lead to files that exist."""
    monkeypatch.setenv("RACK", "r1")
    servers = tmp_path / "quay.properties"
    servers.write_text("servers = quay:9092\n")
    for text in (converted(case).text, converted(case).printed):
        config = read_config(parse_file(text.replace("/etc/mirror/quay.properties", str(servers)).encode(), "m.yaml"))
        assert config.flows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_secret_is_in_the_file_and_nowhere_else(case: Case) -> None:
    found = converted(case)
    shown = (found.printed, repr(found), repr(found.settings), repr(found.dropped), repr(found.secrets))
    assert "PLANTED" not in "".join(shown)
    assert [one.key for one in found.secrets] == [one.key for one in found.settings if "PLANTED" in one.value]


@pytest.mark.parametrize(
    ("name", "unknown"), [("connect-three", True), ("strimzi-v1beta2", True), ("mm2", True), ("strimzi-v1", False)]
)
def test_what_an_mm2_of_unknown_age_may_leave_out_is_noted(name: str, unknown: bool) -> None:
    (case,) = (one for one in CASES if one.name == name)
    assert ("if this MM2 is older than Kafka 4.0" in converted(case).text.replace("\n#  ", "")) is unknown


def test_each_file_of_the_corpus_is_used() -> None:
    assert {name for case in CASES for name in case.files} == {path.name for path in CORPUS.iterdir()}
    assert len(list(CORPUS.iterdir())) >= 40


def test_each_planted_secret_is_one_of_its_own() -> None:
    texts = [path.read_text() for path in CORPUS.iterdir()]
    planted = [word for text in texts for word in text.replace('"', " ").replace("=", " ").replace(";", " ").split()]
    secrets = [word for word in planted if word.startswith("PLANTED-")]
    assert len(secrets) == len(set(secrets)) > 8
    assert json.loads((CORPUS / "strimzi-list.json").read_text())["items"][1]["data"]["password"]


CONNECTOR = '{"name": "n", "connector.class": "MirrorSourceConnector"'
MIRROR = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n"
TARGET = '"target.cluster.bootstrap.servers": "t:1"'
SOURCE = "{alias: s, bootstrapServers: 's:1'}"
LOGIN = "  target: {alias: t, bootstrapServers: 't:1', authentication: {type: plain}}"
CONSUMER, PRODUCER = "bootstrap.servers=a:1\ngroup.id=g\n", "bootstrap.servers=b:1\nacks=all\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([("a.json", "")], "a.json: file: empty; give MirrorMaker 1's consumer"),
        ([("a.yaml", "")], "a.yaml: file: empty"),
        ([("a.yaml", "# nothing\n---\n")], "a.yaml: file: empty"),
        ([("a.txt", "# nothing\n")], "a.txt: file: empty"),
        ([("a.json", "{")], "a.json:1: JSON: Expecting property name"),
        ([("a.json", '{"a": 1,\n"b": }')], "a.json:2: JSON: Expecting value"),
        ([("a.json", "[" * 2000 + "]" * 2000)], "a.json: JSON: nested too deeply"),
        ([("a.json", "[" * 50 + "]" * 50)], "a.json:1: JSON: nested too deeply"),
        ([("a.json", "[1]")], "a.json:1: [0]: no connector is in it"),
        ([("a.json", "{}")], "a.json:1: file: no connector is in it"),
        ([("a.json", "[]")], "a.json:1: file: no connector is in it"),
        ([("a.json", '{"x": {"status": {}}}')], "a.json:1: x: the state of a connector, without its configuration"),
        (
            [("a.json", f"{CONNECTOR}}}")],
            "a.json:1: file: source.cluster.alias is missing; give it with --source-alias",
        ),
        (
            [("a.json", f'{CONNECTOR}, "source.cluster.alias": "s"}}')],
            "a.json:1: file: the addresses of cluster 's' are missing; give them with --source-bootstrap",
        ),
        (
            [("a.json", f'{CONNECTOR}, "source.cluster.alias": "s t"}}')],
            "a.json:1: source.cluster.alias: 's t' is no alias; name a cluster with letters",
        ),
        (
            [("a.json", f'{CONNECTOR}, "source.cluster.alias": "target"}}')],
            "command line: --target-alias: source and target have one alias, 'target'",
        ),
        (
            [
                (
                    "a.json",
                    f'{CONNECTOR}, "source.cluster.alias": "s", {TARGET},\n"source.cluster.bootstrap.servers": "x"}}',
                )
            ],
            "a.json:2: source.cluster.bootstrap.servers: 'x' is not an address; write host:port",
        ),
        ([("a.json", f'{CONNECTOR}, "topics": ["a"]}}')], "a.json:1: topics: not a single value; write one value"),
        ([("a.json", '{"name": "n", "connector.class": "JdbcSource"}')], "a.json:1: file: there is no mirror in it"),
        ([("a.yaml", "a: b: c")], "a.yaml:1: YAML: mapping values are not allowed here"),
        ([("a.yaml", "a: \t b\n\t")], "a.yaml:1: YAML: found character"),
        ([("a.yaml", "kind: !!binary aGk=")], "a.yaml:1: kind: tags are not supported"),
        ([("a.yaml", 'a: "\\UFFFFFFFF"')], "a.yaml: YAML: a character that YAML does not allow"),
        ([("a.yaml", "a: 1\na: 2")], "a.yaml:2: a: set twice; keep one of the two"),
        ([("a.yaml", "x: &x {y: *x}")], "a.yaml:1: x.y: an anchor that contains itself"),
        ([("a.yaml", "x: &x {y: 1}\nz: {<<: *x}")], "a.yaml:2: z.<<: merge keys are not supported"),
        ([("a.yaml", "? [a]\n: b")], "a.yaml:1: YAML: a key that is no word"),
        ([("a.yaml", "- " * 50 + "a")], "a.yaml:1: "),
        ([("a.yaml", "just words")], "a.yaml:1: file: no connector is in it"),
        ([("a", MIRROR)], "a:1: spec.mirrors: no mirror is in it"),
        ([("a", f"{MIRROR}spec: 3")], "a:3: spec: not a tree of keys"),
        ([("a", f"{MIRROR}spec: {{mirrors: 3}}")], "a:3: spec.mirrors: not a list"),
        ([("a", f"{MIRROR}spec: {{mirrors: [3]}}")], "a:3: spec.mirrors[0]: not a tree of keys"),
        (
            [("a", f"{MIRROR}spec: {{mirrors: [{{sourceConnector: {{}}}}]}}")],
            "a:3: spec.mirrors[0].sourceCluster: missing; name the source",
        ),
        (
            [("a", f"{MIRROR}spec:\n  clusters: [{{alias: b}}]\n  mirrors: [{{sourceCluster: a, targetCluster: b}}]")],
            "a:5: spec.mirrors[0].sourceCluster: 'a' is not in spec.clusters; name one of them (b)",
        ),
        (
            [("a", f"{MIRROR}spec: {{target: {{alias: t}}, mirrors: [{{source: {{alias: s}}}}]}}")],
            "a:3: spec.mirrors[0].source.bootstrapServers: missing",
        ),
        (
            [
                (
                    "a",
                    f"{MIRROR}spec: {{target: {{alias: t, bootstrapServers: 't:1'}}, mirrors: [{{source: {SOURCE}}}]}}",
                )
            ],
            "a:3: spec.mirrors[0]: the mirror has no connector",
        ),
        (
            [
                (
                    "a",
                    f"{MIRROR}spec:\n  mirrors: [{{source: {SOURCE}, sourceConnector: {{}}}}]\n{LOGIN}",
                )
            ],
            "a:5: spec.target.authentication.username: missing; name the user",
        ),
        ([("a", "apiVersion: v1\nkind: Secret\n")], "a:2: kind: there is no mirror in it"),
        ([("c", "hello = world\n")], "c: file: nothing in it shows what it is"),
        ([("c", "sasl.username=x\nbootstrap.servers=b:1")], "c:1: sasl.username: this is a key of librdkafka"),
        ([("c", CONSUMER)], "c: file: the producer's file is missing"),
        ([("p", PRODUCER)], "p: file: the consumer's file is missing"),
        ([("c", CONSUMER), ("d", CONSUMER), ("p", PRODUCER)], "d: file: a second consumer's file; give one"),
        ([("c", "zookeeper.connect=z:1"), ("p", PRODUCER)], "c: file: the addresses of cluster 'source' are missing"),
        ([("w", "offset.storage.topic=o\n")], "w: file: the settings of Connect workers alone say nothing of a mirror"),
        ([("m", "topic.a topic.b\n")], "m: file: names of topics alone say nothing of a mirror"),
        (
            [("c", CONSUMER), ("p", PRODUCER), ("w", "offset.storage.topic=o\n")],
            "w: file: the settings of Connect workers do not belong to MirrorMaker 1; leave this file out",
        ),
        ([("m", "clusters=a,b\n"), ("w", "offset.storage.topic=o\n")], "w: file: the settings of Connect workers do"),
        ([("m", "clusters=a,b\n"), ("n", "clusters=a,b\n")], "n: file: a second mm2.properties"),
        ([("m", "clusters=a,b\nbootstrap.servers=h:1\n")], "m: clusters: no flow is enabled"),
        ([("m", "a->b.enabled=true\n")], "m: clusters: "),
        (
            [("u", "kafka.cluster.servers.a=a:1\nkafka.cluster.servers.b=b:1\n")],
            "u: file: it is not clear which of a, b is the source",
        ),
        ([("c", "a = \\u12\n")], "c:1: a: a \\u without four hex digits"),
    ],
)
def test_an_input_that_cannot_be_converted(files: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        convert([InputFile(name, text.encode()) for name, text in files], Options())
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("clusters".encode("utf-16"), "f: file: saved as UTF-16"),
        (b'{"name": "\xff"}', "f:1: file: bytes that are not UTF-8"),
        (b"apiVersion: v1\nkind: \xff\n", "f:2: file: bytes that are not UTF-8"),
        (b"\xef\xbb\xbf{", "f:1: JSON: Expecting"),
    ],
)
def test_bytes_that_are_no_text(data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        convert([InputFile("f", data)], Options())
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize("name", ["whitelist", "blacklist", "num_streams", "message_handler"])
@pytest.mark.parametrize("file", ["connect-one.json", "replicator-replication.properties", "mm2.properties"])
def test_an_option_of_mirrormaker_1_beside_other_files(name: str, file: str) -> None:
    option = name.replace("_", ".")
    with pytest.raises(ConfigError, match=f"^command line: --{option}: it does not belong to "):
        convert([InputFile(file, (CORPUS / file).read_bytes())], msgspec.structs.replace(Options(), **{name: "x"}))


def test_workers_of_which_nobody_knows_the_target() -> None:
    names = ("connect-both-ways.json", "connect-worker.properties")
    with pytest.raises(ConfigError, match="it is not clear which of west, east these workers write to"):
        convert([InputFile(name, (CORPUS / name).read_bytes()) for name in names], Options())
