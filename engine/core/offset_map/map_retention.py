"""Blocks of a lane's map that nobody needs: the target's retention has eaten every record they name.

    map     block 0 | block 1 | block 2 | block 3 | tail
    target           log start ^         (what lies before is gone)

Block 0 goes: the last block that begins at or below the log start (block 1) and all behind it stay, and the map begins
there from then on. As nothing that is still there lies before it, offsets below are answered by the first record that
is left. The position says so before the first block is removed.

So no block has to be decoded: where each begins is enough. What that costs is one block too many at most, the one that
ends below the log start while the next begins above it.
"""

from collections.abc import Mapping

import msgspec

from engine.core.offset_map.map_blocks import BlockPlace
from engine.core.offset_map.map_runs import MapStart, MapTail


class Eaten(msgspec.Struct, frozen=True):
    """What a log start makes of a map: where it begins now, and which blocks may go."""

    start: MapStart
    numbers: tuple[int, ...]


def eaten(blocks: Mapping[int, BlockPlace], tail: MapTail, log_start: int) -> Eaten | None:
    """Return what of a map is below the target's log start, None where nothing is.

    `blocks`: those of the lane that are on their topic. One that is not durable by the tail's count is left alone.
    """
    begins = {number: (place.source, place.target) for number, place in blocks.items() if number < tail.blocks}
    if tail.runs:
        begins[tail.blocks] = tail.runs[0].source, tail.runs[0].target
    kept = max((number for number, (_, target) in begins.items() if target <= log_start), default=-1)
    gone = tuple(sorted(number for number in begins if number < kept))
    if gone:
        return Eaten(MapStart(*begins[kept], first=True), gone)
    start = msgspec.structs.replace(tail.start, first=True)
    return Eaten(start, ()) if log_start >= start.target and start != tail.start else None
