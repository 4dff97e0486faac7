"""Finds where the copy ended, from a position as it was stored.

An atomic position is committed together with its records, or neither is. One bug breaks that: a coordinator that
decides a commit while a partition has no leader may never write the partition's marker (KAFKA-20734, Kafka 4.0 and
later). The committer does not learn about it.

    positions  ... | position N | commit |
    target     ... | marker | records of N                | here the commit marker should be
    target     ... | marker | records of N | more records | abort: of a barrier, or of an expired transaction

The next end of a transaction of the same producer also ends this part of the target. A commit repairs it. An abort
rolls back records that the position counts as copied; the lane copies them again.
"""

from collections.abc import Sequence

import msgspec

from engine.core.offset_map.map_runs import source_at
from engine.core.position.position import SEQUENCE_SPAN, Position
from engine.core.position.resume import REGRESSION, ResumePoint, Unknown, read_tail
from engine.core.position.target_tail import Tail, TailBatch, is_mine, ranges_of, unwrap

UNDONE = "undone commit"
_FOLDED = 10_000
"""Offsets to read back if the last run is already in a block of the map."""
_POSITION_LOST = "records of this lane were committed here with a position that no longer exists"
_NOT_MAPPED = "a commit was undone here, and the offset map does not reach back to its first record"


def read_stored_tail(position: Position, tail: Tail, *, distrusts: bool = False) -> ResumePoint | Unknown:
    """Find where the copy ended, from a position as it was stored: as `read_tail`, unless the position is atomic.

    Records are committed together with an atomic position or not at all. So records after the position do not count,
    and none need to be there. The broker's producer state may come from batches that were rolled back. If committed
    records of this lane follow the position, their position is lost and the runs between are not known. If the commit
    itself was undone, the tail must reach back to the start of the transaction (`reaches_begin`).
    """
    if not position.atomic:
        return read_tail(position, tail, distrusts=distrusts)
    batches = tuple(batch for batch in tail.batches if not (batch.is_open and is_mine(position, batch)))
    begin = undone_from(position, batches)
    if begin is not None:
        return _rewound(position, tail.end, batches, begin)
    last = (position.sequence - 1) % SEQUENCE_SPAN
    found = read_tail(position, msgspec.structs.replace(tail, batches=batches, last_sequence=last), distrusts=distrusts)
    if isinstance(found, Unknown) or found.how == REGRESSION:
        return found
    if found.tail_records:
        return Unknown(expected=position.target_next, found=found.copied[0].target, cause=_POSITION_LOST)
    return msgspec.structs.replace(found, how="position")


def last_counted(position: Position) -> int:
    """Return a target offset at or shortly before the last record that an atomic position counts.

    Other writers may have written between that record and the position.
    """
    if position.map_tail:
        run = position.map_tail[-1]
        return run.target + run.count - 1
    return position.target_next - (_FOLDED if position.map_blocks else 0)


def undone_from(position: Position, batches: Sequence[TailBatch]) -> int | None:
    """Return the target offset of the first rolled-back record that the position counts; None in most cases.

    `batches`: from `last_counted` or an earlier offset on. They may start inside a transaction that began earlier.
    """
    begin: int | None = None
    for batch in batches:
        if batch.base_offset >= position.target_next:
            break
        if batch.is_marker and batch.producer_id == position.producer_id:
            begin = None
        elif batch.is_control and is_mine(position, batch) and begin is None:
            begin = batch.base_offset
    return begin


def reaches_begin(position: Position, batches: Sequence[TailBatch]) -> bool:
    """Whether batches reach back to the start of the transaction that the position was written in.

    A marker of the same producer ends the previous transaction: a commit, or the barrier of its owner.
    """
    return any(
        batch.is_marker and batch.producer_id == position.producer_id and batch.base_offset < position.target_next
        for batch in batches
    )


def _rewound(position: Position, end: int, batches: Sequence[TailBatch], begin: int) -> ResumePoint | Unknown:
    """Go back to the first record that was rolled back; the map has its source offset."""
    source_next = source_at(position.map_tail, begin)
    behind = [batch for batch in batches if batch.base_offset >= position.target_next and not batch.is_control]
    committed = next((batch.base_offset for batch in behind if is_mine(position, batch)), None)
    if committed is not None:
        return Unknown(expected=position.target_next, found=committed, cause=_POSITION_LOST)
    if source_next is None:
        return Unknown(expected=position.target_next, found=begin, cause=_NOT_MAPPED, target_end=begin)
    first = next(batch for batch in batches if batch.base_offset == begin)
    return ResumePoint(
        source_next=source_next,
        target_next=end,
        sequence=unwrap(position, first),
        how=UNDONE,
        tail_records=0,
        foreign=ranges_of(behind),
        target_end=begin,
    )
