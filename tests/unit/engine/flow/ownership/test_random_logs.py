"""Random lives of a lane's copy, with and without losses: whoever reads the log is right, or says that it is not known.

A copy has owners one after the other, other writers, markers, and brokers that come back with another log: its end is
missing, and in its place may be late requests of an earlier owner, markers, and what other writers wrote.
"""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun, MapTail
from engine.core.position.map_resume import resumed_map
from engine.core.position.owning import LaneIdentity, Owner, first_position
from engine.core.position.parting import may_be_late
from engine.core.position.position import Position, Seen, decode_value, encode_value
from engine.core.position.resume import REGRESSION, START, ResumePoint, Unknown, read_tail
from engine.core.position.right_before import behind_in, ends_as_left
from engine.core.position.target_tail import Tail, TailBatch
from engine.core.position.vacancy import is_vacant, may_be_vacant, stands_as_left
from engine.flow.ownership.position_recovery import FencedLane, PreFenceState
from engine.flow.ownership.tail import tail_headers
from engine.flow.ownership.told_by_contents import ended
from engine.flow.ports.ports import Producer
from policies.model import TopicPartition

_OURS, _ONE_OTHER, _TRANSACTIONAL = 41, 9000, 9001
_NOBODY = LaneIdentity(source_topic_id="", target_topic_id="", source_cluster_id="", target_cluster_id="")
_COPY = TopicPartition("A.t", 0)
_CUT_BACK = 14
"""Most offsets that a broker lacks which comes back."""


class Stored(msgspec.Struct, frozen=True):
    """A batch of the log; `source`: the source offset of its first record if it is one of the lane's; -1: it is not."""

    header: TailBatch
    source: int = -1


