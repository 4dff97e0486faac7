"""The last known state of a flow without a mirror, from the topics of its target."""

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.core.offset_map.map_runs import MapHead
from engine.core.position.position import Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.reports.drain import Ends, judged
from engine.flow.topic_logs.last_known import NO_MIRROR, KnownLane, LastKnown, NothingKnown, last_known, stored_state
from engine.state.state import DESIRED, DesiredState, StateCodec, state_topic
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.config_files import flow

TOPIC, KEYS = "mm2-offsets.A.internal", PositionKeys("A")


def position(source_next: int, target_topic_id: str = "") -> bytes:
    """Encode a position of ours."""
    return encode_value(
        Position(
            source_next=source_next,
            target_next=source_next + 100,
            sequence=0,
            producer_id=1,
            producer_epoch=0,
            runs=(),
            assignment_epoch=1,
            deployment_id="d",
            target_topic_id=target_topic_id,
        )
    )


def store(cluster: FakeCluster, partition: int, *rows: tuple[str, int, bytes | None], at_ms: int) -> None:
    """Write positions of (topic, partition) into a partition of the positions topic."""
    log = cluster.targets.get(TopicPartition(TOPIC, partition)) or cluster.target(TOPIC, partition)
    for topic, number, value in rows:
        key = KEYS.encode(TopicPartition(topic, number))
        log.append(bytes(encode_batch([Record(0, at_ms, key, value)], 0)))


async def known(cluster: FakeCluster) -> LastKnown:
    """Read them."""
    return await last_known(cluster, TOPIC, 3, KEYS, flow().selection)


async def test_the_last_position_of_each_partition_counts_and_says_when_it_was_written() -> None:
    cluster = FakeCluster("b")
    store(cluster, 0, ("t", 0, position(7)), ("u", 0, b'{"offset":4}'), ("t", 2, b"?"), at_ms=50)
    store(cluster, 0, ("t", 0, position(9)), ("t", 3, None), ("__hidden", 0, position(1)), at_ms=80)
    found = await known(cluster)
    assert [(one.lane.topic, one.lane.partition, one.source_next, one.at_ms, one.ours) for one in found.lanes] == [
        ("t", 0, 9, 80, True),
        ("t", 2, -1, 50, True),
        ("u", 0, 5, 50, False),
    ]
    assert (found.lanes[0].target, found.ours, found.unread) == (TopicPartition("A.t", 0), True, {})
    assert "cannot be read" in found.lanes[1].why
    lane, unreadable, _ = (one.progress() for one in found.lanes)
    assert (lane.source_next, lane.reason, lane.state) == (9, NO_MIRROR, "unowned")
    assert "cannot be read" in unreadable.reason


async def test_a_position_counts_as_far_as_its_copy_is_there() -> None:
    cluster, copy = FakeCluster("b"), TopicPartition("A.t", 0)
    store(cluster, 0, ("t", 0, position(7)), ("u", 0, b'{"offset":4}'), at_ms=50)
    ours, mm2 = (await known(cluster)).lanes
    assert (ours.target_next, mm2.target_next) == (107, -1)
    assert ours.held_against(Ends(ends={copy: 107})) == ours
    assert mm2.held_against(Ends()) == mm2, "MM2 does not say where its copy ended"
    for ends, why in (
        (Ends(ends={copy: 106}), "its copy A.t-0 ends at 106, below what was copied (107): it lost records"),
        (Ends(unknown={copy: "no leader"}), "it is not known whether its copy A.t-0 is complete: no leader"),
        (Ends(), "its copy A.t-0 does not exist any more"),
    ):
        less = ours.held_against(ends)
        (row,) = judged([less.progress()], {}, Ends(), Ends(ends={ours.lane: 7}))
        assert (less.source_next, row.drained, row.records, row.why) == (-1, False, -1, why)


async def test_a_copy_that_was_created_again_is_no_copy_however_long_it_is() -> None:
    cluster, copy = FakeCluster("b"), TopicPartition("A.t", 0)
    store(cluster, 0, ("t", 0, position(7, "old")), at_ms=50)
    (ours,) = (await known(cluster)).lanes
    assert ours.of_copy("old") == ours.of_copy("") == ours
    less = ours.of_copy("new").held_against(Ends(ends={copy: 999}))
    assert less.source_next == -1
    assert less.why == "its copy A.t-0 was deleted and created again: it lacks what was copied"


async def test_nothing_is_known_of_a_flow_without_positions_of_ours() -> None:
    cluster = FakeCluster("b")
    assert not (await known(cluster)).ours
    store(cluster, 0, ("t", 0, b'{"offset":4}'), at_ms=1)
    assert not (await known(cluster)).ours
    assert "never copied" in str(NothingKnown("A->B", TOPIC, "B"))


async def test_a_partition_that_is_away_hides_its_own_positions_only() -> None:
    cluster = FakeCluster("b")
    for number in range(2):
        store(cluster, number, (f"t{number}", 0, position(3)), at_ms=1)

    def one_is_away(asked: str, partitions: object) -> None:
        if asked == "read records" and TopicPartition(TOPIC, 1) in list(partitions):  # type: ignore[call-overload]
            raise ConnectionLost("no leader")

    cluster.fail = one_is_away
    found = await known(cluster)
    assert [one.lane.topic for one in found.lanes] == ["t0"]
    assert list(found.unread) == [f"{TOPIC}-1"]
    assert "no leader" in found.unread[f"{TOPIC}-1"]


@pytest.mark.parametrize("failure", [BrokerUnreachable("b:1", "refused"), OtherCluster("b", "x", "y", "z")])
async def test_a_target_that_tells_nothing_is_an_error(failure: Exception) -> None:
    cluster = FakeCluster("b")
    store(cluster, 0, ("t", 0, position(3)), at_ms=1)

    def away(asked: str, _partitions: object) -> None:
        if asked == "read records":
            raise failure

    cluster.fail = away
    with pytest.raises(type(failure)):
        await known(cluster)


async def test_the_state_is_read_without_taking_the_flow() -> None:
    cluster, name = FakeCluster("b"), FlowName("A", "B")
    assert await stored_state(cluster, name) == {}
    topic = state_topic("A")
    log = cluster.target(topic)
    for key, value in StateCodec(name, topic).encode({DESIRED: DesiredState(state="paused")}).items():
        log.append(bytes(encode_batch([Record(0, 0, key, value)], 0)))
    before = log.end
    found = (await stored_state(cluster, name))[DESIRED]
    assert isinstance(found, DesiredState)
    assert (found.state, log.end) == ("paused", before)


def test_what_a_later_sync_tells_is_of_the_time_of_that_sync() -> None:
    before = KnownLane(lane=TopicPartition("t", 0), target=TopicPartition("A.t", 0), source_next=7, at_ms=50, ours=True)
    newer = before.gone_on(MapHead(1, 0, 9, 109, ()), 80)
    assert (newer.source_next, newer.target_next, newer.at_ms) == (9, 109, 80)
    assert before.gone_on(MapHead(1, 0, 7, 107, ()), 80) == before
    assert before.gone_on(None, -1) == before
    foreign = msgspec.structs.replace(before, ours=False)
    assert foreign.gone_on(MapHead(1, 0, 9, 109, ()), 80) == foreign
