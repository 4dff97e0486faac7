"""A target whose new leader lost acknowledged records: detected before anything is appended behind the hole."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import copy

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import OwnershipLost, Resumed, SourceGap, TargetCut, TargetGap
from engine.core.lane.states import State
from engine.flow.io import leader_ends as leader_ends
from engine.flow.ports.ports import Leader
from engine.wire.batch import read_header, restamp
from policies.model import TopicPartition
from tests.unit.engine.core.maps import records_of
from tests.unit.engine.flow.stage import Stage, until

COPY = TopicPartition("A.t", 0)


def mapped(stage: Stage) -> dict[int, int]:
    """The map of lane 0: target offset by source offset."""
    known = stage.driver().lane.map
    assert known is not None
    return records_of(known.runs)


class Cut(Stage):
    """Lanes that have copied three batches of two: target offsets 1 to 6 behind the marker of their barrier."""

    async def fill(self) -> None:
        for source in self.sources:
            for _ in range(3):
                source.data(2)
        self.a.grow()
        drivers = self.copier.drivers.values()
        await until(lambda: all(driver.lane.records == 6 and driver.positions.settled for driver in drivers))

    def lose(self, keep: int, *, node: int = 1, remembers: bool = False) -> None:
        """Elect a leader that has the first `keep` offsets only, and perhaps no producer."""
        log = self.targets[0]
        log.truncate(keep)
        if not remembers:
            log.producers.clear()
        else:
            for known in log.producers.values():
                while known.batches and known.batches[-1][2] >= keep:
                    known.batches.pop()
        self.b.leader[COPY] = Leader(node, 5, "id-A.t")
        self.b.lose(1)

    async def acknowledged(self) -> None:
        """Everything is copied, answered for, and written down."""
        await until(self.written_down)

    async def recovered(self) -> None:
        """What was lost is copied again, and some more; the map says where it is."""
        self.a.grow()
        await until(lambda: self.told(TargetCut) and self.written_down())
        self.more()
        await self.acknowledged()
        assert mapped(self) == self.targets[0].places()

    def more(self, partition: int = 0) -> None:
        self.sources[partition].data(2)
        self.a.grow()


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("node", [1, 2])
async def test_lost_records_are_copied_again_before_anything_else(node: int, remembers: bool) -> None:
    stage = Cut()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.lose(3, node=node, remembers=remembers)
        stage.more()
        await until(stage.whole)
        (cut,) = stage.told(TargetCut)
        assert isinstance(cut, TargetCut)
        assert (cut.expected, cut.source_offset) == (7, 2)
        assert stage.told(TargetGap) == stage.told(OwnershipLost) == []
        assert [event.how for event in stage.told(Resumed) if isinstance(event, Resumed)] == [
            "start",
            "target regression",
        ]
        stage.more()
        await until(stage.whole)


async def test_a_loss_that_is_filled_up_by_the_barriers_own_marker_is_seen() -> None:
    stage = Cut()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.sources[0].data(1)
        stage.a.grow()
        await until(stage.written_down)
        stage.lose(7)
        await until(lambda: stage.told(TargetCut))
        await until(stage.whole)


async def test_what_the_source_no_longer_has_is_a_gap_with_its_exact_range() -> None:
    stage = Cut()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.sources[0].start = 4
        stage.lose(3)
        await until(lambda: stage.state() is State.FAILED)
    (gap,) = stage.told(SourceGap)
    assert isinstance(gap, SourceGap)
    assert (gap.first, gap.last) == (2, 3)


@asynccontextmanager
async def a_second_owner(stage: Cut, count: int = 2, copies: int = 1) -> AsyncIterator[None]:
    """One owner copies three batches, the next one, which runs under another leader, `copies` of `count` records."""
    stage.assign()
    async with stage.running():
        await stage.fill()
    stage.b.leader[COPY] = Leader(1, 3, "id-A.t")
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING and stage.driver().positions.settled)
        for _ in range(copies):
            stage.sources[0].data(count)
            stage.a.grow()
        await until(stage.written_down)
        yield


async def test_a_loss_beyond_what_this_epoch_wrote_is_rewound_by_the_map() -> None:
    stage = Cut()
    async with a_second_owner(stage):
        stage.lose(3)
        await until(lambda: stage.told(TargetCut))
        stage.more()
        await stage.acknowledged()
        assert mapped(stage) == stage.targets[0].places()
    assert stage.whole()


def elect_with_late_requests(stage: Cut, *late: int, count: int = 2, stamped_ms: int = 0) -> None:
    """Elect a leader that has late requests of the first owner instead of all that the second one appended.

    `late`: which batches of the source, which gets five more of `count` records. `stamped_ms`: how much later.
    """
    for _ in range(5):
        stage.sources[0].data(count)
    log, sequence = stage.targets[0], 6
    first = next(stored for stored in log.batches if stored.payload).header
    stage.lose(7)
    for number in late:
        taken = copy(stage.sources[0].batches[number])
        taken.born_ms += stamped_ms
        batch = bytearray(taken.encode())
        restamp(batch, 0, read_header(batch, 0), first.producer_id, first.producer_epoch, sequence)
        log.store_late(bytes(batch))
        sequence += count


@asynccontextmanager
async def cut_off_with_late_requests(stage: Cut, *late: int, stamped_ms: int = 0) -> AsyncIterator[None]:
    """A second owner has copied a fourth batch when such a leader is elected."""
    async with a_second_owner(stage):
        elect_with_late_requests(stage, *late, stamped_ms=stamped_ms)
        yield


@pytest.mark.parametrize("late", [(3,), (3, 4), (3, 4, 5)])
async def test_late_requests_of_an_earlier_owner_are_not_copied_again(late: tuple[int, ...]) -> None:
    """They are where the map has the barrier of the owner that is cut off, so its offsets are one higher."""
    stage = Cut()
    async with cut_off_with_late_requests(stage, *late):
        await stage.recovered()
    assert stage.whole()


@pytest.mark.parametrize(
    ("copies", "count", "late"),
    [(0, 2, (3,)), (0, 2, (3, 4)), (0, 1, (3,)), (1, 1, (3, 4)), (2, 1, (3, 4, 5))],
    ids=["barrier", "barrier, more", "barrier, as long", "one batch, as long", "two batches, as long"],
)
async def test_a_log_of_late_requests_that_does_not_end_below_is_not_taken_for_the_own_one(
    copies: int, count: int, late: tuple[int, ...]
) -> None:
    """Its end says nothing; it lacks the leader epoch of the owner's last append."""
    stage = Cut()
    async with a_second_owner(stage, count, copies):
        elect_with_late_requests(stage, *late, count=count)
        assert stage.targets[0].end >= stage.driver().lane.target_next
        await stage.recovered()
    assert stage.whole()