class Copy:
    """The log of a copy; each record of the lane is known by its source offset."""

    def __init__(self, dice: random.Random) -> None:
        self.batches: list[Stored] = []
        self.start = self.end = self.leader_epoch = 0
        self._dice = dice

    def store(self, producer: tuple[int, int], sequence: int, count: int, source: int = -1) -> int:
        """Append a batch; return its base offset. `sequence` -1: a marker."""
        base, self.end = self.end, self.end + count
        is_marker = producer[0] >= 0 and sequence < 0
        header = TailBatch(base, self.end, *producer, sequence, count, is_marker, leader_epoch=self.leader_epoch)
        self.batches.append(Stored(header, source))
        return base

    def marker(self, producer: tuple[int, int]) -> None:
        """Append a marker."""
        self.store(producer, -1, 1)

    def others(self) -> None:
        """Append what another writer writes: plain records, those of a producer, or a transaction."""
        match self._dice.randrange(3):
            case 0:
                self.store((-1, -1), -1, self._dice.randint(1, 3))
            case 1:
                self.store((_ONE_OTHER, 0), 5, self._dice.randint(1, 3))
            case _:
                self.store((_TRANSACTIONAL, 0), 5, self._dice.randint(1, 3))
                self.marker((_TRANSACTIONAL, 0))

    def cut(self, offset: int) -> None:
        """Lose all batches that reach an offset."""
        self.batches = [one for one in self.batches if one.header.next_offset <= offset]
        self.end = self.batches[-1].header.next_offset if self.batches else 0
        self.start = min(self.start, self.end)  # a replica that ends lower begins there or lower

    def turns(self) -> list[tuple[int, int]]:
        """Return where a leader followed another one, and the epoch of the one before."""
        pairs = pairwise(one.header for one in self.batches)
        return [(two.base_offset, one.leader_epoch) for one, two in pairs if one.leader_epoch != two.leader_epoch]

    def records(self) -> dict[int, int]:
        """Return source offsets by target offset."""
        return {
            one.header.base_offset + step: one.source + step
            for one in self.batches
            if one.source >= 0
            for step in range(one.header.record_span)
        }

    def headers(self, first: int) -> list[TailBatch]:
        """Return all headers from an offset on."""
        return [one.header for one in self.batches if one.header.next_offset > first]

    async def read_headers(self, _partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        """As `Cluster.read_headers`: sometimes more than was asked for."""
        found = [one for one in self.headers(first) if one.base_offset < end] or self.headers(first)[:1]
        return found if self._dice.random() < 0.5 else self.headers(first)


class Wrong(AssertionError):
    """Records would be lost or doubled, or a translation would be wrong, and nobody would know."""


class Life:
    """One copy with its owners. `loses`: brokers come back with other logs."""

    def __init__(self, seed: int, seen: Counter[str], *, loses: bool, others: bool, fenced: bool) -> None:
        self.dice = random.Random(seed)
        self.log = Copy(self.dice)
        self.id, self.epoch, self.plain_ids = _OURS, -1, 100
        self.left = -1
        """The epoch of the last owner that left cleanly: no request of it, or of one before, is anywhere any more."""
        self.stored: Position | None = None
        self.base: Position | None = None
        self.at: Position | None = None
        self.map: MapTail | None = None
        self.unanswered: list[MapRun] = []
        self.seen, self.told = seen, list[str]()
        self.acknowledged_by = -1
        """The leader epoch of the last append of the present owner; -1: it has appended nothing."""
        self.began_at = 0
        """The source offset at which the present owner began."""
        self.stopped = self.took_own = False
        self._loses, self._others, self._fenced = loses, others, fenced

    async def live(self) -> None:
        """Let something happen some times."""
        for _ in range(self.dice.randint(5, 50)):
            if self.stopped:
                return
            await (self.acquire() if self.at is None else self._something())

    async def _something(self) -> None:
        what = self.dice.random()
        if what < 0.1:
            self.write_others(0.6)
        elif what < 0.4:
            self.append(is_answered=self.dice.random() < 0.7)
        elif what < 0.5:
            self.keep_alive()
        elif what < 0.6:
            await self.settle()
        elif what < 0.7:
            self.store()
        elif what < 0.78:
            self.store(left=self._fenced)
            self.left, self.at = self.epoch, None
        elif what < 0.84:
            self.die()
        elif what < 0.92 or not self._loses:
            self.log.leader_epoch += 1
        else:
            await self.elect()

    # --- what happens ----------------------------------------------------------------------------------------

    def tell(self, what: str) -> None:
        self.told.append(what)
        self.seen[what.split(" ")[0]] += 1

    def write_others(self, chance: float) -> None:
        while self._others and self.dice.random() < chance:
            self.log.others()
            self.tell("others")

    def append(self, *, is_answered: bool) -> None:
        """Append a batch of the lane."""
        at, count = self._owned(), self.dice.randint(1, 3)
        ahead = sum(run.count for run in self.unanswered)
        producer, source = (at.producer_id, at.producer_epoch), at.source_next + ahead
        base = self.log.store(producer, at.sequence + ahead, count, source)
        self.unanswered.append(MapRun(source, base, count))
        self.tell(f"append {source} {count} at {base}")
        if is_answered:
            self.answer()

    def answer(self) -> None:
        """Acknowledge all batches."""
        for run in self.unanswered:
            self._count(run)
            self.acknowledged_by = self.log.leader_epoch
        self.unanswered = []
        self.check_end()

    def _count(self, run: MapRun) -> None:
        at = self._owned()
        self._map().append(*run)
        sequence = at.sequence + run.count
        self.at = msgspec.structs.replace(
            at,
            source_next=run.source + run.count,
            target_next=run.target + run.count,
            sequence=sequence,
            runs=((sequence, run.source + run.count),),
        )

    def keep_alive(self) -> None:
        """Write a marker of the owner."""
        at = self._owned()
        if self._fenced:
            self.log.marker((at.producer_id, at.producer_epoch))
            self.tell("keep-alive")

    def store(self, *, left: bool = False) -> None:
        """Make the position durable."""
        self.answer()
        self.stored = self._durable(msgspec.structs.replace(self.position(), left=left))
        self.tell("left" if left else "stored")

    @staticmethod
    def _durable(position: Position) -> Position:
        read = decode_value(encode_value(position))
        assert isinstance(read, Position)
        return read

    def die(self) -> None:
        """End the owner; its batches stay in the log, answered or not."""
        self.at, self.unanswered = None, []
        self.tell("dies")

    async def settle(self) -> None:
        """Decide by the log about batches without an answer."""
        at = self.position()
        first = max(self.log.start, at.target_next - 1)
        tail = Tail(log_start=self.log.start, end=self.log.end, batches=tuple(self.log.headers(first)))
        if may_be_late(at, tail):
            self.tell("settles-not")
            self.at, self.unanswered = None, []
            return await self.acquire()
        found = read_tail(at, tail)
        if not isinstance(found, ResumePoint):
            raise Wrong("settle", found)
        for run in found.copied:
            self._map().append(*run)
        self.unanswered = []
        self.at = msgspec.structs.replace(
            self._owned(),
            source_next=found.source_next,
            target_next=found.target_next,
            sequence=found.sequence,
            runs=((found.sequence, found.source_next),),
            behind=behind_in(tail, found.target_next, (at.producer_id, at.producer_epoch), at.behind),
        )
        self.base = self.at
        self.tell("settles")
        self.check_end()
        return None

    # --- owners ----------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Let the next owner begin."""
        self.at, self.unanswered, before = None, [], self.log.end
        self.write_others(0.15)
        producer, vacant = self._fence(before)
        self.write_others(0.15)
        end, stored = self.log.end, self.stored
        self.write_others(0.1)
        tail = Tail(log_start=self.log.start, end=end, batches=())
        found: ResumePoint | Unknown = ResumePoint(
            source_next=0, target_next=end, sequence=0, how=START, tail_records=0
        )
        if stored is not None:
            batches = await tail_headers(self._cluster(), _COPY, stored, self.log.start, end)
            tail = Tail(log_start=self.log.start, end=end, batches=batches)
            found = await ended(stored, tail, self._holds)
        if isinstance(found, Unknown):
            return self._stop(found)
        if vacant and not (
            is_vacant(stored, producer.producer_id, producer.epoch, end) and stands_as_left(stored, found, end)
        ):
            self.tell("not-as-left")
            return await self.acquire()
        owner = producer.producer_id, producer.epoch
        if stored is not None:
            found = msgspec.structs.replace(found, behind=behind_in(tail, found.target_next, owner, Seen()))
        looks_as_left = stored is None or not may_be_late(stored, tail)
        fenced = FencedLane(producer, PreFenceState(before, [], 0), 0, vacant)
        return self._own(found, owner, fenced, looks_as_left=looks_as_left)

    def _fence(self, before: int) -> tuple[Producer, bool]:
        """Return the next owner's producer, and whether it has no barrier."""
        if not self._fenced:
            self.plain_ids += 1
            return Producer(self.plain_ids, 0, fenced=False), False
        self._expire()
        self.epoch += 1
        may_be = self.dice.random() < 0.8 and may_be_vacant(self.stored, before)
        if may_be and is_vacant(self.stored, self.id, self.epoch, before):
            self.tell("vacant")
            return Producer(self.id, self.epoch, fenced=True), True
        if self.dice.random() < 0.1:
            self.tell("dies-behind-its-barrier")
            self.log.marker((self.id, self.epoch))
            self.epoch += 1
        self.log.marker((self.id, self.epoch))
        self.tell(f"barrier {self.epoch}")
        return Producer(self.id, self.epoch, fenced=True), False

    def _expire(self) -> None:
        """Sometimes the id of the lane's producers has expired: the next owner gets another one."""
        if self.left == self.epoch >= 0 and self.dice.random() < 0.1:
            self.id, self.epoch, self.left = self.id + 1, -1, -1
            self.tell("another-id")

    def _own(self, found: ResumePoint, producer: tuple[int, int], fenced: FencedLane, *, looks_as_left: bool) -> None:
        known = resumed_map(self.stored, found, 1)
        owner = Owner(
            producer_id=producer[0],
            producer_epoch=producer[1],
            first_sequence=0,
            assignment_epoch=1,
            deployment_id="d",
            atomic=False,
            behind=fenced.behind(self.stored, found),
        )
        self.tell(f"owned by {found.how} at {found.source_next} -> {found.target_next}, {owner.behind}")
        if found.how == REGRESSION:
            self.seen["regression"] += 1
        self.began_at, self.acknowledged_by = found.source_next, -1
        self.at = self.base = first_position(owner, _NOBODY, found, known, -1).rooted()
        self.map = MapTail(self.at.map_generation, self.at.map_start, self.at.map_blocks, self.at.map_tail)
        self.check_place(found.source_next, looks_as_left=looks_as_left)
        self.check_end()
        if self.dice.random() < 0.9:
            self.store()
        else:
            self.die()

    async def _holds(self, runs: Sequence[MapRun]) -> bool | None:
        """Whether the records of some runs are those that the map says, as the source would show."""
        records = self.log.records()
        pairs = [(run.source + step, run.target + step) for run in runs for step in range(run.count)]
        there = [records.get(target, -1) == source for source, target in pairs if self._has_data(target)]
        return all(there) if there else None

    def _has_data(self, target: int) -> bool:
        """Whether there is a record of anybody at an offset."""
        batches = (one.header for one in self.log.batches if not one.header.is_control)
        return any(one.base_offset <= target < one.next_offset for one in batches)

    def _stop(self, found: object) -> None:
        if not self._loses:
            raise Wrong("nothing was lost", found)
        self.tell("stops")
        self.stopped = True

    # --- losses ----------------------------------------------------------------------------------------------

    async def elect(self) -> None:
        """Let a broker lead that has another log; a lane that runs looks whether it ends as it left it."""
        self.answer()
        newest, log = self.log.leader_epoch, self.log
        turns = [turn for turn in log.turns() if turn[0] >= log.end - _CUT_BACK]
        if turns and self.dice.random() < 0.7:
            offset, log.leader_epoch = self.dice.choice(turns)
            log.cut(offset)
            self.tell(f"elected at {log.end} with what was in the socket of leader {log.leader_epoch}")
            self._take_late()
        else:
            log.cut(self.dice.randint(max(0, log.end - _CUT_BACK), log.end))
            self.tell(f"elected at {log.end}")
        log.leader_epoch = newest + 1
        self.write_others(0.3)
        if self._fenced and self.dice.random() < 0.2:
            self._late_marker()
        if self.dice.random() < 0.5:
            self.die()
            return
        at = self.position()
        if log.end < at.target_next or not self._stands(at):
            self.tell("cut-off")
            await self.acquire()
        else:
            self.tell("believed")
            self.check_place(at.source_next, looks_as_left=True)

    def _stands(self, at: Position) -> bool:
        """Whether what was left before the position is there, of the leader that acknowledged it or a later one."""
        last = self.log.headers(max(0, at.target_next - 1))
        return ends_as_left(at, last) and (not last or last[0].leader_epoch >= self.acknowledged_by)

    def _take_late(self) -> None:
        """Take up what a broker had in its socket when it led no more: in the order in which it was sent."""
        self.write_others(0.2)
        if not self._fenced:
            return
        if self.dice.random() < 0.8:
            self._take_requests()
        while self.dice.random() < 0.3:
            self._late_marker()
            self.write_others(0.2)

    def _late_marker(self) -> None:
        """Write a marker that the coordinator had decided; none of an older epoch than the log has."""
        newest = max(
            (one.header.producer_epoch for one in self.log.batches if one.header.producer_id == self.id), default=0
        )
        epoch = self.dice.randint(min(newest, self.epoch), self.epoch)
        self.log.marker((self.id, epoch))
        self.tell(f"late-marker {epoch}")

    def _take_requests(self) -> None:
        """Append requests of an owner that continue what the log has of it; none if a later one has begun."""
        ours = [one for one in self.log.batches if one.header.producer_id == self.id]
        epoch = max((one.header.producer_epoch for one in ours), default=0)
        if not self.left < epoch <= self.epoch:
            return
        data = [one for one in self.log.batches if one.source >= 0]
        mine = [one.header for one in ours if one.source >= 0 and one.header.producer_epoch == epoch]
        source = data[-1].source + data[-1].header.record_span if data else 0
        if epoch == self.epoch and not mine:
            source = self.began_at  # whatever the log lacks before
        sequence = mine[-1].base_sequence + mine[-1].record_span if mine else 0
        for _ in range(self.dice.randint(1, 3)):
            count = self.dice.randint(1, 3)
            self.took_own |= epoch == self.epoch
            if epoch == self.epoch:  # what it has in flight beyond that, it sends again with the same sequences
                count = min(count, self._owned().source_next - source)
            if count <= 0:
                break
            self.log.store((self.id, epoch), sequence, count, source)
            self.tell(f"late {source} {count} of {epoch} at {self.log.end - count}")
            self.write_others(0.2)
            sequence, source = sequence + count, source + count

    # --- what must be so -------------------------------------------------------------------------------------

    def check_place(self, source_next: int, *, looks_as_left: bool) -> None:
        """The log has each record below the position once, in order, and none behind; the map says where.

        A log with late requests of the running owner may end exactly as it was left, and have its records at other
        offsets before: nothing tells (`DESIGN.md`, remaining risks).
        """
        records = self.log.records()
        if list(records.values()) != list(range(source_next)):
            raise Wrong(f"goes on at {source_next}, and the log has {list(records.values())}")
        said = {run.target + step: run.source + step for run in self._map().runs for step in range(run.count)}
        wrong = {target: source for target, source in said.items() if records.get(target) != source}
        if wrong and looks_as_left and self.took_own:
            self.tell("moved")
            self.stopped = True
        elif wrong:
            raise Wrong(f"the map has {wrong}: {records}")

    def check_end(self) -> None:
        """A log that has lost nothing since ends as the lane left it."""
        at = self.position()
        if at.target_next and not ends_as_left(at, self.log.headers(at.target_next - 1)):
            raise Wrong("not as left", at, self.log.headers(at.target_next - 1)[:1])

    def position(self) -> Position:
        """Return the present position."""
        at, base = self._owned(), self.base
        is_there = base is not None and at.target_next == base.target_next
        position = msgspec.structs.replace(at, **self._map().fields)
        return position if is_there else msgspec.structs.replace(position, behind=Seen())

    def _owned(self) -> Position:
        assert self.at is not None
        return self.at

    def _map(self) -> MapTail:
        assert self.map is not None
        return self.map

    def _cluster(self) -> Any:
        return self.log


async def live_many(seeds: range, *, loses: bool, others: bool = True, fenced: bool = True) -> Counter[str]:
    seen = Counter[str]()
    for seed in seeds:
        life = Life(seed, seen, loses=loses, others=others, fenced=fenced)
        try:
            await life.live()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error.args}", *life.told[-16:], life.stored) from error
    return seen


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("others", [True, False])
async def test_a_log_that_loses_nothing_stops_nobody(others: bool, fenced: bool) -> None:
    seen = await live_many(range(500), loses=False, others=others, fenced=fenced)
    assert min(seen["append"], seen["settles"], seen["dies"], seen["stored"]) > 100


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("lives", [1000, pytest.param(30_000, marks=pytest.mark.full)])
async def test_a_loss_is_found_or_the_lane_stops(lives: int, others: bool) -> None:
    """Not played: an owner without a barrier behind records of the one before."""
    seen = await live_many(range(lives), loses=True, others=others)
    assert min(seen["late"], seen["cut-off"], seen["believed"], seen["regression"], seen["stops"]) > 50
