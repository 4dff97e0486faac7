"""MirrorConfig from mm2.properties: clusters, flows, errors, warnings, digest."""

from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from engine.base.errors import ConfigError
from engine.config.config import load_config
from policies.model import FlowName
from tests.unit.engine.config_files import BASE, mirror


def test_the_smallest_configuration(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(BASE)
    config = load_config(file)
    assert config.file == str(file)
    assert config.clusters["A"].bootstrap == (("a1", 9092), ("a2", 9092))
    assert [flow.name for flow in config.flows] == [FlowName("A", "B")]
    assert config.flow(FlowName("A", "B")) is config.flows[0]
    assert config.warnings == ()
    with pytest.raises(KeyError):
        config.flow(FlowName("B", "A"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; give a readable file"):
        load_config(tmp_path / "none.properties")


@pytest.mark.parametrize(
    ("text", "line", "key", "wrong"),
    [
        ("", 0, "clusters", "missing"),
        ("clusters =", 1, "clusters", "empty"),
        ("clusters = A, B\nA.bootstrap.servers = h:1", 0, "B.bootstrap.servers", "missing"),
        ("clusters = A\nA.bootstrap.servers =", 2, "A.bootstrap.servers", "empty"),
        ("clusters = A\nA.bootstrap.servers = h", 2, "A.bootstrap.servers", "'h' is not an address"),
        ("clusters = A\nA.bootstrap.servers = h:x", 2, "A.bootstrap.servers", "'h:x' is not an address"),
        ("clusters = A\nA.bootstrap.servers = :1", 2, "A.bootstrap.servers", "':1' is not an address"),
        ("clusters = A\nA.bootstrap.servers = h:70000", 2, "A.bootstrap.servers", "'h:70000' is not an address"),
        ("clusters = A\nA.bootstrap.servers = a..b:1", 2, "A.bootstrap.servers", "'a..b:1' is not an address"),
        (
            "clusters = A\nA.bootstrap.servers = me:c4n4ry@h:1",
            2,
            "A.bootstrap.servers",
            "an address has a user name before its host",
        ),
        ("clusters = A\nA.bootstrap.servers = h h:1", 2, "A.bootstrap.servers", "'h h:1' is not an address"),
        ("clusters = A\nA.bootstrap.servers = ::1:1", 2, "A.bootstrap.servers", "'::1:1' is not an address"),
        ("clusters = A\nbootstrap.servers = h:1", 1, "clusters", "no flow is enabled"),
        ("clusters = A, b->c\nbootstrap.servers = h:1", 1, "clusters", "alias 'b->c' contains ->"),
        (
            "clusters = ä, b\nbootstrap.servers=h:1\nä->b.enabled=true",
            1,
            "clusters",
            "'ä' is not allowed in a topic name",
        ),
        ("clusters = A, B\nbootstrap.servers = h:1", 1, "clusters", "no flow is enabled"),
    ],
)
def test_clusters_that_cannot_be_used(text: str, line: int, key: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(base=text)
    assert (caught.value.file, caught.value.line, caught.value.key) == ("mm2.properties", line, key)
    assert caught.value.wrong == wrong


@pytest.mark.parametrize(
    ("line", "key", "wrong"),
    [
        ("A->C.enabled = true", "A->C.enabled", "cluster 'C' is not in clusters"),
        ("C->A.topics = x", "C->A.topics", "cluster 'C' is not in clusters"),
        ("A->Bx.topics = x", "A->Bx.topics", "cluster 'Bx' is not in clusters"),
        ("A->A.enabled = true", "A->A.enabled", "a flow from a cluster to itself"),
        ("A->B.topics = (", "A->B.topics", "pattern '(': missing ), unterminated subpattern at position 0"),
        ("topics.exclude = a{1,3}", "topics.exclude", "pattern 'a{1': { does not start {m} or {m,n}"),
        ("A->B.config.properties.exclude = [", "A->B.config.properties.exclude", "pattern '[': "),
        ("replication.factor = three", "replication.factor", "'three' is not a number"),
        ("A->B.replication.factor = 0", "A->B.replication.factor", "0 is out of range"),
        ("A->B.replication.factor = 40000", "A->B.replication.factor", "40000 is out of range"),
        ("replication.policy.class = X", "replication.policy.class", "unknown policy 'X'"),
        ("A.consumer.isolation.level = some", "A.consumer.isolation.level", "'some' is unknown"),
        ("A.consumer.auto.offset.reset = none", "A.consumer.auto.offset.reset", "'none' is not a start"),
        ("raymirror.start = x", "raymirror.start", "'x' has no @"),
        ("raymirror.start = x@never", "raymirror.start", "'never' is not a start"),
        ("raymirror.refused = x@drop", "raymirror.refused", "'x@drop' does not end in one of stop, skip, quarantine"),
        ("raymirror.source.gap = x@append", "raymirror.source.gap", "'x@append' does not end in one of fail, continue"),
        (
            "A->B.raymirror.topic.recreated = (@append",
            "A->B.raymirror.topic.recreated",
            "pattern '(': missing ), unterminated subpattern at position 0",
        ),
        ("raymirror.foreign.writer = ask", "raymirror.foreign.writer", "'ask' is unknown"),
        ("refresh.topics.enabled = maybe", "refresh.topics.enabled", "'maybe' is neither true nor false"),
        ("refresh.topics.interval.seconds = 0", "refresh.topics.interval.seconds", "0 is out of range"),
        ("B->A.enabled = yes", "B->A.enabled", "'yes' is neither true nor false"),
        ("B->A.enabled = true # why", "B->A.enabled", "'true # why' is neither true nor false"),
        ("raymirror.copiers = 1_0", "raymirror.copiers", "'1_0' is not a number"),
        ("raymirror.copiers = ²", "raymirror.copiers", "'²' is not a number"),
        ("raymirror.copiers.max = 0", "raymirror.copiers.max", "0 is out of range"),
        ("replication.policy.separator = ", "replication.policy.separator", "'' is not allowed in a topic name"),
        ("replication.policy.separator = _ ", "replication.policy.separator", "'_ ' is not allowed in a topic name"),
        ("config.providers = x", "config.providers.x.class", "unknown config provider ''"),
        ("A->B.topics = ${env:RAYMIRROR_NOT_SET}", "A->B.topics", "environment variable RAYMIRROR_NOT_SET is not set"),
        ("B.security.protocol = abc", "B.security.protocol", "'ABC' is not a security protocol"),
    ],
)
def test_bad_input_names_its_line(line: str, key: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(line)
    where = 0 if key == "config.providers.x.class" else 5
    assert (caught.value.line, caught.value.key) == (where, key)
    assert caught.value.wrong.startswith(wrong)
    assert caught.value.right


IDENTITY = "replication.policy.class = IdentityReplicationPolicy\n"


def test_identity_naming_in_a_loop_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(IDENTITY + "B->A.enabled = true\n")
    assert "IdentityReplicationPolicy in a loop: topic 'x' would be copied A -> B -> A" in str(caught.value)
    assert caught.value.line == 5


def test_identity_naming_both_ways_of_other_topics_is_fine() -> None:
    extra = IDENTITY + "B->A.enabled = true\nA->B.topics = orders.*\nB->A.topics = payments.*\n"
    assert len(mirror(extra).flows) == 2


THREE = """\
clusters = A, B, C
bootstrap.servers = h:1
A->C.enabled = true
B->C.enabled = true
A->C.topics = orders
B->C.topics = orders, x.*
"""


def test_two_flows_into_one_topic_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(IDENTITY, THREE)
    assert "A->C and B->C both write topic 'orders' on cluster 'C'" in str(caught.value)
    assert caught.value.line == 6
    assert len(mirror("", THREE).flows) == 2


def test_aliases_with_dots() -> None:
    base = "clusters = eu.west, eu\nbootstrap.servers = h:1\neu->eu.west.enabled = true\neu.west->eu.topics = x\n"
    assert [flow.name for flow in mirror("", base).flows] == [FlowName("eu", "eu.west")]


def test_addresses_as_kafka_reads_them() -> None:
    config = mirror("", BASE.replace("a1:9092, a2:9092", "SSL://a1:9092, [::1]:9093"))
    assert config.clusters["A"].bootstrap == (("a1", 9092), ("::1", 9093))


def test_an_alias_that_begins_like_another() -> None:
    base = (
        "clusters = us, us-east, us.east\nbootstrap.servers = h:1\nus-east.bootstrap.servers = e:1\n"
        "us.east.bootstrap.servers = d:1\nus->us-east.enabled = true\nus->us.east.topics = x\n"
        "us-east.replication.factor = 3\n"
    )
    config = mirror("us.consumer.client.rack = r\nus-east->us.consumer.client.rack = q\n", base)
    assert {alias: cluster.bootstrap[0][0] for alias, cluster in config.clusters.items()} == {
        "us": "h",
        "us-east": "e",
        "us.east": "d",
    }
    (flow,) = config.flows
    assert (flow.name, flow.topics, flow.fetch.rack) == (FlowName("us", "us-east"), (".*",), "r")
    (warning,) = config.warnings
    assert (warning.key, "has no effect under a cluster" in warning.what) == ("us-east.replication.factor", True)


def test_aliases_that_hold_the_separator() -> None:
    base = "clusters = us.east, eu.west\nbootstrap.servers = h:1\nus.east->eu.west.enabled = true\n"
    assert "alias 'us.east' contains the separator '.'" in str(mirror("", base).warnings)
    assert mirror("replication.policy.separator = _\n", base).warnings == ()
    both = base + "eu.west->us.east.enabled = true\n"
    with pytest.raises(
        ConfigError, match=r"clusters: flows in a loop have different separators, or aliases contain one"
    ):
        mirror("", both)
    assert len(mirror("replication.policy.separator = _\n", both).flows) == 2


def test_identity_naming_in_a_loop_of_three_names_the_key() -> None:
    base = (
        "clusters = A, B, C\nbootstrap.servers = h:1\nA->B.enabled = true\nB->C.enabled = true\nC->A.enabled = true\n"
    )
    with pytest.raises(ConfigError, match=r"mm2.properties:6: replication\.policy\.class: .* A -> B -> C -> A"):
        mirror(IDENTITY, base)
    own = "".join(f"{name}.{IDENTITY}" for name in ("A->B", "B->C", "C->A"))
    with pytest.raises(ConfigError, match=r"mm2.properties:6: A->B\.replication\.policy\.class: "):
        mirror(own, base)
    assert len(mirror(f"B->C.{IDENTITY}", base).flows) == 3


def test_two_flows_into_one_topic_name_the_key_that_is_set() -> None:
    base = "clusters = A, B, C\nbootstrap.servers = h:1\nA->C.enabled = true\nB->C.enabled = true\n"
    with pytest.raises(ConfigError, match=r"mm2.properties:6: topics: A->C and B->C both write topic 'orders'"):
        mirror(IDENTITY.strip() + "\ntopics = orders\n", base)


def test_keys_of_flows_that_are_off_are_no_news() -> None:
    extra = (
        "B->A.topics = x\nB->A.replication.factor = 3\nB.consumer.isolation.level = read_committed\n"
        "A.offset.flush.interval.ms = 1000\nB->A.producer.override.acks = all\n"
    )
    assert mirror(extra).warnings == ()


def test_isolation_differs_from_mm2_and_that_is_said_once() -> None:
    (note,) = mirror().notes
    assert note.key == "A->B.source.consumer.isolation.level"
    assert "MM2 copies open and aborted transactions" in note.what
    assert mirror("A.consumer.isolation.level = read_uncommitted\n").notes == ()


def test_what_nobody_reads_is_warned_of_with_its_line() -> None:
    config = mirror("metric.reporters = x\nA->B.sync.nothing = source\n")
    first, second = config.warnings
    assert str(first).startswith("line 5: metric.reporters: Java classes that report metrics cannot run here")
    assert str(second).startswith("line 6: A->B.sync.nothing: not a key of MM2 or raymirror")


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("x.bootstrap.servers = h:1\n", "line 5: x.bootstrap.servers: cluster 'x' is not in clusters"),
        ("B.producer.acks = 1\n", "line 5: B.producer.acks: not used: every append waits"),
        ("A.consumer.fetch.max.bytes = 52428800\n", "line 5: A.consumer.fetch.max.bytes: 52428800 is above the limit"),
        (
            "A->B.producer.override.max.in.flight.requests.per.connection = 9999\n",
            "is above the limit; raymirror uses 1024",
        ),
        ("x = 1 # why\n", "part of the value"),
    ],
)
def test_warnings(extra: str, expected: str) -> None:
    assert any(expected in str(warning) for warning in mirror(extra).warnings)


BACK, FORTH = FlowName("B", "A"), FlowName("A", "B")


@pytest.mark.parametrize(
    ("extra", "flows", "warns"),
    [
        ("B->A.enabled = true \n", [FORTH, BACK], "white space behind true"),
        ("B->A.enabled = true \nemit.heartbeats.enabled = false\n", [FORTH], "white space behind true"),
        ("B->A.enabled = true \nB->A.emit.heartbeats.enabled = false\n", [FORTH], "white space behind true"),
        ("enabled = true\n", [FORTH, BACK], "at top level it switches on every pair"),
        ("enabled = true\nB->A.enabled = false\n", [FORTH], ""),
        ("enabled = true\nemit.heartbeats.enabled = false\n", [FORTH], ""),
        ("B->A.enabled = TRUE\n", [FORTH, BACK], ""),
        ("B->A.topics = x\n", [FORTH], ""),
    ],
)
def test_which_flows_are_on(extra: str, flows: list[FlowName], warns: str) -> None:
    config = mirror(extra)
    assert [flow.name for flow in config.flows] == flows
    said = [warning.what for warning in config.warnings]
    assert [warns in what for what in said] == [True] * bool(warns)


def test_a_top_level_key_warns_once_for_all_flows() -> None:
    warnings = mirror("B->A.enabled = TRUE\nconsumer.fetch.max.bytes = 52428800\n").warnings
    assert [warning.key for warning in warnings] == ["consumer.fetch.max.bytes"]


def test_honoured_acks_and_copiers_are_quiet() -> None:
    assert mirror("B.producer.acks = -1\ntasks.max = 4\nraymirror.copiers = 2\nB->A.enabled = false\n").warnings == ()


SECRET = 'A.sasl.jaas.config = M required username="u" password="hunter2";\nA.ssl.key.password = hunter2\n'


def test_secrets_are_in_no_text_and_the_digest_is_of_every_value() -> None:
    config = mirror(SECRET)
    for text in (repr(config), pretty_repr(config), pretty_repr(config.clusters["A"]), str(config.warnings)):
        assert "hunter2" not in text
    assert config.digest != mirror(SECRET.replace("hunter2", "other")).digest
    assert config.digest != mirror(SECRET.replace("ssl.key", "key")).digest
    assert config.digest == mirror("# a comment\n" + "\n".join(reversed(SECRET.splitlines()))).digest


def test_the_deployment_id() -> None:
    assert mirror("raymirror.deployment.id = blue\n").deployment_id == "blue"
    assert mirror().deployment_id == ""


def test_the_most_copiers_are_not_less_than_the_fewest() -> None:
    with pytest.raises(ConfigError, match=r"raymirror\.copiers\.max: 2 is less than raymirror\.copiers \(3\)"):
        mirror("raymirror.copiers = 3\nraymirror.copiers.max = 2\n")


def test_a_file_is_watched_only_if_it_says_so() -> None:
    assert [mirror(text).is_watched for text in ("", "raymirror.reload = command\n", "raymirror.reload = watch\n")] == [
        False,
        False,
        True,
    ]
    with pytest.raises(ConfigError, match=r"raymirror\.reload: 'always' is unknown; write command or watch"):
        mirror("raymirror.reload = always\n")