@pytest.mark.parametrize(("copies", "late"), [(0, (3,)), (1, (3, 4)), (2, (3, 4, 5))])
async def test_a_next_owner_finds_late_requests_that_end_where_the_position_does(
    copies: int, late: tuple[int, ...]
) -> None:
    stage = Cut()
    async with a_second_owner(stage, count=1, copies=copies):
        pass
    elect_with_late_requests(stage, *late, count=1)
    assert stage.targets[0].end == stage.stored().target_next == 8 + copies
    stage.copier = stage.new_copier()
    stage.assign(epoch=3)
    async with stage.running():
        stage.a.grow()
        await until(lambda: stage.told(TargetCut) and stage.written_down())
        assert mapped(stage) == stage.targets[0].places()
    assert stage.whole()


async def test_late_requests_in_a_topic_with_times_of_its_own_are_known_by_the_rest() -> None:
    stage = Cut()
    stage.b.configs["A.t"] = {"message.timestamp.type": "LogAppendTime"}
    async with cut_off_with_late_requests(stage, 3, 4, stamped_ms=1000):
        await until(lambda: stage.told(TargetCut) and stage.written_down())
    assert stage.copied()[:10] == list(range(10))


@pytest.mark.parametrize(("late", "stamped_ms"), [(1, 0), (3, 1000)], ids=["other records", "other times"])
async def test_late_requests_with_other_records_than_the_map_says_stop_the_lane(late: int, stamped_ms: int) -> None:
    stage = Cut()
    async with cut_off_with_late_requests(stage, late, stamped_ms=stamped_ms):
        await until(lambda: stage.told(TargetGap))
    (gap,) = stage.told(TargetGap)
    assert isinstance(gap, TargetGap)
    assert "batches of this lane" in gap.cause


