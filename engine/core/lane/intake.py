"""From the bytes of one fetched partition to what its lane queues: pass, re-encode, or skip, batch by batch."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from engine.base.errors import BatchTooLarge, WireError
from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import BufferShare, PendingBatch
from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import BatchHeader, Verdict, check_crc, control_type, judge, read_header, restamp, split_batches
from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.records import Encoded, reencode
from policies.model import TopicPartition

LONG_BYTES = 1024 * 1024
"""A batch that inflates to more than this, to be written anew, is long work; a millisecond or two are not."""
LONG_RECORDS = 5_000
"""So is one with more records: each takes a microsecond or two."""


class LongWork(Exception):
    """The batch at `at` takes long to write anew: it is not for the loop. What stood before it is queued."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one fetched partition from an offset on, and how its batches are to travel; needs no lane.

    `inflated_bytes`: what a batch may inflate to that is written anew.
    """

    partition: TopicPartition
    buffer: memoryview
    start: int
    end: int
    wanted: int
    transactions: AbortedTransactions
    max_batch_bytes: int
    inflated_bytes: int

    def behind(self, at: int, wanted: int) -> "Work":
        """Return what is left from a batch on. What stood before may have been sent, and is no longer the source's."""
        return msgspec.structs.replace(self, start=at, wanted=wanted)


def work_for(
    lane: Lane,
    buffer: memoryview,
    start: int,
    end: int,
    *,
    aborted: list[tuple[int, int]],
    max_batch_bytes: int,
    inflated_bytes: int = MAX_INFLATED_BYTES,
) -> Work:
    """Say what is to be done with `buffer[start:end]`, which was fetched for a lane."""
    return Work(
        partition=lane.name.source,
        buffer=buffer,
        start=start,
        end=end,
        wanted=lane.fetch_offset,
        transactions=AbortedTransactions(aborted),
        max_batch_bytes=max_batch_bytes,
        inflated_bytes=inflated_bytes,
    )


Step = tuple[int, BatchHeader, Verdict, Sequence[Encoded]]
"""A batch: where it lies, its header, how it travels, and what it was written anew as."""


def sift(work: Work, *, at_length: bool) -> Iterator[Step]:
    """Yield the batches in order, each with its CRC checked; a truncated last batch is left for the next fetch.

    Raises CorruptBatch, MalformedBatch, UnknownMagic or BatchTooLarge, and LongWork unless `at_length`.
    """
    buffer, (topic, partition), wanted, transactions = work.buffer, work.partition, work.wanted, work.transactions
    for at, header in split_batches(buffer, work.start, work.end, topic, partition):
        check_crc(buffer, at, header, topic, partition)
        if header.is_control:
            transactions.on_control(header, control_type(buffer, at, header, topic, partition))
        verdict, _reason = judge(header, wanted, work.max_batch_bytes, transactions.is_aborted(header))
        pieces: Sequence[Encoded] = ()
        if verdict is Verdict.REENCODE:
            pieces = _write_anew(work, at, header, wanted, at_length=at_length)
        wanted = pieces[-1].next_offset if pieces else max(wanted, header.next_offset)
        yield at, header, verdict, pieces


def _write_anew(work: Work, at: int, header: BatchHeader, wanted: int, *, at_length: bool) -> list[Encoded]:
    if not at_length and header.record_count > LONG_RECORDS:
        raise LongWork(at)
    limit = work.inflated_bytes if at_length else min(LONG_BYTES, work.inflated_bytes)
    try:
        return reencode(
            work.buffer,
            at,
            header,
            *work.partition,
            wanted_offset=wanted,
            max_batch_bytes=work.max_batch_bytes,
            inflated_bytes=limit,
        )
    except BatchTooLarge:
        if limit < work.inflated_bytes:
            raise LongWork(at) from None
        raise


def take_in(lane: Lane, work: Work, lease: BufferShare) -> None:
    """Queue the batches. Raises what `sift` raises; what stood before the bad batch is queued by then."""
    queue(lane, work, sift(work, at_length=False), lease)


def queue(lane: Lane, work: Work, steps: Iterable[Step], lease: BufferShare) -> None:
    """Queue batches that were looked at already.

    The lane knows each epoch as soon as the batch is queued, also where a later one is bad or takes long: an epoch too
    low for the offset behind it would find a divergence where there is none, one too high finds it early.
    """
    buffer = work.buffer
    for at, header, verdict, pieces in steps:
        lane.source_leader_epoch = max(lane.source_leader_epoch, header.leader_epoch)
        if verdict is Verdict.PASS:
            lane.add_batch(header, buffer[at : at + header.size_bytes], lease.retain())
        elif pieces:
            lane.add_encoded(pieces, lease)
        elif header.next_offset > lane.fetch_offset:
            lane.skip_to(header.next_offset)


class Sifted(msgspec.Struct, frozen=True):
    """What a thread has made of some work: the batches up to a bad one, and what is wrong with that."""

    steps: list[Step]
    error: WireError | None


def sift_all(work: Work) -> Sifted:
    """Sift as long as it takes."""
    steps: list[Step] = []
    try:
        for step in sift(work, at_length=True):
            steps.append(step)  # noqa: PERF402 - what came before an error counts
    except WireError as error:
        return Sifted(steps, error)
    return Sifted(steps, None)


def stamp(piece: PendingBatch, producer_id: int, producer_epoch: int, *, transactional: bool = False) -> None:
    """Give a batch our producer fields, once: sent again, it must be the same bytes."""
    if not piece.stamped:
        header = piece.header or read_header(piece.payload, 0)
        sequence = piece.sequence & 0x7FFFFFFF
        restamp(piece.payload, 0, header, producer_id, producer_epoch, sequence, transactional=transactional)
        piece.stamped = True
