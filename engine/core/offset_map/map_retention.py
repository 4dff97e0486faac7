"""Finds blocks of a lane's map that are no longer needed: the target's retention has deleted all their records.

    map     block 0 | block 1 | block 2 | block 3 | tail
    target           log start ^         (records before it are deleted)

Here block 0 is removed. The last block that starts at or below the log start (block 1) and all later blocks stay, and
the map starts at block 1 from then on. No earlier record is left, so offsets below the start translate to the first
record that is left. A position stores the new start before the first block is removed.

So raymirror needs only the start of each block and decodes none. At most one block too many stays: a block that ends
below the log start while the next block starts above it.
"""

from collections.abc import Mapping

import msgspec

from engine.core.offset_map.map_blocks import BlockPlace
from engine.core.offset_map.map_runs import MapStart, MapTail


class DeletedBlocks(msgspec.Struct, frozen=True):
    """The new start of a map after retention, and the numbers of the blocks to remove."""

    start: MapStart
    numbers: tuple[int, ...]


def deleted_blocks(blocks: Mapping[int, BlockPlace], tail: MapTail, log_start: int) -> DeletedBlocks | None:
    """Return the part of a map that is below the target's log start; None if there is none.

    `blocks`: the lane's blocks on the map topic. Blocks that the tail does not count as durable are ignored.
    """
    begins = {number: (place.source, place.target) for number, place in blocks.items() if number < tail.blocks}
    if tail.runs:
        begins[tail.blocks] = tail.runs[0].source, tail.runs[0].target
    kept = max((number for number, (_, target) in begins.items() if target <= log_start), default=-1)
    gone = tuple(sorted(number for number in begins if number < kept))
    if gone:
        return DeletedBlocks(MapStart(*begins[kept], first=True), gone)
    start = msgspec.structs.replace(tail.start, first=True)
    return DeletedBlocks(start, ()) if log_start >= start.target and start != tail.start else None
