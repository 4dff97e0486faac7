"""The map of a lane: growing, cut, read from blocks and a head, compared with one entry per record."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.offset_map.map_runs import RUNS_PER_BLOCK, check_runs, cut_at_target, cut_runs
from engine.core.offset_map.offset_map import How, MapBlock, MapHead, MapRun, MapStart, MapTail, OffsetMap, Translation
from tests.unit.engine.core.maps import START, map_of, records_of, run_lists

RUNS = (MapRun(10, 20, 3), MapRun(15, 23, 2), MapRun(17, 27, 4))


def ends_of(runs: tuple[MapRun, ...]) -> tuple[int, int]:
    last = runs[-1] if runs else MapRun(0, 0, 0)
    return last.source + last.count, last.target + last.count


# --- the tail of a lane ------------------------------------------------------------------------------------------


def test_straight_records_are_one_run_and_a_gap_on_either_side_begins_another() -> None:
    tail = MapTail(1, START, 0, ())
    for source, target, count in ((10, 20, 1), (11, 21, 2), (15, 23, 2), (17, 27, 3), (20, 30, 1)):
        tail.append(source, target, count)
    assert tail.runs == RUNS
    assert tail.pending == 3
    assert tail.head(25, 31) == MapHead(1, 0, 25, 31, RUNS)


def test_an_empty_tail_has_no_runs() -> None:
    tail = MapTail(1, START, 0, ())
    assert (tail.runs, tail.pending, tuple(tail.sealed()), tail.has_sealed) == ((), 0, (), False)


def test_a_tail_goes_on_where_it_was_left() -> None:
    tail = MapTail(2, START, 5, RUNS)
    tail.append(21, 31, 2)
    assert tail.runs == (*RUNS[:2], MapRun(17, 27, 6))


@pytest.mark.parametrize(("source", "target"), [(20, 31), (21, 30)])
def test_records_below_the_end_are_a_bug(source: int, target: int) -> None:
    with pytest.raises(AssertionError, match="after 21 -> 31"):
        MapTail(2, START, 5, RUNS).append(source, target, 1)


def test_full_blocks_are_sealed_and_forgotten_when_durable() -> None:
    tail = MapTail(3, START, 7, ())
    runs = [MapRun(at * 2, at, 1) for at in range(2 * RUNS_PER_BLOCK + 1)]
    for run in runs[: RUNS_PER_BLOCK + 1]:
        assert not tail.has_sealed  # the last run may still grow
        tail.append(*run)
    assert tail.has_sealed
    assert tuple(tail.sealed()) == (MapBlock(7, 3, tuple(runs[:RUNS_PER_BLOCK])),)
    for run in runs[RUNS_PER_BLOCK + 1 :]:
        tail.append(*run)
    assert tuple(tail.sealed()) == (
        MapBlock(7, 3, tuple(runs[:RUNS_PER_BLOCK])),
        MapBlock(8, 3, tuple(runs[RUNS_PER_BLOCK : 2 * RUNS_PER_BLOCK])),
    )
    tail.on_durable(8)
    assert (tail.blocks, tail.pending) == (8, RUNS_PER_BLOCK + 1)
    assert [block.number for block in tail.sealed()] == [8]
    assert tail.runs == tuple(runs[RUNS_PER_BLOCK:])


def irregular(count: int) -> list[MapRun]:
    """Runs of different lengths with a marker after each."""
    runs = [MapRun(0, 0, 1)]
    for at in range(1, count):
        source, target, records = runs[-1]
        runs.append(MapRun(source + records + 1, target + records, at % 7 + 1))
    return runs


def test_a_tail_that_syncs_carry_often_becomes_a_block_before_it_is_full() -> None:
    tail, runs = MapTail(3, START, 7, ()), irregular(30)
    for run in runs[:21]:
        assert not tail.has_sealed
        tail.append(*run)
        tail.carried()
    assert tuple(tail.sealed()) == (MapBlock(7, 3, tuple(runs[:20])),), "1 + 2 + ... + 18 changes were carried by then"
    for run in runs[21:]:
        tail.append(*run)
    assert [len(block.runs) for block in tail.sealed()] == [20]
    tail.on_durable(8)
    assert not tail.has_sealed
    assert tail.runs == tuple(runs[20:])


def test_runs_of_one_shape_are_carried_until_their_block_is_full() -> None:
    tail = MapTail(3, START, 7, ())
    for at in range(RUNS_PER_BLOCK):
        tail.append(at * 11, at * 10, 10)
        assert not tail.has_sealed
        tail.carried()
    tail.append(RUNS_PER_BLOCK * 11, RUNS_PER_BLOCK * 10, 10)
    assert tail.has_sealed


def test_runs_that_one_sync_carries_fill_whole_blocks() -> None:
    tail, runs = MapTail(3, START, 7, ()), irregular(RUNS_PER_BLOCK + 1)
    for run in runs:
        tail.append(*run)
    tail.carried()
    assert [len(block.runs) for block in tail.sealed()] == [RUNS_PER_BLOCK]


def test_blocks_of_a_tail_that_is_read_again_are_the_same() -> None:
    runs = irregular(2 * RUNS_PER_BLOCK + 3)
    grown = MapTail(3, START, 7, ())
    for run in runs:
        grown.append(*run)
    assert tuple(MapTail(3, START, 7, runs).sealed()) == tuple(grown.sealed())


@given(run_lists(), st.integers(0, 60))
def test_a_cut_leaves_the_records_below(runs: tuple[MapRun, ...], at: int) -> None:
    records = records_of(runs)
    assert records_of(cut_runs(runs, at)) == {s: t for s, t in records.items() if s < at}
    assert records_of(cut_at_target(runs, at)) == {s: t for s, t in records.items() if t < at}


@pytest.mark.parametrize(
    "runs",
    [
        (MapRun(0, 0, 0),),
        (MapRun(-1, 0, 1),),
        (MapRun(0, -1, 1),),
        (MapRun(0, 0, 2), MapRun(1, 2, 1)),
        (MapRun(0, 0, 2), MapRun(2, 1, 1)),
    ],
)
def test_runs_that_cannot_be_are_refused(runs: tuple[MapRun, ...]) -> None:
    with pytest.raises(ValueError, match="run"):
        check_runs(runs)
    with pytest.raises(ValueError, match="run"):
        OffsetMap().add_block(MapBlock(0, 1, runs), place=0)
    with pytest.raises(ValueError, match="run"):
        OffsetMap().follow(MapHead(1, 0, 9, 9, runs))


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (10, Translation(How.RUN, 20)),
        (12, Translation(How.RUN, 22)),
        (13, Translation(How.REFINED, 23)),
        (14, Translation(How.REFINED, 23)),
        (16, Translation(How.RUN, 24)),
        (17, Translation(How.RUN, 27)),
        (20, Translation(How.RUN, 30)),
        (21, Translation(How.END, 33)),
        (22, Translation(How.END, 33)),
        (23, Translation(How.BEYOND)),
        (9, Translation(How.REFINED, 20)),
    ],
)
def test_a_source_offset_is_translated(source: int, expected: Translation) -> None:
    known = OffsetMap()
    assert known.follow(MapHead(1, 0, 22, 33, RUNS), START)
    assert known.translate(source) == expected
    assert expected.exact == (expected.offset >= 0)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (20, Translation(How.RUN, 10)),
        (25, Translation(How.REFINED, 17)),
        (30, Translation(How.RUN, 20)),
        (31, Translation(How.END, 22)),
        (33, Translation(How.END, 22)),
        (34, Translation(How.BEYOND)),
    ],
)
def test_the_way_back(target: int, expected: Translation) -> None:
    known = OffsetMap()
    known.follow(MapHead(1, 0, 22, 33, RUNS), START)
    assert known.source_of(target) == expected


def test_below_its_begin_a_map_answers_only_where_nothing_was_copied_before() -> None:
    later, first = MapStart(8, 18, first=False), MapStart(8, 18, first=True)
    known = map_of(RUNS, 21, 31, start=later)
    assert known.translate(7) == Translation(How.BEFORE)
    assert known.translate(8) == Translation(How.REFINED, 20)
    assert known.source_of(17) == Translation(How.BEFORE)
    assert map_of(RUNS, 21, 31, start=first).translate(0) == Translation(How.REFINED, 20)


def test_an_empty_map_knows_its_end() -> None:
    known = map_of((), 8, 18, start=MapStart(8, 18, first=True))
    assert known.translate(8) == known.translate(2) == Translation(How.END, 18)
    assert known.translate(9) == Translation(How.BEYOND)


def test_without_a_head_there_is_no_answer() -> None:
    known = OffsetMap()
    assert known.begins is None
    assert known.translate(3) == known.source_of(3) == Translation(How.STALE)
    known.follow(MapHead(1, 0, 22, 33, RUNS))  # a sync; where the map begins comes with a position
    assert known.translate(11) == Translation(How.STALE)


@given(run_lists(), st.integers(1, 5), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_every_answer_is_the_models(runs: tuple[MapRun, ...], per_block: int, more: tuple[int, int]) -> None:
    source_next, target_next = (end + extra for end, extra in zip(ends_of(runs), more, strict=True))
    known = map_of(runs, source_next, target_next, per_block=per_block)
    records = records_of(runs)
    back = {t: s for s, t in records.items()}
    for offset in range(source_next + 2):
        behind = [target for source, target in records.items() if source >= offset]
        answer = known.translate(offset)
        assert answer.offset == (-1 if offset > source_next else min(behind, default=target_next))
        assert (answer.how is How.RUN) == (offset in records)
    for offset in range(target_next + 2):
        behind = [source for target, source in back.items() if target >= offset]
        assert known.source_of(offset).offset == (-1 if offset > target_next else min(behind, default=source_next))


# --- memory ------------------------------------------------------------------------------------------------------


@given(run_lists(), st.integers(1, 5), st.integers(0, 12), st.randoms(use_true_random=False))
def test_thinned_blocks_are_asked_for_and_nothing_else(
    runs: tuple[MapRun, ...], per_block: int, keep: int, dice: object
) -> None:
    source_next, target_next = ends_of(runs)
    known = map_of(runs, source_next, target_next, per_block=per_block)
    whole = map_of(runs, source_next, target_next, per_block=per_block)
    for offset in range(source_next + 1):
        known.thin(keep)
        assert known.loaded_runs <= keep
        answer = known.translate(offset)
        if answer.how is How.UNREAD:
            assert not answer.exact
            assert known.place(answer.block) == 100 + answer.block
            number = answer.block
            known.load(MapBlock(number, 1, runs[number * per_block : (number + 1) * per_block]))
            answer = known.translate(offset)
        assert answer == whole.translate(offset)


def test_the_block_that_was_used_last_stays() -> None:
    runs = tuple(MapRun(at * 2, at, 1) for at in range(9))
    known = map_of(runs, 18, 9, per_block=2)
    assert known.loaded_runs == 8
    assert known.translate(0).how is How.RUN
    known.thin(2)
    assert known.translate(2).how is How.RUN
    assert known.translate(5) == Translation(How.UNREAD, block=1)
    known.load(MapBlock(0, 1, runs[:2]))  # it is there already
    assert known.loaded_runs == 2


# --- change ------------------------------------------------------------------------------------------------------


def test_only_a_newer_head_is_followed() -> None:
    known = OffsetMap()
    assert known.follow(MapHead(2, 0, 13, 23, RUNS[:1]), START)
    assert not known.follow(MapHead(2, 0, 13, 23, RUNS[:1]), START)
    assert not known.follow(MapHead(2, 0, 12, 22, (MapRun(10, 20, 2),)), START)
    assert not known.follow(MapHead(1, 0, 21, 31, RUNS), START)  # of a former owner
    assert known.follow(MapHead(2, 0, 21, 31, RUNS))
    assert known.translate(20) == Translation(How.RUN, 30)
    assert known.follow(MapHead(3, 0, 12, 22, (MapRun(10, 20, 2),)), START)  # a new owner found records missing
    assert known.translate(13) == Translation(How.BEYOND)


def test_a_block_that_was_written_anew_makes_an_older_head_stale() -> None:
    runs = tuple(MapRun(at * 2, at, 1) for at in range(5))
    known = map_of(runs, 10, 5, per_block=2)
    again = (MapRun(4, 2, 1), MapRun(6, 9, 1))
    known.add_block(MapBlock(1, 2, again), place=200)
    assert known.translate(0) == Translation(How.STALE)
    assert known.follow(MapHead(2, 2, 7, 10, ()), START)
    assert known.translate(6) == Translation(How.RUN, 9)
    assert known.translate(7) == Translation(How.END, 10)
    assert known.place(1) == 200


def test_blocks_that_no_head_counts_are_no_part_of_the_map() -> None:
    known = OffsetMap()
    known.add_block(MapBlock(1, 1, (MapRun(70, 70, 1),)), place=6)  # of an owner that never came to say so
    known.add_block(MapBlock(0, 1, (MapRun(0, 0, 1), MapRun(2, 2, 1))), place=5)
    known.follow(MapHead(2, 1, 5, 5, (MapRun(4, 4, 1),)), START)
    assert [known.translate(at).offset for at in range(7)] == [0, 2, 2, 4, 4, 5, -1]


def test_behind_a_missing_block_the_map_begins_anew() -> None:
    runs = tuple(MapRun(at * 2, at, 1) for at in range(7))
    known = OffsetMap()
    for number in (0, 2):
        known.add_block(MapBlock(number, 1, runs[number * 2 : number * 2 + 2]), place=number)
    known.follow(MapHead(1, 3, 14, 7, runs[6:]), START)
    assert known.begins == MapStart(8, 4, first=False)
    assert known.translate(7) == Translation(How.BEFORE)
    assert known.translate(8) == Translation(How.RUN, 4)
    known.add_block(MapBlock(1, 1, runs[2:4]), place=9)  # it was found after all
    known.follow(MapHead(1, 3, 15, 7, runs[6:]), START)
    assert known.begins == MapStart(4, 2, first=False)
    known.add_block(MapBlock(0, 1, runs[:2]), place=10)
    known.follow(MapHead(1, 3, 16, 7, runs[6:]), START)
    assert known.begins == START


def test_a_head_whose_blocks_are_all_lost_answers_for_itself() -> None:
    known = OffsetMap()
    known.follow(MapHead(1, 2, 21, 31, RUNS), START)
    assert known.begins == MapStart(10, 20, first=False)
    assert known.translate(9) == Translation(How.BEFORE)
    assert known.translate(10) == Translation(How.RUN, 20)
    known.follow(MapHead(2, 2, 21, 31, ()), START)
    assert known.begins == MapStart(21, 31, first=False)
    assert known.translate(21) == Translation(How.END, 31)


@pytest.mark.parametrize("misfit", [MapRun(6, 1, 1), MapRun(1, 6, 1)])
def test_blocks_that_do_not_follow_each_other_are_not_mixed(misfit: MapRun) -> None:
    known = OffsetMap()
    known.add_block(MapBlock(0, 1, (MapRun(5, 5, 1),)), place=0)
    known.add_block(MapBlock(1, 1, (misfit,)), place=1)
    known.follow(MapHead(1, 2, 21, 31, RUNS), START)
    assert known.begins == MapStart(misfit.source, misfit.target, first=False)


@pytest.mark.parametrize("misfit", [MapRun(12, 3, 1), MapRun(3, 25, 1)])
def test_a_head_that_does_not_follow_its_blocks_stands_alone(misfit: MapRun) -> None:
    known = OffsetMap()
    known.add_block(MapBlock(0, 1, (misfit,)), place=0)
    known.follow(MapHead(1, 1, 21, 31, RUNS), START)
    assert known.begins == MapStart(10, 20, first=False)
    known.add_block(MapBlock(0, 1, (MapRun(1, 2, 3),)), place=1)
    known.follow(MapHead(1, 1, 22, 31, RUNS), START)
    assert known.begins == START


def test_a_block_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="block 4 has no runs"):
        OffsetMap().add_block(MapBlock(4, 1, ()), place=0)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 4)), max_size=40))
def test_what_a_lane_keeps_is_what_a_reader_finds(steps: list[tuple[int, int, int]]) -> None:
    tail = MapTail(1, START, 0, ())
    ends: list[tuple[int, int, int]] = []
    source = target = 0
    for gap, other, count in steps:
        source, target = source + gap + count, target + other + count
        ends.append((source, target, count))
    for source_end, target_end, count in ends:
        tail.append(source_end - count, target_end - count, count)
    records = {s - n + at: t - n + at for s, t, n in ends for at in range(n)}
    assert records_of(tail.runs) == records
    check_runs(tail.runs)
    assert not any(a.source + a.count == b.source and a.target + a.count == b.target for a, b in pairwise(tail.runs))


# --- all of it -----------------------------------------------------------------------------------------------------


@given(run_lists(), st.integers(0, 120))
def test_the_columns_from_an_offset_on_are_the_runs_from_there(runs: tuple[MapRun, ...], offset: int) -> None:
    known = map_of(runs, *ends_of(runs))
    found = list[MapRun]()
    for number in known.numbers(offset):
        columns = known.columns(number)
        assert columns is not None
        found += map(MapRun, *columns)
    assert tuple(found) == runs[len(runs) - len(found) :]
    assert {run for run in runs if run.source + run.count > offset} <= set(found)


def test_the_columns_of_a_thinned_block_are_not_at_hand() -> None:
    runs = tuple(MapRun(2 * at, at, 1) for at in range(9))
    known = map_of(runs, 20, 9)
    known.thin(4)
    assert [known.columns(number) is None for number in known.numbers(0)] == [True, False, False]


def test_there_are_no_columns_of_a_map_without_a_head_or_with_a_stale_one() -> None:
    known = OffsetMap()
    assert (known.numbers(0), known.columns(0)) == (range(0), None)
    known.follow(MapHead(1, 0, 20, 9, RUNS), START)
    known.add_block(MapBlock(0, 2, RUNS), place=7)
    assert known.numbers(0) == range(0)
