"""Records of another producer behind the last copied record, as found in the target's logs."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.position.position import Position
from engine.flow.ownership import other_writers as module
from engine.flow.ownership.other_writers import OtherWriter, OtherWriters, other_writers
from engine.flow.refused.quarantine_reader import Replayers
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import LaneName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.target_log import TargetLog
from tests.unit.engine.flow.refused.test_replay import Held

OURS = 5


def lane(number: int) -> LaneName:
    return LaneName(TopicPartition("t", number), TopicPartition("A.t", number))


def position(target_next: int) -> Position:
    return Position(
        source_next=100 + target_next,
        target_next=target_next,
        sequence=0,
        producer_id=OURS,
        producer_epoch=1,
        runs=(),
        assignment_epoch=1,
        deployment_id="d",
    )


def plain(log: TargetLog, count: int) -> None:
    """Append records as a producer that is not idempotent."""
    log.append(bytes(encode_batch([Record(0, 1, b"k", b"v")] * count, 0)))


async def asked(cluster: FakeCluster, *target_next: int) -> OtherWriters:
    positions = {lane(at): position(end) for at, end in enumerate(target_next)}
    return await other_writers(cluster, positions, Replayers(cluster, "A"), stops=True)


async def test_only_what_others_wrote_behind_the_position_counts() -> None:
    cluster = FakeCluster("b")
    for number in range(3):
        log = cluster.target("A.t", number)
        plain(log, 4)  # before the position
        log.marker(OURS, 1)
    first = cluster.targets[lane(0).target]
    plain(first, 3)
    first.marker(OURS, 2)
    plain(first, 2)
    found = await asked(cluster, 4, 5, 4)
    assert found == OtherWriters(
        found=(OtherWriter(topic="t", partition=0, target_topic="A.t", first=5, last=10, records=5),)
    )


async def test_records_of_ours_that_no_position_counts_yet_are_ours() -> None:
    cluster = FakeCluster("b")
    log = cluster.target("A.t", 0)
    plain(log, 2)
    log.batches[-1].header = msgspec.structs.replace(log.batches[-1].header, producer_id=OURS, producer_epoch=1)
    assert (await asked(cluster, 0)).found == ()


async def test_a_partition_that_cannot_be_looked_at_hides_no_other() -> None:
    cluster = FakeCluster("b")
    for number in range(2):
        plain(cluster.target("A.t", number), 6)

    def fail(asked: str, partitions: Sequence[TopicPartition]) -> None:
        if asked == "read headers" and lane(0).target in partitions:
            raise ConnectionLost("gone")

    cluster.fail = fail
    found = await asked(cluster, 2, 2, 0)
    assert found.unknown == {
        "A.t-0": "connection lost: gone",
        "A.t-2": "its leader does not report the start and end of its log",
    }
    assert [(one.partition, one.first, one.records, one.whole) for one in found.found] == [(1, 2, 4, True)]


async def test_a_long_log_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OFFSETS", 2)
    cluster = FakeCluster("b")
    log = cluster.target("A.t", 0)
    for _ in range(5):
        plain(log, 1)
    (found,) = (await asked(cluster, 1)).found
    assert (found.first, found.last, found.records, found.whole) == (1, 2, 2, False)


async def test_replayed_records_are_no_other_writers() -> None:
    stage = Held()
    async with stage.running():
        states = await stage.held()
        behind = stage.targets[0].end
        stage.mend()
        await stage.replay.begin()
        record = await stage.reader.contents(states[0])
        assert record is not None
        await stage.replay.replay(states[0], record)
        assert (await asked(stage.b, behind)).found == ()
        plain(stage.targets[0], 1)
        assert len((await asked(stage.b, behind)).found) == 1
