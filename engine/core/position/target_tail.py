"""The batch headers of a target partition from shortly before a position on, and what tells whose they are."""

from collections.abc import Sequence

import msgspec

from engine.core.position.position import SEQUENCE_SPAN, Position

FORWARD = SEQUENCE_SPAN // 2
"""A sequence distance below this is a step forward; above it, a step back (serial number arithmetic)."""


class TailBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch header of the target's tail.

    `is_control`: a marker, or a batch of an aborted transaction; neither holds a visible record. `is_open`: a batch of
    a transaction whose end was not read.
    """

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_span: int
    is_control: bool
    is_open: bool = False
    leader_epoch: int = -1
    """The epoch of the leader that appended it; -1: not known."""

    @property
    def is_marker(self) -> bool:
        """Whether it is a marker; markers have no sequence."""
        return self.is_control and self.base_sequence < 0


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The target partition from the offset before a position on, or from further back; `end`: its end offset."""

    log_start: int
    end: int
    batches: tuple[TailBatch, ...]
    last_sequence: int | None = None
    """The lane's last sequence from DescribeProducers, before the barrier; None if not asked or not known."""


def is_mine(position: Position, batch: TailBatch) -> bool:
    """Whether a batch is of the position's producer epoch."""
    return (batch.producer_id, batch.producer_epoch) == (position.producer_id, position.producer_epoch)


def is_of_older_epoch(position: Position, batch: TailBatch) -> bool:
    """Whether a batch is of an older epoch of the position's producer id."""
    return batch.producer_id == position.producer_id and batch.producer_epoch < position.producer_epoch


def is_of_others(position: Position, batch: TailBatch) -> bool:
    """Whether a batch is of another producer id than the position's."""
    return batch.producer_id != position.producer_id


def split_at(position: Position, batches: Sequence[TailBatch]) -> list[TailBatch]:
    """Return batches of which none of the position's owner reaches over the position.

    A broker may hold a whole batch, as it was sent first, where the lane cut it in two for the target's size limit, and
    has only the first part acknowledged by another leader.
    """
    found: list[TailBatch] = []
    for batch in batches:
        head = position.target_next - batch.base_offset
        if 0 < head < batch.record_span and not batch.is_marker and is_mine(position, batch):
            found.append(msgspec.structs.replace(batch, next_offset=position.target_next, record_span=head))
            sequence = (batch.base_sequence + head) % SEQUENCE_SPAN
            batch = msgspec.structs.replace(
                batch, base_offset=position.target_next, base_sequence=sequence, record_span=batch.record_span - head
            )
        found.append(batch)
    return found


def last_before(position: Position, batches: Sequence[TailBatch]) -> TailBatch | None:
    """Return the batch with the last offset before a position; None if nothing is left there."""
    last = position.target_next - 1
    return next((batch for batch in batches if batch.base_offset <= last < batch.next_offset), None)


def unwrap(position: Position, batch: TailBatch) -> int:
    """Return a batch's sequence in the position's count, which never wraps."""
    ahead = (batch.base_sequence - position.sequence) % SEQUENCE_SPAN
    return position.sequence + (ahead if ahead < FORWARD else ahead - SEQUENCE_SPAN)


def ranges_of(batches: Sequence[TailBatch]) -> tuple[tuple[int, int], ...]:
    """Return the inclusive offset ranges of records, markers left out."""
    ranges: list[tuple[int, int]] = []
    for batch in batches:
        if not batch.is_control:
            add_range(ranges, batch)
    return tuple(ranges)


def add_range(ranges: list[tuple[int, int]], batch: TailBatch) -> None:
    """Add the offsets of a batch to inclusive ranges; they continue the last one if they follow it."""
    first, last = batch.base_offset, batch.next_offset - 1
    if ranges and ranges[-1][1] + 1 == first:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
