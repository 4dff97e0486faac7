"""One target batch that waits or is in flight, and its share of the receive buffer."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import msgspec

from engine.wire.batch import BatchHeader, read_header
from engine.wire.codecs import NONE
from engine.wire.merging.survey import BatchStretch
from engine.wire.records import Encoded
from policies.rebatch import RebatchRules

Payload = bytearray | memoryview

REMEMBERED = 5
"""Batches of one producer that a leader remembers, to recognise repeats (Kafka: ProducerStateEntry)."""


@cache
def _blank(bits: int) -> memoryview:
    """Return zeros in place of bytes that were given up; nobody touches the memory, so there is none behind it."""
    return memoryview(bytes(1 << bits))


class BufferShare(Protocol):
    """A share of a receive buffer; released exactly once, when nothing points into the buffer any more."""

    def own(self, size: int, *, stuck: bool) -> "BufferShare":
        """Return a lease on `size` bytes of a batch's own memory, counted in this buffer's budget.

        `stuck`: the batch was sent, so it must stay in memory until its outcome is known.
        """

    def retain(self) -> "BufferShare":
        """Take another share."""

    def release(self) -> None:
        """Give the share back."""


class PendingBatch(msgspec.Struct, kw_only=True):
    """One target batch that waits or is in flight; `sequence` is its first sequence, not wrapped.

    A piece that waits may also be a stretch: `batches` small batches of the source one after the other, of which
    `rebatching.py` makes target batches. `first_timestamp` and `max_timestamp` are those of the records, in ms.

    `pinned`: the batch was sent, so its sequences belong to exactly these records until the lane has a new owner.
    `unknown`: it was sent, and the log may hold it. `sought`: the log was read since and did not hold it.
    `detached`: it has its own memory, counted as stuck. `is_gone`: its bytes were given up (`let_go`).
    """

    sequence: int
    record_count: int
    source_base: int
    source_next: int
    payload: Payload
    lease: BufferShare | None
    first_timestamp: int
    max_timestamp: int
    codec: int = NONE
    """The codec of the batch; of a stretch, that of its first compressed batch."""
    batches: int = 1
    is_one_run: bool = False
    """Whether the source offsets of its records are known to be consecutive."""
    merged_from: int = 0
    """The number of source batches that it was made of; 0: it is no merged batch."""
    can_be_cut: bool = False
    """Whether it is a merged batch, or a part of one, so that records which the target refuses are singled out."""
    stamped: bool = False
    pinned: bool = False
    unknown: bool = False
    sought: bool = False
    detached: bool = False
    is_gone: bool = False

    def detach(self) -> None:
        """Copy the bytes out of the receive buffer, so that a lane in trouble does not hold one."""
        if self.lease is None or self.detached:
            return
        if not isinstance(self.payload, bytearray):  # a view into the buffer; a re-encoded batch has its own bytes
            self.payload = bytearray(self.payload)
        own = self.lease.own(len(self.payload), stuck=True)
        self.drop()
        self.lease, self.detached = own, True

    def let_go(self) -> None:
        """Give the bytes up: the batch was sent, and if it should fail, its lane is acquired again instead.

        Its size stays. A batch that has failed once keeps its bytes: it may be sent again.
        """
        if self.lease is not None and not self.detached:
            size = len(self.payload)
            self.payload, self.is_gone = _blank(size.bit_length())[:size], True
            self.drop()

    def drop(self) -> None:
        """Release the receive buffer."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one lane: appends in flight, unsent bytes, runs of one position, reads of the log's tail in a row.

    `max_map_runs`: acknowledged runs of the offset map that are not yet in a durable block. `rebatch`: how small
    batches are merged; None: they are not.
    """

    max_in_flight: int = 1024
    queue_bytes: int = 1024 * 1024
    max_runs: int = 10_000
    settlements: int = 5
    max_map_runs: int = 4096
    rebatch: RebatchRules | None = None


def passing_piece(sequence: int, header: BatchHeader, payload: Payload, lease: BufferShare) -> PendingBatch:
    """Make the piece of a batch that passes unchanged."""
    return PendingBatch(
        sequence=sequence,
        record_count=header.record_count,
        source_base=header.base_offset,
        source_next=header.next_offset,
        payload=payload,
        lease=lease,
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp,
        codec=header.codec,
        is_one_run=True,
    )


def stretch_piece(sequence: int, stretch: BatchStretch, payload: Payload, lease: BufferShare) -> PendingBatch:
    """Make the piece of consecutive batches that pass unchanged."""
    return PendingBatch(
        sequence=sequence,
        record_count=stretch.record_count,
        source_base=stretch.base_offset,
        source_next=stretch.next_offset,
        payload=payload,
        lease=lease,
        first_timestamp=stretch.first_timestamp,
        max_timestamp=stretch.max_timestamp,
        codec=stretch.codec,
        batches=stretch.batches,
        is_one_run=True,
    )


def encoded_piece(sequence: int, encoded: Encoded, lease: BufferShare) -> PendingBatch:
    """Make the piece of a re-encoded batch; its bytes count in the budget of `lease`."""
    header = read_header(encoded.payload, 0)
    return PendingBatch(
        sequence=sequence,
        record_count=encoded.record_count,
        source_base=encoded.runs[0][1],
        source_next=encoded.next_offset,
        payload=encoded.payload,
        lease=lease.own(len(encoded.payload), stuck=False),
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp,
        codec=header.codec,
        is_one_run=len(encoded.runs) == 1,
    )


def split_piece(whole: PendingBatch, parts: Sequence[Encoded], source_at: Callable[[int], int]) -> list[PendingBatch]:
    """Cut a batch into smaller ones; `source_at` returns the source offset of a sequence."""
    split: list[PendingBatch] = []
    sequence, lease = whole.sequence, whole.lease
    assert lease is not None, "a waiting batch has a share of the budget"
    for part in parts:
        last = sequence + part.record_count - 1
        header = read_header(part.payload, 0)
        split.append(
            PendingBatch(
                sequence=sequence,
                record_count=part.record_count,
                source_base=source_at(sequence),
                source_next=source_at(last) + 1,
                payload=part.payload,
                lease=lease.own(len(part.payload), stuck=True),
                first_timestamp=header.first_timestamp,
                max_timestamp=header.max_timestamp,
                codec=header.codec,
                can_be_cut=whole.can_be_cut,
                pinned=True,
                unknown=whole.unknown,
                sought=whole.sought,
                detached=True,
            )
        )
        sequence = last + 1
    split[-1].source_next = whole.source_next
    return split
