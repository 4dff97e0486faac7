"""Groups that have read little since earlier switchovers: placed by the map that copied the record they read next."""

import asyncio
from collections.abc import Collection, Sequence
from itertools import pairwise

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from engine.base.errors import ConnectionLost, NewerFormat
from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, MapStart, join_runs
from engine.core.offset_map.offset_map import How, OffsetMap, Translation
from engine.flow.groups import map_chain
from engine.flow.groups.map_chain import (
    NO_STINTS,
    ChainedMaps,
    ClosedMap,
    EarlierStints,
    KnownStints,
    LaneChain,
    PartedOrder,
)
from policies.model import TopicPartition
from tests.fakes.maps import FakeMaps

LANE = TopicPartition("t", 0)
Log = list[int | None]
"""The numbers of its records; None: a marker."""


class Stint:
    """What one direction has copied between two switchovers, and the map of it."""

    def __init__(self, begins: int, start: MapStart, generation: int) -> None:
        self.begins, self.start, self.generation = begins, start, generation
        self.parted: PartedOrder | None = None
        self.runs: list[MapRun] = []
        self.ends = (begins, start.target)

    def closed(self, blocks: Sequence[tuple[MapRun, ...]], tail: tuple[MapRun, ...]) -> ClosedMap:
        return ClosedMap(head=MapHead(self.generation, len(blocks), *self.ends, tail), start=self.start)


