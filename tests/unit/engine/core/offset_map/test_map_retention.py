"""A map after retention on the target: what remains, and its answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.offset_map.map_blocks import BlockPlace, encode_block, read_place
from engine.core.offset_map.map_retention import DeletedBlocks, deleted_blocks
from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, MapStart, MapTail
from engine.core.offset_map.offset_map import How, OffsetMap, Translation
from tests.unit.engine.core.maps import START, map_of, records_of, run_lists

RUNS = tuple(MapRun(100 + 10 * at, 10 * at, 5) for at in range(7))
"""Two runs a block: targets 0-14, 20-34, 40-54 and, in the tail, 60-64."""
BLOCKS = {number: MapBlock(number, 1, RUNS[2 * number : 2 * number + 2]) for number in range(3)}


def place(block: MapBlock) -> BlockPlace:
    return read_place(encode_block(block), 100 + block.number)


PLACES = {number: place(block) for number, block in BLOCKS.items()}


def tail(blocks: int = 3, start: MapStart = START, runs: tuple[MapRun, ...] = RUNS[6:]) -> MapTail:
    return MapTail(1, start, blocks, runs)


@pytest.mark.parametrize(
    ("log_start", "found"),
    [
        (14, None),
        (15, None),  # the end of block 0 is not read: it goes when retention reaches block 1
        (20, DeletedBlocks(MapStart(120, 20, first=True), (0,))),
        (34, DeletedBlocks(MapStart(120, 20, first=True), (0,))),
        (40, DeletedBlocks(MapStart(140, 40, first=True), (0, 1))),
        (59, DeletedBlocks(MapStart(140, 40, first=True), (0, 1))),
        (60, DeletedBlocks(MapStart(160, 60, first=True), (0, 1, 2))),
        (70, DeletedBlocks(MapStart(160, 60, first=True), (0, 1, 2))),
    ],
)
def test_blocks_below_the_one_that_the_log_starts_in_go(log_start: int, found: DeletedBlocks | None) -> None:
    assert deleted_blocks(PLACES, tail(), log_start) == found


def test_what_was_begun_is_found_again() -> None:
    begun = MapStart(140, 40, first=True)
    assert deleted_blocks(PLACES, tail(start=begun), 45) == DeletedBlocks(begun, (0, 1))
    assert deleted_blocks({2: PLACES[2]}, tail(start=begun), 45) is None


def test_what_was_copied_before_the_map_is_eaten_too() -> None:
    start = MapStart(100, 0, first=False)
    assert deleted_blocks({}, tail(0, start, RUNS[:1]), 0) == DeletedBlocks(MapStart(100, 0, first=True), ())
    assert deleted_blocks({}, tail(0, MapStart(100, 1, first=False), RUNS[:1]), 0) is None


def test_blocks_that_no_position_counts_are_left_alone() -> None:
    assert deleted_blocks(PLACES, tail(1, runs=RUNS[2:]), 70) == DeletedBlocks(MapStart(120, 20, first=True), (0,))


def test_without_a_record_behind_them_the_last_block_stays() -> None:
    assert deleted_blocks(PLACES, tail(runs=()), 70) == DeletedBlocks(MapStart(140, 40, first=True), (0, 1))
    assert deleted_blocks({}, tail(0, runs=()), 0) is None


def test_a_lost_block_between_is_not_taken_for_eaten() -> None:
    lost = {0: PLACES[0], 2: PLACES[2]}
    assert deleted_blocks(lost, tail(), 30) is None
    assert deleted_blocks(lost, tail(), 40) == DeletedBlocks(MapStart(140, 40, first=True), (0,))


def reader(blocks: range) -> OffsetMap:
    known = OffsetMap()
    for number in blocks:
        known.add_block(BLOCKS[number], 100 + number)
    return known


HEAD = MapHead(1, 3, 165, 65, RUNS[6:])
LATER = MapStart(140, 40, first=True)
FIRST_LEFT = Translation(How.REFINED, 40)


def test_a_reader_that_comes_later_answers_with_what_is_left() -> None:
    known = reader(range(2, 3))
    known.follow(HEAD, LATER)
    assert known.begins == LATER
    assert [known.translate(at) for at in (0, 120, 139)] == [FIRST_LEFT] * 3
    assert known.translate(141) == Translation(How.RUN, 41)
    assert known.source_of(7) == Translation(How.REFINED, 140)


def test_a_reader_that_was_there_before_goes_on() -> None:
    known = reader(range(3))
    known.follow(HEAD, START)
    assert known.translate(121) == Translation(How.RUN, 21)
    for number in (0, 1):
        known.remove_block(number)
    assert known.translate(121).how is How.BEFORE, "nobody has said yet why it is not there"
    assert not known.follow(HEAD, LATER)
    assert known.translate(121) == FIRST_LEFT
    assert known.translate(151) == Translation(How.RUN, 51)
    assert known.loaded_runs == 2
    known.remove_block(9)


def test_a_start_is_not_taken_back_nor_from_another_generation() -> None:
    known = reader(range(3))
    known.follow(HEAD, LATER)
    known.follow(HEAD, START)
    known.follow(MapHead(0, 3, 165, 65, RUNS[6:]), MapStart(160, 60, first=True))
    known.follow(HEAD)
    assert known.begins == LATER


def test_a_removed_block_is_missed_before_there_is_a_head_and_with_the_next() -> None:
    known = reader(range(3))
    known.remove_block(0)
    known.follow(HEAD, MapStart(120, 20, first=True))
    assert known.translate(100) == Translation(How.REFINED, 20)
    known.remove_block(1)
    known.follow(MapHead(1, 3, 166, 66, (MapRun(160, 60, 6),)), LATER)
    assert known.translate(100) == FIRST_LEFT


def test_where_a_block_is_lost_behind_the_start_the_map_begins_behind_it() -> None:
    known = reader(range(2, 3))
    known.follow(HEAD, MapStart(120, 20, first=True))
    assert known.translate(130).how is How.BEFORE


@given(run_lists(), st.integers(1, 4), st.integers(0, 120))
def test_every_answer_is_still_the_models(runs: tuple[MapRun, ...], per_block: int, log_start: int) -> None:
    """Clamped to the log start, as every reader does, answers name the first record that is left."""
    end = runs[-1].source + runs[-1].count if runs else 0, runs[-1].target + runs[-1].count if runs else 0
    full = max(0, len(runs) - 1) // per_block
    blocks = {number: MapBlock(number, 1, runs[number * per_block :][:per_block]) for number in range(full)}
    places = {number: place(block) for number, block in blocks.items()}
    found = deleted_blocks(places, MapTail(1, START, full, runs[full * per_block :]), log_start)
    known = map_of(runs, *end, per_block=per_block)
    if found is not None:
        for number in found.numbers:
            known.remove_block(number)
        known.follow(MapHead(1, full, *end, runs[full * per_block :]), found.start)
    left = {source: target for source, target in records_of(runs).items() if target >= log_start}
    for offset in range(end[0] + 1):
        answer = known.translate(offset)
        at = max(answer.offset, log_start)
        expected = min((target for source, target in left.items() if source >= offset), default=None)
        assert answer.exact
        assert min((target for target in left.values() if target >= at), default=None) == expected, offset
