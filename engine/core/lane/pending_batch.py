"""One target batch that waits or is in flight, and its share of the receive buffer."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import msgspec

from engine.wire.batch import BatchHeader, read_header
from engine.wire.records import Encoded

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

    `pinned`: the batch was sent, so its sequences belong to exactly these records until the lane has a new owner.
    `unknown`: it was sent, and the log may hold it. `sought`: the log was read since and did not hold it.
    `detached`: it has its own memory, counted as stuck. `is_gone`: its bytes were given up (`let_go`).
    """

    sequence: int
    record_count: int
    source_base: int
    source_next: int
    payload: Payload
    header: BatchHeader | None
    lease: BufferShare | None
    stamped: bool = False
    pinned: bool = False
    unknown: bool = False
    sought: bool = False
    detached: bool = False
    is_gone: bool = False

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp in the batch in ms; -1 if records have none."""
        return (self.header or read_header(self.payload, 0)).max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the batch's first record in ms, according to its header."""
        return (self.header or read_header(self.payload, 0)).first_timestamp

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

        Its size stays. A batch that has bytes of its own keeps them.
        """
        if isinstance(self.payload, bytearray):
            self.detach()
        elif self.lease is not None:
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

    `max_map_runs`: acknowledged runs of the offset map that are not yet in a durable block.
    """

    max_in_flight: int = 1024
    queue_bytes: int = 1024 * 1024
    max_runs: int = 10_000
    settlements: int = 5
    max_map_runs: int = 4096


def passing_piece(sequence: int, header: BatchHeader, payload: Payload, lease: BufferShare) -> PendingBatch:
    """Make the piece of a batch that passes unchanged."""
    return PendingBatch(
        sequence=sequence,
        record_count=header.record_count,
        source_base=header.base_offset,
        source_next=header.next_offset,
        payload=payload,
        header=header,
        lease=lease,
    )


def encoded_piece(sequence: int, encoded: Encoded, lease: BufferShare) -> PendingBatch:
    """Make the piece of a re-encoded batch; its bytes count in the budget of `lease`."""
    return PendingBatch(
        sequence=sequence,
        record_count=encoded.record_count,
        source_base=encoded.runs[0][1],
        source_next=encoded.next_offset,
        payload=encoded.payload,
        header=None,
        lease=lease.own(len(encoded.payload), stuck=False),
    )


def split_piece(whole: PendingBatch, parts: Sequence[Encoded], source_at: Callable[[int], int]) -> list[PendingBatch]:
    """Cut a batch into smaller ones; `source_at` returns the source offset of a sequence."""
    split: list[PendingBatch] = []
    sequence, lease = whole.sequence, whole.lease
    assert lease is not None, "a waiting batch has a share of the budget"
    for part in parts:
        last = sequence + part.record_count - 1
        split.append(
            PendingBatch(
                sequence=sequence,
                record_count=part.record_count,
                source_base=source_at(sequence),
                source_next=source_at(last) + 1,
                payload=part.payload,
                header=None,
                lease=lease.own(len(part.payload), stuck=True),
                pinned=True,
                unknown=whole.unknown,
                sought=whole.sought,
                detached=True,
            )
        )
        sequence = last + 1
    split[-1].source_next = whole.source_next
    return split
