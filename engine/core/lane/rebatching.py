"""Makes the next target batch of a lane from the small batches that wait (REBATCH).

    waiting   [b b b b b b b b] [b b b] [large]    a stretch of eight batches, one of three, one batch that is not small
    waiting   [merged            ] [b b] [large]   the merged batch of nine; the rest of the second stretch

Nothing here waits: the policy (`policies/rebatch.py`) has decided that the next batch is to be sent. Pieces that were
sent before keep their bytes: a leader recognises a repeat by its first and last sequence. The records keep the
sequences that they got at intake, so a merged batch may begin and end anywhere in the runs of a position.
"""

from collections.abc import Sequence
from itertools import pairwise

from engine.core.lane.batch_queue import BatchQueue
from engine.core.lane.outcome import RECORD_REFUSED, Outcome
from engine.core.lane.pending_batch import Payload, PendingBatch, passing_piece
from engine.wire import native
from engine.wire.batch import HEADER_BYTES, read_header
from engine.wire.codecs import NONE
from engine.wire.merging.cut import around, halves
from engine.wire.merging.merge import Merged, merge
from engine.wire.records import Encoded
from policies.rebatch import COMPILED, NO_HINTS, PURE, RebatchHints, RebatchRules

_MOST_PIECES = 500
"""So many pieces are looked at for one merge, which takes 0.3 ms. Batches that came together are one piece."""


def rebatch_rules(hints: RebatchHints = NO_HINTS) -> RebatchRules:
    """Return the rules for this process: merging costs less with the native module."""
    return (PURE if native.module is None else COMPILED).adapted(hints)


def is_small(piece: PendingBatch, rules: RebatchRules) -> bool:
    """Whether a piece that waits may be merged: it was never sent, and it is small or a stretch of small batches."""
    if piece.pinned:
        return False
    return piece.batches > 1 or rules.small.contains(len(piece.payload), piece.codec)


def make_first(pieces: BatchQueue, rules: RebatchRules, limit_bytes: int, before: int | None) -> PendingBatch:
    """Make the first waiting piece one target batch, merged with what follows if that is small; return it.

    `limit_bytes`: the largest batch that the target accepts. `before`: the first sequence that must not be sent yet;
    the first piece ends before it.
    """
    first = pieces.waiting[0]
    if not is_small(first, rules):
        return first
    chosen, codec, most_bytes = _chosen(pieces, rules, limit_bytes, before)
    if not chosen or (len(chosen) == 1 and first.batches == 1):
        return first if first.batches == 1 else _cut_off(pieces, read_header(first.payload, 0).size_bytes)
    found = merge(
        [piece.payload for piece in chosen],
        codec=codec,
        max_batch_bytes=most_bytes,
        inflated_bytes=rules.inflated_bytes(limit_bytes, codec),
    )
    if found.encoded is None:
        return first if first.batches == 1 else _cut_off(pieces, found.at)
    return _put(pieces, chosen, found, found.encoded)


def cuts(piece: PendingBatch, refused: Outcome) -> tuple[int, ...]:
    """Return before which records to cut a merged batch of which the target refuses a record; empty: not at all.

    Batches of the source are not cut: their records were accepted together there.
    """
    index, count = refused.record_index, piece.record_count
    if not piece.can_be_cut or refused.error_code not in RECORD_REFUSED or count == 1:
        return ()
    return around(index, count) if 0 <= index < count else halves(count)


def _chosen(
    pieces: BatchQueue, rules: RebatchRules, limit_bytes: int, before: int | None
) -> tuple[list[PendingBatch], int, int]:
    """Return the pieces to merge, none if it does not pay; the codec of the merged batch, and the most bytes of it."""
    chosen: list[PendingBatch] = []
    codec, content_bytes, records, batches, most_bytes = NONE, 0, 0, 0, limit_bytes
    for piece in pieces.waiting:
        is_beyond = before is not None and piece.sequence + piece.record_count > before
        if chosen and (is_beyond or not is_small(piece, rules)):
            break
        chosen.append(piece)
        codec = codec or piece.codec
        records, batches = records + piece.record_count, batches + piece.batches
        content_bytes += len(piece.payload) - HEADER_BYTES * piece.batches
        most_bytes = HEADER_BYTES + rules.most_bytes(
            limit_bytes - HEADER_BYTES, codec=codec, content_bytes=content_bytes, records=records, batches=batches
        )
        if content_bytes >= most_bytes or len(chosen) == _MOST_PIECES:
            break
    return chosen if rules.pays(codec, content_bytes, batches) else [], codec, most_bytes


def _put(pieces: BatchQueue, chosen: Sequence[PendingBatch], found: Merged, encoded: Encoded) -> PendingBatch:
    """Put the merged batch in the place of the batches that it was made of."""
    first, whole = chosen[0], chosen[: found.region]
    header = read_header(encoded.payload, 0)
    assert first.lease is not None, "a waiting batch has a share of the budget"
    made = PendingBatch(
        sequence=first.sequence,
        record_count=encoded.record_count,
        source_base=first.source_base,
        source_next=whole[-1].source_next if whole else -1,
        payload=encoded.payload,
        lease=first.lease.own(len(encoded.payload), stuck=False),
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp,
        codec=header.codec,
        is_one_run=_is_one_run(chosen[: found.region + (found.at > 0)]),
        merged_from=sum(piece.merged_from or piece.batches for piece in whole),
        can_be_cut=True,
    )
    if found.at:
        rest = chosen[found.region]
        batches = found.batches - sum(piece.batches for piece in whole)
        records = encoded.record_count - sum(piece.record_count for piece in whole)
        _advance(rest, found.at, records, batches)
        made.source_next, made.merged_from = rest.source_base, made.merged_from + batches
    pieces.put_first(made, len(whole), found.at)
    return made


def _cut_off(pieces: BatchQueue, size_bytes: int) -> PendingBatch:
    """Let the first batch of the first stretch, of this size, wait as a piece of its own."""
    stretch = pieces.waiting[0]
    payload = stretch.payload[:size_bytes]
    header = read_header(payload, 0)
    assert stretch.lease is not None, "a waiting batch has a share of the budget"
    made = passing_piece(stretch.sequence, header, payload, stretch.lease.retain())
    _advance(stretch, size_bytes, header.record_count, 1)
    pieces.put_first(made, 0, size_bytes)
    return made


def _advance(stretch: PendingBatch, size_bytes: int, records: int, batches: int) -> None:
    """Take batches away from the start of a stretch: this many bytes, records and batches."""
    stretch.payload = stretch.payload[size_bytes:]
    stretch.sequence += records
    stretch.record_count -= records
    stretch.source_base += records
    stretch.batches -= batches
    header = read_header(stretch.payload, 0)
    stretch.first_timestamp = header.first_timestamp
    if stretch.codec != NONE:
        stretch.codec = _first_codec(stretch.payload)
    if stretch.batches == 1:
        stretch.max_timestamp = header.max_timestamp


def _first_codec(payload: Payload) -> int:
    """Return the codec of the first compressed batch; NONE if there is none."""
    at = 0
    while at < len(payload):
        header = read_header(payload, at)
        if header.codec != NONE:
            return header.codec
        at += header.size_bytes
    return NONE


def _is_one_run(pieces: Sequence[PendingBatch]) -> bool:
    follow = all(one.source_base + one.record_count == other.source_base for one, other in pairwise(pieces))
    return follow and all(piece.is_one_run for piece in pieces)
