"""The configuration of one flow: defaults, and the precedence of levels."""

import pytest

from engine.base.errors import ConfigError
from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import DEFAULT_EXCLUDE
from policies.start import Duration, Earliest, Latest, Timestamp
from tests.unit.engine.config_files import BASE, flow, mirror

MIB = 1024 * 1024


def test_defaults() -> None:
    found = flow()
    assert (found.topics, found.topics_exclude) == ((".*",), DEFAULT_EXCLUDE)
    assert type(found.naming) is DefaultNaming
    assert found.naming.separator == "."
    assert (found.replication_factor, found.refresh_topics_s, found.refresh_topics) == (2, 5.0, True)
    assert found.fetch.read_committed
    assert (found.fetch.max_bytes, found.partition_fetch_bytes, found.fetch.rack) == (4 * MIB, MIB // 2, "")
    assert (found.range_bytes, found.source_connections) == (8 * MIB, 64)
    assert (found.positions_topic, found.positions_partitions, found.positions_replication_factor) == (
        "mm2-offsets.A.internal",
        25,
        3,
    )
    assert (found.flush_s, found.max_in_flight, found.request_timeout_s) == (60.0, 1024, 30.0)
    assert (found.copiers, found.buffer_budget_bytes, found.stop_on_foreign_writer) == (1, 64 * MIB, True)
    assert found.starts.start_for("t") == Earliest()
    assert found.configs_exclude.matches("min.insync.replicas")


@pytest.mark.parametrize(
    ("lines", "topics"),
    [
        (["topics = x"], ("x",)),
        (["A->B.topics = y", "topics = x"], ("y",)),
        (["B->A.topics = z", "topics = x"], ("x",)),
        (["topics ="], ()),
        (["A->B.topics = a, b\\\\.c ,"], ("a", r"b\.c")),
    ],
)
def test_flow_level_wins_over_top_level(lines: list[str], topics: tuple[str, ...]) -> None:
    assert flow("\n".join(lines)).topics == topics


CONSUMER = {
    "A->B.source.consumer.isolation.level": 1,
    "A.consumer.isolation.level": 2,
    "A->B.consumer.isolation.level": 3,
}


def test_layers_of_the_consumer() -> None:
    keys = list(CONSUMER)
    for rank, winner in enumerate(keys):
        lines = [f"{winner} = read_uncommitted", *(f"{key} = read_committed" for key in keys[rank + 1 :])]
        assert not flow("\n".join(lines)).fetch.read_committed, winner
    assert flow("consumer.isolation.level = read_uncommitted").fetch.read_committed
    assert flow("A.isolation.level = read_uncommitted").fetch.read_committed


def test_layers_of_the_producer() -> None:
    cluster, own = "B.producer.request.timeout.ms = 1000\n", "A->B.producer.override.request.timeout.ms = 2000\n"
    assert flow(cluster).request_timeout_s == 1.0
    assert flow(cluster + own).request_timeout_s == 2.0
    assert flow("A->B.producer.request.timeout.ms = 1000\nproducer.request.timeout.ms = 1000\n").request_timeout_s == 30


def test_storage_keys_of_the_top_level_win() -> None:
    own, top = "B.offset.storage.topic = own\n", "offset.storage.topic = top\n"
    assert flow(own).positions_topic == "own"
    assert flow(own + top).positions_topic == "top"
    assert flow("A->B.offset.storage.topic = flow\n").positions_topic == "mm2-offsets.A.internal"
    assert flow("offset.storage.partitions = 5\noffset.storage.replication.factor = 1\n").positions_partitions == 5


def test_the_flush_interval_counts_at_the_target_cluster_only() -> None:
    assert flow("B.offset.flush.interval.ms = 1000\n").flush_s == 1.0
    found = mirror("offset.flush.interval.ms = 1000\n")
    assert found.flows[0].flush_s == 60.0
    assert "offset.flush.interval.ms" in str(found.warnings[0])


def test_what_maps_to_a_fetch() -> None:
    found = flow(
        "A.consumer.fetch.max.wait.ms = 100\nA.consumer.fetch.min.bytes = 1000\nA.consumer.fetch.max.bytes = 2000\n"
        "A.consumer.max.partition.fetch.bytes = 3000\nA.consumer.client.rack = r1\n"
    )
    assert (found.fetch.max_wait_s, found.fetch.min_bytes, found.fetch.max_bytes) == (0.1, 1000, 2000)
    assert (found.partition_fetch_bytes, found.range_bytes, found.fetch.rack) == (3000, 2000, "r1")


def test_naming_per_flow() -> None:
    found = flow(
        "A->B.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
        "replication.policy.separator = __\nreplication.policy.internal.topic.separator.enabled = false\n"
    )
    assert isinstance(found.naming, IdentityNaming)
    assert found.naming.separator == "__"
    assert found.naming.checkpoints_topic("A") == "A.checkpoints.internal"
    assert found.selection.target_topic("t") == "t"


def test_heartbeats_and_configs_can_be_left_behind() -> None:
    found = flow("heartbeats.replication.enabled = false\ntopics = x\nconfig.properties.exclude = retention.*\n")
    assert not found.selection.wants("heartbeats")
    assert found.configs_exclude.matches("retention.ms")
    assert not found.configs_exclude.matches("min.insync.replicas")


def test_starts() -> None:
    found = flow(
        "A->B.raymirror.start = orders.*@latest, audit@2026-01-01T00:00:00Z, .*x@-PT6H\n"
        "A.consumer.auto.offset.reset = latest\n"
    )
    assert found.starts.start_for("orders-1") == Latest()
    assert found.starts.start_for("audit") == Timestamp(1_767_225_600_000)
    assert found.starts.start_for("x") == Duration(21_600)
    assert found.starts.start_for("other") == Latest()


def test_our_own_keys() -> None:
    found = flow(
        "raymirror.copiers = 3\nA->B.raymirror.copier.memory.bytes = 16777216\nraymirror.foreign.writer = continue\n"
        "refresh.topics.interval.seconds = 60\nrefresh.topics.enabled = false\nreplication.factor = -1\n"
    )
    assert (found.copiers, found.buffer_budget_bytes, found.stop_on_foreign_writer) == (3, 16 * MIB, False)
    assert (found.refresh_topics_s, found.refresh_topics, found.replication_factor) == (60.0, False, -1)


def test_how_many_copiers() -> None:
    found = flow("topics = x\n")
    assert (found.copiers, found.most_copiers, found.target_drain_s) == (1, 1, 600.0)
    found = flow("tasks.max = 8\n")
    assert (found.copiers, found.most_copiers) == (1, 8)
    found = flow("tasks.max = 8\nraymirror.copiers = 2\nraymirror.copiers.max = 3\n")
    assert (found.copiers, found.most_copiers) == (2, 3)
    found = flow("raymirror.copiers = 4\n")
    assert (found.copiers, found.most_copiers) == (4, 4)


def test_placeholders_in_plain_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TEST_TOPICS", "a, b")
    assert flow("topics = ${env:RAYMIRROR_TEST_TOPICS}\n").topics == ("a", "b")


def pairs(extra: str, base: str = BASE) -> dict[FlowName, set[FlowName]]:
    return {found.name: {one.pair for one in found.heartbeats} for found in mirror(extra, base).flows}


def test_every_pair_of_clusters_has_heartbeats_as_in_mm2() -> None:
    there, back = FlowName("A", "B"), FlowName("B", "A")
    assert pairs("") == {there: {there, back}}
    assert pairs("B->A.enabled = true\n") == {there: {there}, back: {back}}
    assert pairs("emit.heartbeats.enabled = false\n") == {there: set()}
    assert pairs("emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true\n") == {there: {back}}
    assert pairs("A->B.emit.heartbeats.enabled = false\n") == {there: {back}}


def test_pairs_that_are_no_flow_are_looked_after_by_one_beside_them() -> None:
    base = BASE.replace("A, B", "A, B, C") + "C.bootstrap.servers = c:9092\nC->B.enabled = true\n"
    found = pairs("", base)
    assert found[FlowName("A", "B")] == {FlowName("A", "B"), FlowName("B", "A"), FlowName("A", "C"), FlowName("C", "A")}
    assert found[FlowName("C", "B")] == {FlowName("C", "B"), FlowName("B", "C")}


def test_the_heartbeats_of_a_pair() -> None:
    keys = "B->A.emit.heartbeats.interval.seconds = 5\nheartbeats.topic.replication.factor = 2\n"
    (own, back) = flow(keys).heartbeats
    assert (own.topic, own.every_s, own.replication_factor) == ("heartbeats", 1.0, 2)
    assert (back.topic, back.every_s, back.replication_factor) == ("heartbeats", 5.0, 2)
    with pytest.raises(ConfigError, match=r"emit.heartbeats.interval.seconds: 0 is out of range"):
        flow("emit.heartbeats.interval.seconds = 0\n")
    with pytest.raises(ConfigError, match=r"heartbeats.topic.replication.factor: 0 is out of range"):
        flow("heartbeats.topic.replication.factor = 0\n")


def test_where_offset_syncs_go() -> None:
    syncs = flow().syncs
    assert (syncs.enabled, syncs.cluster, syncs.topic) == (True, "A", "mm2-offset-syncs.B.internal")
    assert (syncs.lag_max, syncs.replication_factor) == (100, 0)
    syncs = flow("offset-syncs.topic.location = target\nreplication.policy.separator = _\n").syncs
    assert (syncs.cluster, syncs.topic) == ("B", "mm2-offset-syncs_A_internal")
    with pytest.raises(ConfigError, match=r"offset-syncs.topic.location: 'here' is unknown"):
        flow("offset-syncs.topic.location = here\n")


@pytest.mark.parametrize(
    "key",
    [
        "offset-syncs.topic.location",
        "A->B.offset-syncs.topic.replication.factor",
        "A->B.offset-syncs-source-producer.acks",
    ],
)
def test_settings_of_syncs_that_are_switched_off_are_refused_as_by_mm2(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: set although A->B.emit.offset-syncs.enabled is false"):
        flow(f"A->B.emit.offset-syncs.enabled = false\n{key} = target\n")
    found = mirror("A->B.emit.offset-syncs.enabled = false\n")
    assert not found.flows[0].syncs.enabled
    assert any("MM2 would write no checkpoints" in note.what for note in found.notes)


@pytest.mark.parametrize("policy", ["IdentityReplicationPolicy", "DefaultReplicationPolicy"])
def test_a_policy_without_its_package_is_read_and_warned_of(policy: str) -> None:
    """MM2 finds its classes by their full names, so it would refuse the file."""
    package = "org.apache.kafka.connect.mirror."
    warnings = mirror(f"replication.policy.class = {policy}\n").warnings
    assert [str(one) for one in warnings] == [
        f"line 5: replication.policy.class: MM2 would not start with this short name; it needs {package}{policy}"
    ]
    assert mirror(f"replication.policy.class = {package}{policy}\n").warnings == ()


def test_drills_have_a_schedule_of_the_flow_or_of_all() -> None:
    assert not flow().drills.is_on
    assert flow("raymirror.drill.schedule = 7d\nA->B.raymirror.drill.schedule = Mon 03:00\n").drills.text == "Mon 03:00"
    with pytest.raises(ConfigError, match="'weekly' is no schedule; write off, an interval"):
        flow("raymirror.drill.schedule = weekly\n")