class Played:
    """Two clusters, some switchovers and failbacks, record by record. The last stint runs from `source` to `target`."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.source: Log = []
        self.target: Log = []
        self.stints: list[Stint] = []
        self._records = 0
        for number in range(draw(st.integers(1, 5))):
            parted = None
            if number:
                self.source, self.target = self.target, self.source
                parted = self._fail_back(self.stints[-1]) if draw(st.booleans()) else None
            self._play(number)
            self.stints[-1].parted = parted

    def _fail_back(self, stint: Stint) -> PartedOrder:
        """Let both sides get records alone, and each what the other has: D late among N, and N behind D."""
        parted = PartedOrder(len(self.source), len(self.target))
        numbers = iter(range(self._records, self._records + 12))
        new, late = ([next(numbers) for _ in range(self._draw(st.integers(least, 3)))] for least in range(2))
        self._records += 12
        cut = self._draw(st.integers(0, len(new)))
        stint.runs.append(MapRun(len(self.target), len(self.source) + cut, len(late)))
        self.source += [*new[:cut], *late, *new[cut:]]
        self.target += [*late, *new]
        stint.ends = (parted.target + len(late), parted.source + cut + len(late))
        stint.runs = list(join_runs(stint.runs))
        return parted

    def _play(self, number: int) -> None:
        begins = len(self.source) if number else 0
        self._mark(self.target)  # the barrier of the stint's first owner
        stint = Stint(begins, MapStart(begins, len(self.target), first=not number), 1000 + number)
        for _ in range(self._draw(st.integers(0, 8))):
            if self._draw(st.integers(0, 2)) == 0:
                self._mark(self._draw(st.sampled_from([self.source, self.target])))
            stint.runs.append(MapRun(len(self.source), len(self.target), 1))
            self.source.append(self._records)
            self.target.append(self._records)
            self._records += 1
        self._mark(self.source)
        stint.ends = (len(self.source), len(self.target))
        stint.runs = list(join_runs(stint.runs))
        self._mark(self.target)  # behind the last position
        self.stints.append(stint)

    def _mark(self, log: Log) -> None:
        log += [None] * self._draw(st.integers(0, 2))

    def is_exact(self, offset: int, answer: int) -> bool:
        """Whether a group has the same records to read on both clusters."""
        return unread(self.source, offset) == unread(self.target, answer)

    def is_mixed(self, offset: int) -> bool:
        """Whether an offset of the source lies among what both clusters have in another order."""
        mixed = (
            (one.parted.target, one.start.target) if number % 2 else (one.parted.source, one.begins)
            for number, one in enumerate(reversed(self.stints))
            if one.parted is not None
        )
        return any(first < offset < end for first, end in mixed)


def unread(log: Log, offset: int) -> list[int]:
    return sorted(record for record in log[offset:] if record is not None)


@st.composite
def played(draw: st.DrawFn) -> Played:
    return Played(draw)


def maps_of(stint: Stint, data: st.DataObject, *, in_blocks: bool) -> tuple[FakeMaps, ClosedMap]:
    """Return the map of a stint as a reader has it, and its end as a position has it."""
    at = data.draw(st.lists(st.integers(0, len(stint.runs)), max_size=3), label="cuts") if in_blocks else []
    cuts = [0, *sorted({one for one in at if one}), len(stint.runs)]
    parts = [tuple(stint.runs[begin:end]) for begin, end in pairwise(cuts)]
    *blocks, tail = parts
    closed, maps = stint.closed(blocks, tail), FakeMaps()
    maps.blocks[LANE] = [MapBlock(number, stint.generation, runs) for number, runs in enumerate(blocks)]
    known = maps.maps[LANE] = OffsetMap()
    for block in maps.blocks[LANE]:
        known.add_block(block, block.number)
    known.thin(0)
    return maps, closed


def chained(found: Played, data: st.DataObject, *, in_blocks: bool) -> ChainedMaps:
    own, *before = reversed(found.stints)
    ours, head = maps_of(own, data, in_blocks=in_blocks)
    ours.adopt(LANE, head.head, head.start)
    if not before:
        return ChainedMaps(ours, NO_STINTS)
    last, *earlier = before
    closed, end = maps_of(last, data, in_blocks=in_blocks)
    is_taken = data.draw(st.booleans(), label="the last map is in no position any more")
    if not is_taken:
        closed.adopt(LANE, end.head, end.start)
    chain = LaneChain(
        back=LANE,
        starts=tuple(one.begins for one in (own, last, *earlier)),
        parted={number: one.parted for number, one in enumerate((own, *before)) if one.parted is not None},
        last=end if is_taken else None,
        earlier=tuple(maps_of(one, data, in_blocks=in_blocks)[1] for one in earlier),
    )
    return ChainedMaps(ours, KnownStints(closed, {LANE: chain}))


async def asked(maps: ChainedMaps, offset: int) -> Translation:
    answer = maps.translate(LANE, offset)
    while answer.how is How.UNREAD:
        await maps.recall(LANE, [answer.block])
        answer = maps.translate(LANE, offset)
    return answer


@given(found=played(), data=st.data())
async def test_a_group_reads_what_it_has_not_read_after_any_number_of_switchovers_and_failbacks(
    found: Played, data: st.DataObject
) -> None:
    maps = chained(found, data, in_blocks=False)
    await maps.follow([LANE])
    for offset in range(len(found.source) + 1):
        answer = await asked(maps, offset)
        if offset > found.stints[-1].ends[0]:
            assert answer.how is How.BEYOND
            continue
        assert answer.exact or found.is_mixed(offset), (offset, answer)
        assert not answer.exact or found.is_exact(offset, answer.offset), (offset, answer)


@given(found=played(), data=st.data())
async def test_of_stints_whose_blocks_are_overwritten_nothing_wrong_is_said(found: Played, data: st.DataObject) -> None:
    maps = chained(found, data, in_blocks=True)
    await maps.follow([LANE])
    since = found.stints[-2].start if len(found.stints) > 1 else found.stints[-1].start
    for offset in range(found.stints[-1].ends[0] + 1):
        answer = await asked(maps, offset)
        assert answer.exact or answer.how is How.BEFORE
        assert not answer.exact or found.is_exact(offset, answer.offset), (offset, answer)
        if not found.is_mixed(offset) and offset >= (since.target if len(found.stints) > 1 else since.source):
            assert answer.exact, "of the last two stints all blocks are there"


OWN = ClosedMap(head=MapHead(9, 0, 20, 20, (MapRun(10, 11, 9),)), start=MapStart(10, 11, first=False))
LAST = ClosedMap(head=MapHead(5, 0, 9, 9, (MapRun(0, 1, 8),)), start=MapStart(0, 1, first=True))
CHAIN = LaneChain(back=LANE, starts=(10, 0), last=LAST)


def before(chain: LaneChain, *, closed: ClosedMap | None = None) -> ChainedMaps:
    own, back = FakeMaps(), FakeMaps()
    own.adopt(LANE, OWN.head, OWN.start)
    if closed is not None:
        back.adopt(LANE, closed.head, closed.start)
    return ChainedMaps(own, KnownStints(back, {LANE: chain}))


async def test_a_position_that_was_set_in_another_way_ends_the_chain() -> None:
    for chain, how in ((CHAIN, How.RUN), (msgspec.structs.replace(CHAIN, starts=(9, 0)), How.BEFORE)):
        maps = before(chain)
        await maps.follow([LANE])
        assert maps.translate(LANE, 3).how is how
        assert maps.translate(LANE, 12) == Translation(How.RUN, 13), "its own map answers"
    assert maps.translate(TopicPartition("t", 1), 3).how is How.STALE


async def test_where_records_were_replayed_the_order_is_another_one() -> None:
    maps = before(msgspec.structs.replace(CHAIN, exact_from=6))
    await maps.follow([LANE])
    assert [maps.translate(LANE, offset).how for offset in (5, 6)] == [How.BEFORE, How.RUN]


async def test_a_map_that_its_position_has_is_not_replaced_and_a_newer_block_makes_it_useless() -> None:
    shorter = ClosedMap(head=MapHead(5, 0, 4, 5, (MapRun(0, 1, 4),)), start=LAST.start)
    maps = before(msgspec.structs.replace(CHAIN, last=shorter), closed=LAST)
    await maps.follow([LANE])
    assert maps.translate(LANE, 7) == Translation(How.RUN, 6)
    maps = before(CHAIN)
    await maps.follow([LANE])
    back = maps._closed.map_of(LANE)
    assert back is not None
    back.add_block(MapBlock(0, 6, (MapRun(0, 30, 1),)), 0)
    assert maps.translate(LANE, 7).how is How.BEFORE, "the next stint has begun to overwrite it"


@pytest.mark.parametrize("blocks", [0, 2])
def test_what_is_in_blocks_alone_is_left_out_of_an_older_map(blocks: int) -> None:
    head = MapHead(5, blocks, 30, 40, (MapRun(20, 31, 4),))
    found = ClosedMap(head=head, start=MapStart(0, 1, first=True)).without_blocks()
    assert found.start == (MapStart(20, 31, first=False) if blocks else MapStart(0, 1, first=True))
    assert found.made().translate(21).offset == 32
    empty = ClosedMap(head=msgspec.structs.replace(head, runs=()), start=MapStart(0, 1, first=True)).without_blocks()
    assert empty.start == (MapStart(30, 40, first=False) if blocks else MapStart(0, 1, first=True))


class LateStints:
    """Stints that cannot be read at first (`StintsReader`)."""

    def __init__(self, closed: FakeMaps, *failures: Exception) -> None:
        self.known, self.failures, self.reads = KnownStints(closed, {LANE: CHAIN}), list(failures), 0

    async def read(self) -> EarlierStints:
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        return await self.known.read()


class Waited:
    """The time of a chain of maps, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(map_chain, "now_s", lambda: self.now_s)


