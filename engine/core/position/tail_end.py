"""Derives a long tail from its end: if offsets and sequences grow alike, all records between are the lane's.

    target log   ... | position                                    | lane's last batch | markers |
                       target_next, sequence   ... n offsets ...     sequence + n?

A target appends the records of one producer epoch in the order of their sequences without a gap, and each record takes
one offset. So if the lane's last batch is n offsets and also n sequences after the position, the offsets between hold
exactly the records between: no marker, no other writer. Compaction and retention may have deleted some of them since.
If the numbers differ (a keep-alive's marker, another writer, anything unexpected), the whole tail must be read.
"""

from collections.abc import Sequence

from engine.core.position.position import SEQUENCE_SPAN, Position
from engine.core.position.target_tail import TailBatch, is_mine, unwrap


def from_end(position: Position, batches: Sequence[TailBatch]) -> tuple[TailBatch, ...] | None:
    """Return the whole tail after a position, with all batches before `batches` as one; None if it must be read.

    `batches`: all batches from some offset on.
    """
    if not batches or batches[0].is_control or batches[0].is_open or not is_mine(position, batches[0]):
        return None
    first = batches[0]
    ahead = first.base_offset - position.target_next
    if ahead < 0 or unwrap(position, first) - position.sequence != ahead:
        return None
    if not ahead:
        return tuple(batches)
    between = TailBatch(
        position.target_next,
        first.base_offset,
        *(position.producer_id, position.producer_epoch),
        (first.base_sequence - ahead) % SEQUENCE_SPAN,
        ahead,
        False,
    )
    return between, *batches
