"""Turns the bytes of one fetched partition into batches for its lane: each batch is passed, re-encoded or skipped."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from engine.base.errors import BatchTooLarge, WireError
from engine.core.lane.echoes import Echoes, is_echo
from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import BufferShare, PendingBatch
from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import BatchHeader, Verdict, check_crc, control_type, judge, read_header, restamp, split_batches
from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.records import Coding, Encoded, reencode
from policies.model import TopicPartition

LONG_BYTES = 1024 * 1024
"""Bytes. Re-encoding a batch that decompresses to more than this is long work; work of 1 or 2 ms is not."""
LONG_CODED_BYTES = 64 * 1024
"""Bytes. The same for a batch that gets another codec: compressing takes up to 20 ns per byte."""
LONG_RECORDS = 5_000
"""Records. A batch with more records than this is long work too: each record takes 1 or 2 us."""


class LongWork(Exception):
    """Re-encoding the batch at `at` is too slow for the event loop. The batches before it are queued."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one fetched partition from an offset on, with the settings for its batches; needs no lane.

    `inflated_bytes`: the most bytes that a batch to re-encode may decompress to. `codec`: the codec of every target
    batch; None: a batch keeps its own. `expected`: the lowest base offset
    that the first batch may have; 0 if nothing of this fetch was read before. `echoes`: offsets that are not copied.
    """

    partition: TopicPartition
    buffer: memoryview
    start: int
    end: int
    wanted: int
    transactions: AbortedTransactions
    max_batch_bytes: int
    inflated_bytes: int
    codec: int | None = None
    expected: int = 0
    echoes: Echoes = ()

    def behind(self, at: int, wanted: int) -> "Work":
        """Return the rest of the work from a batch on. Earlier batches may have been sent with changed headers."""
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
    codec: int | None = None,
) -> Work:
    """Describe the work on `buffer[start:end]`, which was fetched for a lane."""
    return Work(
        partition=lane.name.source,
        buffer=buffer,
        start=start,
        end=end,
        wanted=lane.fetch_offset,
        transactions=AbortedTransactions(aborted),
        max_batch_bytes=max_batch_bytes,
        inflated_bytes=inflated_bytes,
        codec=codec,
        echoes=lane.echoes,
    )


Step = tuple[int, BatchHeader, Verdict, Sequence[Encoded]]
"""A batch: its index in the buffer, its header, the verdict, and its re-encoded pieces."""


def sift(work: Work, *, at_length: bool) -> Iterator[Step]:
    """Yield the batches in order, each with its CRC checked; a truncated last batch is left for the next fetch.

    Raises CorruptBatch, MalformedBatch, UnknownMagic or BatchTooLarge, and LongWork unless `at_length`.
    """
    buffer, (topic, partition), wanted, transactions = work.buffer, work.partition, work.wanted, work.transactions
    for at, header in split_batches(buffer, work.start, work.end, topic, partition, expected=work.expected):
        check_crc(buffer, at, header, topic, partition)
        if header.is_control:
            transactions.on_control(header, control_type(buffer, at, header, topic, partition))
        verdict, _reason = judge(header, wanted, work.max_batch_bytes, transactions.is_aborted(header), work.codec)
        if work.echoes and verdict is not Verdict.SKIP and is_echo(work.echoes, header, topic, partition):
            verdict = Verdict.SKIP
        pieces: Sequence[Encoded] = ()
        if verdict is Verdict.REENCODE:
            pieces = _write_anew(work, at, header, wanted, at_length=at_length)
        wanted = pieces[-1].next_offset if pieces else max(wanted, header.next_offset)
        yield at, header, verdict, pieces


def _write_anew(work: Work, at: int, header: BatchHeader, wanted: int, *, at_length: bool) -> list[Encoded]:
    if not at_length and header.record_count > LONG_RECORDS:
        raise LongWork(at)
    short_bytes = LONG_BYTES if work.codec is None else LONG_CODED_BYTES
    limit = work.inflated_bytes if at_length else min(short_bytes, work.inflated_bytes)
    try:
        return reencode(
            work.buffer,
            at,
            header,
            *work.partition,
            wanted_offset=wanted,
            max_batch_bytes=work.max_batch_bytes,
            coding=Coding(limit, work.codec),
        )
    except BatchTooLarge:
        if limit < work.inflated_bytes:
            raise LongWork(at) from None
        raise


def queue(lane: Lane, work: Work, steps: Iterable[Step], lease: BufferShare) -> None:
    """Queue batches that were sifted already."""
    for step in steps:
        queue_one(lane, work, step, lease)


def queue_one(lane: Lane, work: Work, step: Step, lease: BufferShare) -> None:
    """Queue a batch that was sifted already.

    The lane learns each leader epoch as soon as its batch is queued, even if a later batch is bad or slow. If the epoch
    were too low for the next offset, the lane would find a divergence that does not exist; too high finds one early.
    """
    at, header, verdict, pieces = step
    lane.source_leader_epoch = max(lane.source_leader_epoch, header.leader_epoch)
    if verdict is Verdict.PASS:
        lane.add_batch(header, work.buffer[at : at + header.size_bytes], lease.retain())
    elif pieces:
        lane.add_encoded(pieces, lease)
    elif header.next_offset > lane.fetch_offset:
        lane.skip_to(header.next_offset)


class Sifted(msgspec.Struct, frozen=True):
    """The result of a thread that sifted some work: the batches before the first bad one, and the error of that one."""

    steps: list[Step]
    error: WireError | None


def sift_all(work: Work) -> Sifted:
    """Sift all batches, however long that takes; for a thread."""
    steps: list[Step] = []
    try:
        for step in sift(work, at_length=True):
            steps.append(step)  # noqa: PERF402 - what came before an error counts
    except WireError as error:
        return Sifted(steps, error)
    return Sifted(steps, None)


def stamp(piece: PendingBatch, producer_id: int, producer_epoch: int, *, transactional: bool = False) -> None:
    """Write the lane's producer fields into a batch, once: a resend must be the same bytes."""
    if not piece.stamped:
        header = read_header(piece.payload, 0)
        sequence = piece.sequence & 0x7FFFFFFF
        restamp(piece.payload, 0, header, producer_id, producer_epoch, sequence, transactional=transactional)
        piece.stamped = True
