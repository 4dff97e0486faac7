"""A long tail known from its end: where offsets and sequences advance alike, all between is ours.

    target log   ... | position                                    | last batch of ours | markers |
                       target_next, sequence   ... n offsets ...     sequence + n?

A target takes the records of one producer epoch in the order of their sequences, none left out, and each takes one
offset. So where a batch of ours lies exactly as many offsets behind the position as its sequence is ahead, the offsets
between hold just the records between: no marker, no other writer. What was compacted or retained away since was there.
Where it does not fit (a marker of a keep-alive, another writer, anything strange), the whole tail has to be read.
"""

from collections.abc import Sequence

from engine.core.position.position import SEQUENCE_SPAN, Position
from engine.core.position.resume import TailBatch, is_mine, unwrap


def from_end(position: Position, batches: Sequence[TailBatch]) -> tuple[TailBatch, ...] | None:
    """Return the whole tail behind a position, what lies before `batches` as one; None where they do not tell it.

    `batches` are all there are from some offset on.
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
