"""From the bytes of one fetched partition to what its lane queues: pass, re-encode, or skip, batch by batch."""

from engine.core.lane import Lane
from engine.core.piece import Lease, Piece
from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import Verdict, check_crc, control_type, judge, read_header, restamp, split_batches
from engine.wire.records import reencode


def take_in(
    lane: Lane,
    buffer: memoryview,
    start: int,
    end: int,
    *,
    aborted: list[tuple[int, int]],
    max_batch_bytes: int,
    lease: Lease,
) -> int:
    """Queue the batches of `buffer[start:end]` and return the leader epoch of the last one (-1: none).

    Every batch's CRC is checked before anything of it is queued. A truncated last batch is left for the next fetch.
    Raises CorruptBatch, MalformedBatch or UnknownMagic; what stood before the bad batch is queued by then.
    """
    topic, partition = lane.name.source
    transactions = AbortedTransactions(aborted)
    epoch = -1
    for at, header in split_batches(buffer, start, end, topic, partition):
        check_crc(buffer, at, header, topic, partition)
        epoch = header.leader_epoch
        if header.is_control:
            transactions.on_control(header, control_type(buffer, at, header, topic, partition))
        wanted = lane.fetch_offset
        verdict, _reason = judge(header, wanted, max_batch_bytes, transactions.is_aborted(header))
        if verdict is Verdict.PASS:
            lane.add_batch(header, buffer[at : at + header.size_bytes], lease.retain())
        elif verdict is Verdict.REENCODE:
            pieces = reencode(
                buffer, at, header, topic, partition, wanted_offset=wanted, max_batch_bytes=max_batch_bytes
            )
            if pieces:
                lane.add_encoded(pieces, lease)
            else:
                lane.skip_to(header.next_offset)
        elif header.next_offset > wanted:
            lane.skip_to(header.next_offset)
    return epoch


def stamp(piece: Piece, producer_id: int, producer_epoch: int, *, transactional: bool = False) -> None:
    """Give a batch our producer fields, once: sent again, it must be the same bytes."""
    if not piece.stamped:
        header = piece.header or read_header(piece.payload, 0)
        sequence = piece.sequence & 0x7FFFFFFF
        restamp(piece.payload, 0, header, producer_id, producer_epoch, sequence, transactional=transactional)
        piece.stamped = True
