"""Blocks of a lane's map that nobody needs: the target's retention has eaten every record they name.

    map     block 0 | block 1 | block 2 | block 3 | tail
    target           log start ^         (what lies before is gone)

Blocks 0 and 1 go: the map begins at block 2 from then on, and as nothing that is still there lies before it, offsets
below are answered by its first record. The position says so before the first block is removed.
"""

from collections.abc import Mapping

import msgspec

from engine.core.map_runs import MapBlock, MapStart, MapTail


class Eaten(msgspec.Struct, frozen=True):
    """What a log start makes of a map: where it begins now, and which blocks may go."""

    start: MapStart
    numbers: tuple[int, ...]


def eaten(blocks: Mapping[int, MapBlock], tail: MapTail, log_start: int) -> Eaten | None:
    """Return what of a map is below the target's log start, None where nothing is.

    `blocks`: those of the lane that are on their topic. One that is not durable by the tail's count is left alone.
    """
    durable = sorted(number for number in blocks if number < tail.blocks)
    kept = next((number for number in durable if _end(blocks[number]) > log_start), tail.blocks)
    gone = tuple(number for number in durable if number < kept)
    if not gone:
        start = msgspec.structs.replace(tail.start, first=True)
        return Eaten(start, ()) if log_start >= start.target and start != tail.start else None
    runs = blocks[kept].runs if kept < tail.blocks else tail.runs
    if not runs:
        return None  # where the next record will lie is not known yet
    if kept != gone[-1] + 1 and log_start < runs[0].target:
        return None  # a block between is lost, and what it named may still be there
    return Eaten(MapStart(runs[0].source, runs[0].target, first=True), gone)


def _end(block: MapBlock) -> int:
    return block.runs[-1].target + block.runs[-1].count
