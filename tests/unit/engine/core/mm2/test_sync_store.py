"""The offset sync store of MM2's checkpoint task: its own figures, and that it is never ahead of the truth."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.mm2.mm2_records import OffsetSync
from engine.core.mm2.sync_store import TOO_OLD, SyncStore
from policies.model import TopicPartition

LANE = TopicPartition("t", 0)


def fill(store: SyncStore, syncs: Iterable[tuple[int, int]]) -> None:
    for source, target in syncs:
        store.add(OffsetSync("t", 0, source, target))


def same(offsets: Iterable[int]) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets]


def kept(store: SyncStore) -> list[int]:
    return [source for source, _ in store.kept(LANE)]


def started(*, must_read_to_end: bool = False) -> SyncStore:
    store = SyncStore(must_read_to_end=must_read_to_end)
    fill(store, same(range(0, 1001, 10)))
    store.read_to_end()
    return store


def live(store: SyncStore, first: int) -> SyncStore:
    fill(store, same(range(first, 10_001, 10)))
    return store


def test_what_mm2_keeps_of_regular_syncs() -> None:
    assert kept(started()) == [1000, 990, 960, 900, 840, 720, 480, 0]
    assert kept(live(started(), 1000)) == [10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0]
    must = live(started(must_read_to_end=True), 1010)
    assert kept(must) == [10000, 9990, 9970, 9940, 9880, 9640, 9160, 8680, 6760, 4840, 1000]


def test_a_source_that_goes_back_takes_all_history_with_it() -> None:
    for store in (started(), live(started(), 1000), live(started(must_read_to_end=True), 1010)):
        fill(store, [(20_000, 20_000), (1500, 11_000)])
        assert kept(store) == [1500]
        answers = [store.translate(LANE, offset) for offset in (1499, 1500, 2000)]
        assert answers == [TOO_OLD, 11_000, 11_001]


def test_the_answer_for_one_offset_may_get_worse() -> None:
    store = SyncStore()
    store.read_to_end()
    fill(store, [(11, 4), (12, 5)])
    assert store.translate(LANE, 13) == 6
    fill(store, [(13, 6), (14, 7), (15, 8), (16, 9), (17, 10)])
    assert kept(store) == [17, 16, 15, 11]
    assert store.translate(LANE, 13) == 5


@pytest.mark.parametrize(
    ("syncs", "asked", "answers"),
    [((100, 200, 300), (250,), [201]), ((175, 275, 375, 475), (250, 370, 400), [176, 176, 376])],
)
def test_between_two_syncs_the_lower_one_counts(
    syncs: tuple[int, ...], asked: tuple[int, ...], answers: list[int]
) -> None:
    store = SyncStore()
    store.read_to_end()
    fill(store, same(syncs))
    assert [store.translate(LANE, offset) for offset in asked] == answers


def test_nothing_is_known_before_the_end_was_read_or_of_another_partition() -> None:
    store = SyncStore()
    fill(store, [(1, 1)])
    assert store.translate(LANE, 1) is None
    store.read_to_end()
    assert store.translate(LANE, 1) == 1
    assert store.translate(TopicPartition("t", 1), 1) is None
    assert store.kept(TopicPartition("t", 1)) == []


def test_offsets_at_the_end_of_64_bits() -> None:
    store = SyncStore()
    store.read_to_end()
    top = 2**63 - 1
    fill(store, same([0, top - 10, top - 1, top]))
    assert store.translate(LANE, top) == top
    assert store.translate(LANE, top - 5) in (1, top - 9)


@given(st.integers(1, 400), st.integers(2, 60))
def test_regular_syncs_expire_slowly(syncs: int, step: int) -> None:
    """MM2's own bound: evenly spaced syncs push out at most one older one each."""
    store = SyncStore()
    before = 0
    for number in range(syncs):
        fill(store, same([number * step]))
        found = len(store.kept(LANE))
        assert found >= before
        before = found


@st.composite
def copies(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Records of a copy as (source, target): holes in the source, foreign offsets in the target."""
    found, source, target = [], draw(st.integers(0, 50)), draw(st.integers(0, 50))
    for hole, jump in draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), min_size=1, max_size=200)):
        source, target = source + 1 + hole * (hole > 25), target + 1 + jump * (jump > 3)
        found.append((source, target))
    return found


@given(copies(), st.data())
def test_it_is_never_ahead_of_the_first_record_at_or_behind_the_committed_offset(
    records: list[tuple[int, int]], data: st.DataObject
) -> None:
    told = data.draw(st.lists(st.sampled_from(range(len(records))), max_size=len(records)).map(sorted))
    store = SyncStore(must_read_to_end=data.draw(st.booleans()))
    store.read_to_end()
    fill(store, (records[at] for at in told))
    for asked in range(records[-1][0] + 2):
        answer = store.translate(LANE, asked)
        true = next((target for source, target in records if source >= asked), records[-1][1] + 1)
        assert answer is None or answer <= true