async def test_a_loss_beyond_everything_we_appended_stops_the_lane() -> None:
    stage = Cut()
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.lose(1)
        await until(lambda: stage.told(TargetGap))
        stage.more()
    assert stage.copied() == []


async def test_a_new_leader_that_has_everything_is_believed() -> None:
    stage = Cut()
    stage.assign()
    begun: list[str] = []
    async with stage.running():
        await stage.fill()
        stage.b.begun = begun.append
        stage.b.leader[COPY] = Leader(2, 5, "id-A.t")
        stage.b.lose(1)
        stage.more()
        await until(stage.whole)
        assert stage.driver().leaders.verified == Leader(2, 5, "id-A.t")
        stage.b.lose(1)
        stage.b.lose(2)
        stage.more()
        await until(stage.whole)
    assert "acquire" not in begun


@pytest.mark.parametrize("error", [ConnectionLost("b:1"), KafkaRefusal("offsets", 29, "TopicAuthorizationFailed", "")])
async def test_a_partition_that_cannot_be_asked_about_holds_no_other(error: Exception) -> None:
    stage = Cut(3)
    stage.assign()
    async with stage.running():
        await stage.fill()

        def fail(what: str, partitions: Sequence[TopicPartition]) -> None:
            if what == "offsets" and COPY in partitions:
                raise error

        stage.b.fail = fail
        for index in range(3):
            stage.b.leader[TopicPartition("A.t", index)] = Leader(1, 5, "id-A.t")
        stage.b.lose(1)
        for index in range(3):
            stage.more(index)
        await until(lambda: stage.whole(1) and stage.whole(2))
        assert (stage.driver().leaders.doubted, stage.whole()) == (True, False)
        stage.b.fail = lambda _asked, _partitions: None
        await until(stage.whole)


async def test_brokers_without_leader_epochs_are_asked_after_every_lost_connection() -> None:
    stage = Cut()
    stage.b.leader[COPY] = Leader(1, -1, "id-A.t")
    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.lose(3)
        stage.b.leader[COPY] = Leader(1, -1, "id-A.t")
        stage.more()
        await until(stage.whole)
        assert len(stage.told(TargetCut)) == 1


async def test_a_leader_that_keeps_its_end_to_itself_holds_no_lane_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_ends, "_ANSWER_S", 0.02)
    stage, speak, asked = Cut(2), asyncio.Event(), 0
    offsets = stage.b.offsets

    async def slow(partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        nonlocal asked
        if COPY in partitions:
            asked += 1
            await speak.wait()
        return await offsets(partitions, timestamp_ms)

    stage.assign()
    async with stage.running():
        await stage.fill()
        stage.b.offsets = slow  # type: ignore[method-assign]
        for index in range(2):
            stage.b.leader[TopicPartition("A.t", index)] = Leader(2 + index, 5, "id-A.t")
        stage.b.lose(1)
        for index in range(2):
            stage.more(index)
        await until(lambda: stage.whole(1) and asked >= 2)  # and the silent one is asked again
        assert (stage.driver().leaders.doubted, stage.whole()) == (True, False)
        speak.set()
        await until(stage.whole)
