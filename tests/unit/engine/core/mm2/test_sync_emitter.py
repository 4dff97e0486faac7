"""The syncs that a lane emits: bounded, complete at rest, never ahead for MM2's reader, whatever the target lost."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.mm2.mm2_records import OffsetSync
from engine.core.mm2.sync_emitter import MOST_BETWEEN, OffsetPair, SyncEmitter, last_pair
from engine.core.mm2.sync_store import TOO_OLD, SyncStore
from engine.core.offset_map.map_runs import MapRun, MapStart, MapTail, cut_at_target
from policies.model import TopicPartition

LANE = TopicPartition("t", 0)
START = MapStart(0, 0, first=True)


class Lane:
    """The map of a lane and its emitter."""

    def __init__(self, lag_max: int = 100) -> None:
        self.emitter = SyncEmitter(lag_max)
        self.version = 0
        self.map = MapTail(1, START, 0, ())
        self.emitter.begin(None)

    def copy(self, source: int, target: int, count: int) -> None:
        self.map.append(source, target, count)
        self.version += 1

    def due(self) -> tuple[OffsetPair, ...]:
        due = self.emitter.due(self.version, self.map.runs)
        return () if due is None else due.pairs

    def tell(self, *, known: bool = True) -> tuple[OffsetPair, ...]:
        due = self.emitter.due(self.version, self.map.runs)
        if due is None:
            return ()
        (self.emitter.written if known else self.emitter.unknown)(due)
        return due.pairs


def test_a_lane_that_has_copied_nothing_tells_nothing() -> None:
    lane = Lane()
    assert lane.due() == ()
    assert last_pair(()) is None


def test_the_first_and_the_newest_then_the_newest_and_nothing_at_rest() -> None:
    lane = Lane()
    lane.copy(0, 0, 100)
    assert lane.tell() == ((0, 0), (99, 99))
    assert lane.tell() == ()
    lane.copy(100, 100, 1)
    assert lane.tell() == ((100, 100),)
    assert lane.tell() == ()


def test_one_record_is_told_once() -> None:
    lane = Lane()
    lane.copy(7, 9, 1)
    assert lane.tell() == ((7, 9),)


def test_a_position_that_passed_markers_is_told_with_the_same_pair() -> None:
    lane = Lane()
    lane.copy(0, 0, 3)
    lane.tell()
    lane.version += 1
    assert lane.tell() == ((2, 2),)
    assert lane.tell() == ()


def test_pairs_in_between_are_as_far_apart_as_asked() -> None:
    lane = Lane()
    lane.copy(0, 0, 500)
    assert [pair.target for pair in lane.tell()] == [0, 101, 202, 303, 404, 499]
    lane.copy(500, 500, 150)
    assert [pair.target for pair in lane.tell()] == [600, 649]


def test_pairs_in_between_name_records_where_offsets_have_holes() -> None:
    lane = Lane(9)
    lane.copy(0, 0, 5)
    lane.copy(20, 30, 5)
    lane.copy(25, 50, 3)
    assert lane.tell() == ((0, 0), (4, 4), (20, 30), (24, 34), (25, 50), (27, 52))


def test_a_busy_tick_has_few_of_them() -> None:
    lane = Lane(0)
    lane.copy(0, 0, 10_000)
    told = lane.tell()
    assert len(told) == MOST_BETWEEN + 2
    assert max(after.target - before.target for before, after in pairwise(told)) <= 1112


def test_blocks_that_became_durable_meanwhile_take_their_pairs_with_them() -> None:
    emitter = SyncEmitter(0)
    emitter.begin(OffsetPair(0, 0))
    due = emitter.due(1, (MapRun(50, 60, 2), MapRun(70, 80, 1)))
    assert due is not None
    assert due.pairs == ((0, 0), (51, 61), (70, 80))


def test_what_was_not_written_stays_due_and_what_came_since_too() -> None:
    lane = Lane(0)
    lane.copy(0, 0, 1)
    first = lane.emitter.due(lane.version, lane.map.runs)
    lane.copy(1, 1, 2)
    assert lane.due() == ((0, 0), (1, 1), (2, 2))
    assert first is not None
    lane.emitter.written(first)
    assert lane.due() == ((1, 1), (2, 2))


def test_after_a_lost_answer_nothing_in_between_is_told_again() -> None:
    lane = Lane(0)
    lane.copy(0, 0, 4)
    assert len(lane.tell(known=False)) == 4
    assert lane.tell() == ((0, 0), (3, 3))
    assert lane.tell() == ()


def test_an_answer_for_a_former_ownership_says_nothing_and_what_it_owed_stays_owed() -> None:
    lane = Lane(0)
    lane.copy(0, 0, 5)
    former = lane.emitter.due(lane.version, lane.map.runs)
    assert former is not None
    lane.emitter.begin(OffsetPair(4, 4))
    for answer in (lane.emitter.written, lane.emitter.unknown):
        answer(former)
        assert lane.due()[0] == (0, 0)


def test_an_owner_tells_where_it_begins_before_it_copies() -> None:
    lane = Lane()
    lane.copy(41, 52, 1)
    lane.emitter.begin(OffsetPair(41, 52))
    assert lane.tell() == ((41, 52),)
    lane.copy(42, 54, 3)
    assert lane.tell() == ((44, 56),)


class Copying:
    """A lane under a random life: records with holes, owners that change, targets that lose their end."""

    def __init__(self, lag_max: int) -> None:
        self.lane = Lane(lag_max)
        self.store = SyncStore()
        self.store.read_to_end()
        self.target_end = 0

    @property
    def records(self) -> list[tuple[int, int]]:
        """What the target holds."""
        return [(run.source + at, run.target + at) for run in self.lane.map.runs for at in range(run.count)]

    def copy(self, count: int, hole: int, jump: int) -> None:
        last = last_pair(self.lane.map.runs)
        source, target = (last.source + 1 if last else 0) + hole, self.target_end + jump
        self.lane.copy(source, target, count)
        self.target_end = target + count

    def lose(self, count: int, markers: int) -> None:
        """The target loses its last records; behind a barrier an owner goes on from what is left.

        Where nothing is left, a lane stops, for no run of its position says where it was (core/position/resume.py).
        """
        if records := self.records:
            kept = records[max(0, len(records) - 1 - count)]
            runs = cut_at_target(self.lane.map.runs, kept[1] + 1)
            self.lane.map = MapTail(self.lane.map.generation + 1, START, 0, runs)
            self.lane.version += 1
            self.target_end = kept[1] + 1 + markers
            self.lane.emitter.begin(last_pair(runs))

    def write(self, answer: str) -> None:
        told = self.lane.tell(known=answer == "told")
        for pair in told if answer != "lost before" else ():
            self.store.add(OffsetSync("t", 0, *pair))

    def check(self) -> None:
        records = self.records
        for asked in range(records[-1][0] + 2):
            answer = self.store.translate(LANE, asked)
            true = next((target for source, target in records if source >= asked), self.target_end)
            assert answer is None or answer == TOO_OLD or answer <= true, (asked, answer, true)


STEPS = st.one_of(
    st.tuples(st.just("copy"), st.integers(1, 6), st.sampled_from([0, 0, 3]), st.sampled_from([0, 0, 5])),
    st.tuples(st.just("lose"), st.integers(0, 9), st.sampled_from([0, 0, 3])),
    st.tuples(st.just("write"), st.sampled_from(["told", "told", "lost before", "lost after"])),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=40), st.sampled_from([0, 3, 100]))
def test_mm2s_reader_is_never_ahead_once_an_owner_has_told_where_it_stands(
    steps: list[tuple[object, ...]], lag_max: int
) -> None:
    life = Copying(lag_max)
    for step in steps:
        match step:
            case ("copy", int(count), int(hole), int(jump)):
                life.copy(count, hole, jump)
            case ("lose", int(count), int(markers)):
                life.lose(count, markers)
            case ("write", str(answer)):
                life.write(answer)
    life.copy(1, 0, 0)
    life.write("told")
    life.check()
    assert life.lane.due() == ()
