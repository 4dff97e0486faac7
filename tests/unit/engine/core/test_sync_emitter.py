"""Which syncs a lane tells: bounded, complete at rest, and never a lie to MM2's reader, whatever the target lost."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.mm2_records import OffsetSync
from engine.core.sync_emitter import MOST_BETWEEN, Due, Pair, SyncEmitter
from engine.core.sync_store import TOO_OLD, SyncStore
from policies.model import TopicPartition

LANE = TopicPartition("t", 0)


def straight(emitter: SyncEmitter, first: int, count: int) -> None:
    emitter.copied(Pair(first, first), Pair(first + count - 1, first + count - 1))


def pairs(emitter: SyncEmitter) -> tuple[Pair, ...]:
    due = emitter.due()
    return () if due is None else due.pairs


def tell(emitter: SyncEmitter) -> tuple[Pair, ...]:
    due = emitter.due()
    if due is None:
        return ()
    emitter.told(due)
    return due.pairs


def test_a_lane_that_has_copied_nothing_tells_nothing() -> None:
    emitter = SyncEmitter(100)
    emitter.begin()
    assert emitter.due() is None


def test_the_first_and_the_newest_then_the_newest_and_nothing_at_rest() -> None:
    emitter = SyncEmitter(100)
    straight(emitter, 0, 50)
    straight(emitter, 50, 50)
    assert tell(emitter) == ((0, 0), (99, 99))
    assert tell(emitter) == ()
    straight(emitter, 100, 1)
    assert tell(emitter) == ((100, 100),)
    assert tell(emitter) == ()


def test_one_record_is_told_once() -> None:
    emitter = SyncEmitter(100)
    straight(emitter, 7, 1)
    assert tell(emitter) == ((7, 7),)


def test_pairs_in_between_are_as_far_apart_as_asked() -> None:
    emitter = SyncEmitter(100)
    for first in range(0, 500, 10):
        straight(emitter, first, 10)
    assert [pair.target for pair in tell(emitter)] == [0, 109, 219, 329, 439, 499]


def test_a_busy_tick_thins_what_is_in_between() -> None:
    emitter = SyncEmitter(0)
    for offset in range(10_000):
        straight(emitter, offset, 1)
    told = tell(emitter)
    assert len(told) <= MOST_BETWEEN + 2
    assert (told[0], told[-1]) == ((0, 0), (9999, 9999))
    assert max(after.target - before.target for before, after in pairwise(told)) <= 5000


def test_what_was_not_written_stays_due_and_what_came_since_too() -> None:
    emitter = SyncEmitter(0)
    straight(emitter, 0, 1)
    first = emitter.due()
    straight(emitter, 1, 1)
    straight(emitter, 2, 1)
    assert pairs(emitter) == ((0, 0), (1, 1), (2, 2))
    assert first is not None
    emitter.told(first)
    assert pairs(emitter) == ((1, 1), (2, 2))


def test_after_a_lost_answer_nothing_in_between_is_told_again() -> None:
    emitter = SyncEmitter(0)
    for offset in range(4):
        straight(emitter, offset, 1)
    lost = emitter.due()
    assert lost is not None
    assert len(lost.pairs) == 4
    emitter.unknown(lost)
    assert tell(emitter) == ((0, 0), (3, 3))


def test_an_answer_for_a_former_ownership_says_nothing_and_what_it_owed_stays_owed() -> None:
    emitter = SyncEmitter(0)
    straight(emitter, 0, 5)
    former = emitter.due()
    assert former is not None
    emitter.begin(Pair(2, 2))
    for answer in (emitter.told, emitter.unknown):
        answer(former)
        assert pairs(emitter) == ((0, 0), (2, 2))


def test_an_owner_tells_where_it_begins_before_it_copies() -> None:
    emitter = SyncEmitter(100)
    emitter.begin(Pair(41, 52))
    assert tell(emitter) == ((41, 52),)
    emitter.copied(Pair(42, 54), Pair(44, 56))
    assert tell(emitter) == ((44, 56),)


class Copying:
    """A lane under a random life: records with holes, owners that change, targets that lose their end."""

    def __init__(self, lag_max: int) -> None:
        self.emitter = SyncEmitter(lag_max)
        self.store = SyncStore()
        self.store.read_to_end()
        self.records: list[Pair] = []
        """What the target holds."""
        self.target_end = 0

    def copy(self, count: int, hole: int, jump: int) -> None:
        source = (self.records[-1].source + 1 if self.records else 0) + hole
        target = self.target_end + jump
        batch = [Pair(source + at, target + at) for at in range(count)]
        self.records += batch
        self.target_end = target + count
        self.emitter.copied(batch[0], batch[-1])

    def lose(self, count: int, markers: int) -> None:
        """The target loses its last records; behind a barrier an owner goes on from what is left.

        Where nothing is left, a lane stops, for no run of its position says where it was (core/resume.py).
        """
        if self.records:
            del self.records[max(1, len(self.records) - count) :]
            self.target_end = self.records[-1].target + 1 + markers
            self.emitter.begin(self.records[-1])

    def write(self, answer: str) -> None:
        due = self.emitter.due()
        if due is None:
            return
        if answer != "lost before":
            for pair in due.pairs:
                self.store.add(OffsetSync("t", 0, *pair))
        {"told": self.emitter.told, "lost before": self.emitter.unknown, "lost after": self.emitter.unknown}[answer](
            Due(due.pairs, due.ownership)
        )

    def check(self) -> None:
        ends = self.records[-1].source + 2 if self.records else 2
        for asked in range(ends):
            answer = self.store.translate(LANE, asked)
            true = next((target for source, target in self.records if source >= asked), self.target_end)
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
    assert life.emitter.due() is None
