"""Random lives as in `test_random_logs.py`, of copies that are cleaned, lose their heads, or began with MM2."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from engine.core.offset_map.map_runs import MapRun, join_runs
from engine.core.position.position import Seen
from engine.core.position.resume import ResumePoint
from engine.core.position.right_before import behind_in
from engine.core.position.target_tail import Tail
from engine.flow.ownership.position_recovery import FencedLane, PreFenceState
from tests.unit.engine.flow.ownership.test_random_logs import Copy, Life, Stored, Wrong

_MM2, _NO_PRODUCER = (7000, 0), (-1, -1)


class CleanedCopy(Copy):
    """A log that also knows what was removed from it: a broker's producer state and an older replica have that."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.removed: list[Stored] = []

    @contextmanager
    def uncleaned(self) -> Iterator[None]:
        """Put back what was removed, for a while."""
        taken = {one.header.base_offset for one in self.removed}
        self.batches = sorted([*self.batches, *self.removed], key=lambda one: one.header.base_offset)
        yield
        self.removed = [one for one in self.batches if one.header.base_offset in taken]
        self.batches = [one for one in self.batches if one.header.base_offset not in taken]

    def cut(self, offset: int) -> None:
        with self.uncleaned():
            super().cut(offset)

    def gone(self) -> dict[int, int]:
        """Return source offsets of removed records by target offset."""
        batches = ((one.header, one.source) for one in self.removed if one.source >= 0)
        return {head.base_offset + step: source + step for head, source in batches for step in range(head.record_span)}


class CleanedLife(Life):
    """`cleans`: the cleaner removes batches. `retains`: retention deletes the head of both logs.

    `rests`: the flow rests for days between two owners, so that producers expire and the cleaner takes more.
    """

    def __init__(
        self,
        seed: int,
        seen: Counter[str],
        *,
        loses: bool,
        others: bool = True,
        fenced: bool = True,
        cleans: bool = False,
        retains: bool = False,
        rests: bool = False,
    ) -> None:
        super().__init__(seed, seen, loses=loses, others=others, fenced=fenced)
        self.log: CleanedCopy = CleanedCopy(self.dice)
        self._cleans, self._retains, self._rests = cleans, retains, rests
        self._source_start = 0
        self._ever_gone: set[int] = set()
        """Source offsets of records that were removed from the log of some leader."""

    async def acquire(self) -> None:
        if self._rests and self.dice.random() < 0.5:
            self.clean()
        await super().acquire()

    async def _something(self) -> None:
        if self._rests and self.dice.random() < 0.1:
            return await self._rest()
        if self._cleans and self.dice.random() < 0.1:
            self.clean()
        if self._retains and self.dice.random() < 0.1:
            self.retain()
        if self._loses and self.dice.random() < 0.03:
            for _ in range(self.dice.randint(1, 2)):
                if self.at is not None and not self.stopped:
                    await self.elect()
        if self.at is not None and not self.stopped:
            await super()._something()
        return None

    async def _rest(self) -> None:
        """Let another writer follow an append without an answer; the owner settles, and ends."""
        self.append(is_answered=False)
        self.write_others(0.7)
        await self.settle()
        if self.at is not None:
            self.store()
            self.die()

    def clean(self) -> None:
        """Remove whole batches below the stored position, but never the log's last."""
        if self.stored is None or len(self.log.batches) < 2:
            return
        first = self.dice.randrange(len(self.log.batches))
        for one in self.log.batches[first:-1]:
            if self.dice.random() < 0.5 and one.header.next_offset <= self.stored.target_next:
                self._remove(one)

    def retain(self) -> None:
        """Delete the heads of both logs up to somewhere below the stored position."""
        if self.stored is None:
            return
        self.log.start = self.dice.randint(self.log.start, max(self.log.start, self.stored.target_next))
        for one in list(self.log.batches):
            if one.header.next_offset <= self.log.start:
                self._remove(one)
        if self.log.batches:
            self.log.start = max(0, min(self.log.start, self.log.batches[0].header.base_offset))
        if self._loses:
            self._source_start = max(self._source_start, self.dice.randint(0, self.stored.source_next))
        self.tell(f"retained from {self.log.start}, source from {self._source_start}")

    def _remove(self, one: Stored) -> None:
        self.log.batches.remove(one)
        self.log.removed.append(one)
        self.tell(f"removed {one.header.base_offset}")
        if one.source >= 0:
            self._ever_gone |= set(range(one.source, one.source + one.header.record_span))

    def _take_late(self) -> None:
        with self.log.uncleaned():
            super()._take_late()

    def _late_marker(self) -> None:
        if any(one in self.log.batches for one in self.log.removed):  # within `_take_late`
            return super()._late_marker()
        with self.log.uncleaned():
            return super()._late_marker()

    async def _holds(self, runs: Sequence[MapRun]) -> bool | None:
        first = self._source_start
        left = [MapRun(max(run.source, first), run.target + max(0, first - run.source), 0) for run in runs]
        counts = (run.source + run.count - one.source for run, one in zip(runs, left, strict=True))
        return await super()._holds([one._replace(count=count) for one, count in zip(left, counts, strict=True)])

    def _own(self, found: ResumePoint, producer: tuple[int, int], fenced: FencedLane, *, looks_as_left: bool) -> None:
        if found.source_next < self._source_start:
            self.tell("source-gap")
            self.stopped = True
        else:
            super()._own(found, producer, fenced, looks_as_left=looks_as_left)

    def check_place(self, source_next: int, *, looks_as_left: bool) -> None:
        """As `Life`; what was removed from some leader's log counts as there.

        Without a loss it must not be copied again. After a loss, records behind the last one that is left may be.
        """
        records, gone = self.log.records(), self.log.gone()
        sources = list(records.values())
        if sources != sorted(set(sources)):
            raise Wrong(f"goes on at {source_next}, and the log has {sources}")
        if max([*sources, *([] if self._loses else gone.values())], default=-1) >= source_next:
            raise Wrong(f"goes on at {source_next}, doubles: the log has {sources}, and had {gone}")
        missing = set(range(source_next)) - set(sources) - self._ever_gone
        if missing:
            raise Wrong(f"goes on at {source_next}, lost: {sorted(missing)}; the log has {sources}")
        said = {run.target + step: run.source + step for run in self._map().runs for step in range(run.count)}
        known = {**gone, **records}
        wrong = {
            target: source
            for target, source in said.items()
            if known.get(target) != source and source not in self._ever_gone and target >= self.log.start
        }
        if wrong and looks_as_left and self.took_own:
            self.tell("moved")
            self.stopped = True
        elif wrong:
            raise Wrong(f"the map has {wrong}: {records}")