def own_maps() -> FakeMaps:
    own = FakeMaps()
    own.adopt(LANE, OWN.head, OWN.start)
    return own


@pytest.mark.parametrize("failure", [ConnectionLost("b:1"), ValueError("no runs"), NewerFormat("entry", 9, 1)])
async def test_while_earlier_stints_cannot_be_read_the_own_map_answers_alone(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    waited, stints = Waited(monkeypatch), LateStints(FakeMaps(), failure)
    maps = ChainedMaps(own_maps(), stints)
    for _ in range(3):
        await maps.follow([LANE])
        assert maps.without_stints == str(failure)
        assert (maps.translate(LANE, 3).how, maps.translate(LANE, 12).how) == (How.BEFORE, How.RUN)
    assert stints.reads == 1, "not in each of many turns"
    waited.now_s += 5.0
    await maps.follow([LANE])
    assert (maps.without_stints, maps.translate(LANE, 3).how) == ("", How.RUN)


async def test_earlier_stints_that_do_not_answer_keep_nobody_waiting() -> None:
    class Silent(LateStints):
        async def read(self) -> EarlierStints:
            await asyncio.Event().wait()
            raise AssertionError

    maps = ChainedMaps(own_maps(), Silent(FakeMaps()), within_s=0.01)
    await maps.follow([LANE])
    assert maps.without_stints == "no answer within 0 s"
    assert maps.translate(LANE, 12).how is How.RUN


async def test_closed_maps_are_read_once_and_again_only_for_lanes_of_a_broker_that_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited, closed = Waited(monkeypatch), FakeMaps()
    closed.away = {2: "broker 2 refuses"}
    stints = LateStints(closed)
    maps = ChainedMaps(own_maps(), stints)
    for _ in range(2):
        await maps.follow([LANE])
        assert (maps.without_stints, maps.translate(LANE, 3).how) == ("broker 2 refuses", How.BEFORE)
    assert len(closed.followed) == 1
    closed.away, waited.now_s = {}, waited.now_s + 5.0
    for _ in range(3):
        await maps.follow([LANE])
        assert (maps.without_stints, maps.translate(LANE, 3).how) == ("", How.RUN)
    assert (len(closed.followed), stints.reads) == (2, 1), "nothing copies them, so nothing is new"


async def test_a_block_of_a_closed_map_that_cannot_be_read_back_fails_no_other_lane() -> None:
    class Lost(FakeMaps):
        async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
            raise ConnectionLost(f"{lane} {blocks}")

    closed = Lost()
    closed.tell_blocks(LANE, [[(0, 1, 8)]], (9, 9))
    maps = ChainedMaps(own_maps(), KnownStints(closed, {LANE: msgspec.structs.replace(CHAIN, last=None)}))
    await maps.follow([LANE])
    assert maps.translate(LANE, 3) == Translation(How.UNREAD, block=-1)
    await maps.recall(LANE, [-1])
    assert maps.translate(LANE, 3).how is How.UNREAD


async def test_an_answer_of_an_earlier_stint_is_never_behind_its_end() -> None:
    """The reverse flow was started again by hand behind its stint, so its map has records of later on."""
    longer = ClosedMap(head=MapHead(5, 0, 40, 40, (MapRun(0, 1, 3), MapRun(30, 30, 9))), start=LAST.start)
    maps = before(msgspec.structs.replace(CHAIN, last=None), closed=longer)
    await maps.follow([LANE])
    assert maps.translate(LANE, 3) == Translation(How.RUN, 2)
    assert maps.translate(LANE, 6) == Translation(How.REFINED, 11), "where the present stint begins"


async def test_exact_answers_begin_where_the_chain_does() -> None:
    later = ClosedMap(head=LAST.head, start=MapStart(0, 1, first=False))
    for chain, begins in (
        (msgspec.structs.replace(CHAIN, last=later), 1),
        (msgspec.structs.replace(CHAIN, last=later, exact_from=6), 6),
        (msgspec.structs.replace(CHAIN, last=later, exact_from=60), 10),
        (msgspec.structs.replace(CHAIN, last=None), 10),
        (msgspec.structs.replace(CHAIN, last=later, starts=(9, 0)), 10),
    ):
        maps = before(chain)
        await maps.follow([LANE])
        assert maps.begins(LANE) == begins
        answered = [offset for offset in range(20) if maps.translate(LANE, offset).exact]
        assert answered[0] == begins
    assert before(CHAIN).begins(TopicPartition("t", 1)) == -1


async def test_a_source_that_answers_slowly_takes_a_tenth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Waited(monkeypatch)

    class Slow(LateStints):
        async def read(self) -> EarlierStints:
            waited.now_s += 4.0
            return await super().read()

    stints = Slow(FakeMaps(), ConnectionLost("b:1"))
    maps = ChainedMaps(own_maps(), stints)
    for later_s, reads in ((0.0, 1), (35.9, 1), (0.2, 2)):
        waited.now_s += later_s
        await maps.follow([LANE])
        assert stints.reads == reads
    assert maps.without_stints == ""
