"""What a preview makes of positions that cannot be read, and of other flows of the configuration."""

from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.preview import fed_too, positions_of
from policies.model import FlowName, LaneName, TopicPartition
from tests.unit.engine.config_files import mirror

BASE = """\
clusters = A, B, C
A.bootstrap.servers = a1:9092
B.bootstrap.servers = b1:9092
C.bootstrap.servers = c1:9092
A->B.enabled = true
"""


def test_another_flow_feeds_a_third_cluster_if_it_copies_the_topic() -> None:
    config = mirror("A->C.enabled = true\nA->C.topics = orders.*\nC->B.enabled = true\n", base=BASE)
    flow = config.flow(FlowName("A", "B"))
    assert [fed_too(config, flow, topic) for topic in ("orders", "clicks")] == [("C",), ()]


def test_a_lane_without_a_position_is_not_known_if_positions_could_not_be_read() -> None:
    lanes = [LaneName(TopicPartition("t", number), TopicPartition("A.t", number)) for number in range(2)]
    read = KnownLane(lane=lanes[0].source, target=lanes[0].target, source_next=3, at_ms=1, ours=True)
    assert positions_of(lanes, LastKnown(lanes=(read,))) == {read.lane: read}
    found = positions_of(lanes, LastKnown(lanes=(read,), unread={"positions-3": "no leader", "positions-4": "?"}))
    assert found[read.lane] == read
    assert (found[lanes[1].source].source_next, found[lanes[1].source].why) == (
        -1,
        "its position may be in positions-3, which cannot be read: no leader",
    )
