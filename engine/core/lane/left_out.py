"""Takes refused records out of a batch, and says which source records the rest has.

    refused batch   sequences  5  6  7  8      source offsets  40 41 42 43
    left out: 41    sequences  5     6  7      source offsets  40    42 43     two runs: (5 -> 40), (6 -> 42)

The rest begins with the first sequence of the refused batch, because the target appended nothing of it. The jump of the
source offset is a run like one after a hole of the source: it must be durable before the rest is appended.

The sequences are not free while an earlier try of a batch may still arrive: they belong to its records until there is a
new producer epoch. So the lane has to be acquired again first; then the target refuses the records again.
"""

from collections.abc import Iterable, Sequence

from engine.core.events.events import RecordRefused
from engine.core.lane.outcome import RECORD_REFUSED, Outcome
from engine.core.lane.pending_batch import PendingBatch
from engine.wire.batch import read_header
from engine.wire.records import Encoded
from policies.model import FlowName, TopicPartition

Stretches = list[tuple[int, int]]
"""(first source offset, records) of consecutive source records, one after the other."""


def refused_indexes(piece: PendingBatch, refused: Outcome) -> tuple[int, ...]:
    """Return which records of a batch the target refuses; empty if it does not say which of several."""
    count = piece.record_count
    if count == 1:
        return (0,)
    if refused.error_code not in RECORD_REFUSED:
        return ()
    named = refused.record_indexes or (refused.record_index,)
    return tuple(sorted({index for index in named if 0 <= index < count}))


def record_refused(flow: FlowName, lane: TopicPartition, source_offset: int, refused: Outcome) -> RecordRefused:
    """Return the event of a refused record."""
    return RecordRefused(
        flow=flow,
        lane=lane,
        source_offset=source_offset,
        error_code=refused.error_code,
        reason=refused.message or refused.kind.value,
    )


def kept_stretches(stretches: Iterable[tuple[int, int]], left_out: Sequence[int]) -> Stretches:
    """Return the source records of a batch without those at the indexes `left_out`, which rise."""
    kept: Stretches = []
    at, absent = 0, iter((*left_out, -1))
    next_absent = next(absent)
    for source, count in stretches:
        begin = at
        while at <= next_absent < begin + count:
            if next_absent > at:
                kept.append((source + at - begin, next_absent - at))
            at, next_absent = next_absent + 1, next(absent)
        if begin + count > at:
            kept.append((source + at - begin, begin + count - at))
        at = begin + count
    return kept


def sources_at(stretches: Iterable[tuple[int, int]], indexes: Sequence[int]) -> list[int]:
    """Return the source offsets of the records at some indexes, which rise."""
    offsets = [source + nth for source, count in stretches for nth in range(count)]
    return [offsets[index] for index in indexes]


def rest_piece(refused: PendingBatch, rest: Encoded, kept: Stretches) -> PendingBatch:
    """Make the piece of what is left of a refused batch: it was never sent."""
    header = read_header(rest.payload, 0)
    assert refused.lease is not None, "a waiting batch has a share of the budget"
    return PendingBatch(
        sequence=refused.sequence,
        record_count=rest.record_count,
        source_base=kept[0][0],
        source_next=refused.source_next,
        payload=rest.payload,
        lease=refused.lease.own(len(rest.payload), stuck=False),
        first_timestamp=header.first_timestamp,
        max_timestamp=header.max_timestamp,
        codec=header.codec,
        is_one_run=len(kept) == 1,
    )
