"""Builds the offset map of a lane's next owner: the stored map continued, or cut if records were lost."""

from collections.abc import Mapping, Sequence

import msgspec

from engine.core.offset_map.map_blocks import BlockPlace
from engine.core.offset_map.map_runs import MapBlock, MapRun, MapStart, MapTail, check_runs, cut_runs
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import RENEWED, ResumePoint


def map_reaches(position: Position, target_end: int) -> bool:
    """Whether the map's tail is enough to cut the map at a target offset; else a block must be read back."""
    tail = position.map_tail
    return not position.map_blocks or (bool(tail) and tail[0].target < target_end)


def needed_blocks(position: Position, places: Mapping[int, BlockPlace], target_end: int) -> dict[int, BlockPlace]:
    """Return the blocks that `unfolded` needs: the last block that starts below a target offset, and all later ones."""
    counted = {number: place for number, place in places.items() if number < position.map_blocks}
    first = max((number for number, place in counted.items() if place.target < target_end), default=0)
    return {number: place for number, place in counted.items() if number >= first}


def unfolded(position: Position, blocks: Mapping[int, MapBlock], target_end: int) -> Position:
    """Move the last blocks of the map back into its tail, down to the last block that starts below a target offset.

    If a block is missing, the map starts after it.
    """
    number, parts = position.map_blocks, [position.map_tail]
    start = position.map_start
    while number and not (parts[-1] and parts[-1][0].target < target_end):
        block, behind = blocks.get(number - 1), parts[-1][:1]
        if block is None or not block.runs or not _follows(block.runs, behind):
            place = behind[0] if behind else MapRun(position.source_next, position.target_next, 0)
            number, start = 0, MapStart(place.source, place.target, first=False)
            break
        number -= 1
        parts.append(block.runs)
    return msgspec.structs.replace(
        position,
        map_blocks=number,
        map_tail=tuple(run for part in reversed(parts) for run in part),
        map_source=start.source,
        map_target=start.target,
        map_first=start.first,
    )


def _follows(runs: Sequence[MapRun], behind: Sequence[MapRun]) -> bool:
    try:
        check_runs((*runs, *behind))
    except ValueError:
        return False
    return True


def resumed_map(stored: Position | ForeignPosition | None, found: ResumePoint, generation: int) -> MapTail:
    """Return the lane's map for the next owner.

    `generation`: for a map that starts here; it must be above the generation of every earlier map of the lane.
    """
    place = MapStart(found.source_next, found.target_next, first=stored is None and not found.foreign)
    if not isinstance(stored, Position):
        copied = found.copied if found.cut < 0 else cut_runs(found.copied, found.cut)
        begin = MapStart(copied[0].source, copied[0].target, first=False) if copied else place
        return MapTail(generation, begin, 0, copied)
    if stored.map_source < 0 and found.target_end >= 0:
        return MapTail(generation, place, 0, ())
    known = stored.map_source >= 0
    generation = stored.map_generation + 1 if known else generation
    if found.how == RENEWED:
        return MapTail(generation, MapStart(found.source_next, found.target_next, found.whole), 0, ())
    if found.cut >= 0:
        return _parted(stored, found, generation, place)
    tail = MapTail(generation, stored.map_start, stored.map_blocks, ())
    kept = stored.map_tail
    if found.target_end >= 0:
        kept = cut_runs(kept, found.copied[0].source if found.copied else found.source_next)
    if found.source_next < tail.start.source:
        tail.start = place
    elif found.copied and found.copied[0].target < tail.start.target:  # late requests, in the place of its barrier
        tail.start = MapStart(found.copied[0].source, found.copied[0].target, tail.start.first)
    if not _follows(kept, found.copied):  # duplicate content was treated as MM2's copy: use only what is certain
        return MapTail(tail.generation, place, 0, ())
    for run in (*kept, *found.copied):
        tail.append(*run)
    return tail


def _parted(stored: Position, found: ResumePoint, generation: int, place: MapStart) -> MapTail:
    """Cut the map where the source's history diverges; before a hole the map loses nothing.

    Runs that the present source never had are removed; if some of them are in blocks, the whole map is dropped.
    """
    into_blocks = stored.map_blocks > 0 and not (stored.map_tail and stored.map_tail[0].source < found.cut)
    if not _follows(stored.map_tail, found.copied) or (into_blocks and found.cut < stored.source_next):
        return MapTail(generation, place, 0, ())
    tail = MapTail(generation, stored.map_start, stored.map_blocks, ())
    if found.cut < tail.start.source:
        tail.start = place
    for run in cut_runs((*stored.map_tail, *found.copied), found.cut):
        tail.append(*run)
    return tail