class Mm2Life(CleanedLife):
    """A copy that MM2 began: the lane's map begins with MM2's records."""

    def __init__(self, seed: int, seen: Counter[str], *, loses: bool, **more: bool) -> None:
        super().__init__(seed, seen, loses=loses, **more)
        source = 0
        while self.dice.random() < 0.85:
            count = self.dice.randint(1, 4)
            producer = self.dice.choice((_MM2, _MM2, _NO_PRODUCER))
            self.log.leader_epoch += self.dice.random() < 0.1
            self.log.store(producer, source if producer == _MM2 else -1, count, source)
            source += count
        self.tell(f"mm2 {source}")

    async def acquire(self) -> None:
        records = self.log.records()
        if self.stored is not None or not records:
            return await super().acquire()
        self.at, self.unanswered, before = None, [], self.log.end
        producer, _ = self._fence(before)
        owner, end = (producer.producer_id, producer.epoch), self.log.end
        tail = Tail(log_start=self.log.start, end=end, batches=tuple(self.log.headers(end - 1)))
        found = ResumePoint(
            source_next=max(records.values()) + 1,
            target_next=end,
            sequence=0,
            how="MM2's position",
            tail_records=len(records),
            copied=join_runs(MapRun(source, target, 1) for target, source in records.items()),
            behind=behind_in(tail, end, owner, Seen()),  # as `PositionRecovery.with_behind`
        )
        fenced = FencedLane(producer, PreFenceState(before, [], 0), 0)
        return self._own(found, owner, fenced, looks_as_left=True)


async def live_many(
    lives: int, life: type[CleanedLife] = CleanedLife, *, loses: bool, others: bool = True, **more: bool
) -> Counter[str]:
    """Live some lives, half of them with a cleaner and half of them with retention. Raises AssertionError."""
    seen = Counter[str]()
    for seed in range(lives):
        one = life(seed, seen, loses=loses, others=others, cleans=seed % 4 < 2, retains=seed % 2 == 0, **more)
        try:
            await one.live()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error.args}", *one.told[-16:], one.stored) from error
    return seen


_LIVES = pytest.mark.parametrize("lives", [400, pytest.param(6_000, marks=pytest.mark.full)])


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize("others", [True, False])
@_LIVES
async def test_a_cleaned_log_that_loses_nothing_stops_nobody(lives: int, others: bool, fenced: bool) -> None:
    seen = await live_many(lives, loses=False, others=others, fenced=fenced)
    assert min(seen["removed"], seen["retained"], seen["settles"]) > 50


@_LIVES
async def test_what_the_cleaner_took_in_days_of_rest_is_not_copied_again(lives: int) -> None:
    seen = await live_many(lives, loses=False, rests=True)
    assert min(seen["removed"], seen["settles"]) > 50


@pytest.mark.parametrize("others", [True, False])
@_LIVES
async def test_a_loss_of_a_cleaned_log_is_found_or_the_lane_stops(lives: int, others: bool) -> None:
    seen = await live_many(lives, loses=True, others=others)
    assert min(seen["late"], seen["cut-off"], seen["regression"], seen["removed"], seen["stops"]) > 20


@pytest.mark.parametrize("loses", [True, False])
@pytest.mark.parametrize("others", [True, False])
@_LIVES
async def test_a_copy_that_mm2_began(lives: int, others: bool, loses: bool) -> None:
    seen = await live_many(lives, Mm2Life, loses=loses, others=others)
    assert seen["mm2"] == lives
    assert not loses or min(seen["cut-off"], seen["regression"]) > 20
