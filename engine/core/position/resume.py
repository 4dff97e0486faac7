"""Computes where the copy ended, from the position and the batch headers of the target's tail.

Counting target records would fail if the source was compacted in between; producer sequences do not. The tail of the
target (everything from the position's target offset on, read after the barrier) holds batches of this lane, control
markers, and possibly batches of other writers. The batches of this lane continue the sequence of the position.
"""

from collections.abc import Sequence

import msgspec

from engine.core.offset_map.map_runs import MapRun, cut_at_target, join_runs, records_between
from engine.core.position.parting import (
    is_data,
    is_of_later_leader,
    is_of_older,
    late_batches,
    late_records,
    may_be_late,
    parts_at,
    reaches_from,
)
from engine.core.position.position import SEQUENCE_SPAN, Behind, Position, Seen, stretches
from engine.core.position.right_before import doubtful, is_cut, is_left
from engine.core.position.target_tail import (
    FORWARD,
    Tail,
    TailBatch,
    add_range,
    is_mine,
    is_of_older_epoch,
    last_before,
    ranges_of,
    unwrap,
)

REGRESSION = "target regression"
RENEWED = "topic re-created"
START = "start"
"""How a lane resumes that has no position and takes no copy over."""
NOT_OF_THE_MAP = "batches of this lane are here, and the offset map does not say which records they hold"
_MISSING = "batches of this lane are missing at this offset"
_NOT_AS_LEFT = "the target has something else at this offset than what this lane left there"


class ResumePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the copy: next source offset, target end, next sequence (not wrapped); `how`: the method."""

    source_next: int
    target_next: int
    sequence: int
    how: str
    tail_records: int
    foreign: tuple[tuple[int, int], ...] = ()
    """Target offset ranges (inclusive) that another writer appended."""
    twice: tuple[int, int] | None = None
    """Source offsets (inclusive) that may be on the target already and are copied again."""
    copied: tuple[MapRun, ...] = ()
    """The lane's records in the tail after the position, as runs of the offset map; after a loss of records, those at
    whose offsets the map has others."""
    target_end: int = -1
    """If records that the position counts are lost: the end of the lane's remaining records; the map is cut there."""
    cut: int = -1
    """If the source lost records: the source offset up to which the source still matches the map; -1: it all does."""
    whole: bool = False
    """For a re-created topic: whether no record before `source_next` was left out."""
    behind: Seen = Seen()
    """What is right before `target_next`, if whoever read it can say so."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """The target does not show where the copy ended.

    `target_end`: the end of the lane's last remaining batch; an older part of the offset map may have the rest.
    """

    expected: int
    found: int
    cause: str
    target_end: int = -1


def read_tail(position: Position, tail: Tail, *, distrusts: bool = False) -> ResumePoint | Unknown:
    """Find where the copy ended.

    The tail must have been read from the offset before `position.target_next` on (or from the log start if that is
    higher), and from as far back as possible if `may_be_late` is true. `distrusts`: as `parts_at` has it.
    """
    if may_be_late(position, tail):
        lost = _after_loss(position, tail, distrusts=distrusts)
        if lost is not None:
            return lost
    tail = msgspec.structs.replace(
        tail, batches=tuple(batch for batch in tail.batches if batch.next_offset > position.target_next)
    )
    broken = _broken(position, tail)
    if broken is not None:
        return broken
    sequence, foreign = _walk(position, tail)
    if sequence == position.sequence and tail.log_start > position.target_next:
        return _eaten(position, tail, foreign)
    return _found(position, tail, sequence, foreign, "tail" if sequence > position.sequence else "position")


def _after_loss(position: Position, tail: Tail, *, distrusts: bool) -> ResumePoint | Unknown | None:
    """Find where the copy ended in a log that may have lost its end; None if nothing of the lane is lost."""
    parting = parts_at(position, tail, distrusts=distrusts)
    late = late_batches(position, tail, parting)
    if late:
        return _behind_late(position, tail, late, parting)
    if not doubtful(position, tail):
        return None
    ours = _last_of_ours(position, tail)
    if isinstance(ours, Unknown):
        return ours
    ends_below, overwritten = tail.end < position.target_next, _records_from(position, parting)
    if ends_below or overwritten or _lacks_ours(position, tail, ours):
        return _regressed(position, tail, ours)
    if _may_hide_records(position, parting) or _is_replaced(position, tail):
        return Unknown(expected=position.target_next, found=position.target_next - 1, cause=_NOT_AS_LEFT)
    return None


def _records_from(position: Position, parting: int) -> bool:
    """Whether the map has a record of the lane at an offset or behind it."""
    return bool(records_between(position.map_tail, parting, position.target_next))


def _may_hide_records(position: Position, parting: int) -> bool:
    """Whether records of the lane from before the start of its map may be lost.

    What the position is behind, if it is a marker or another writer's, is none of them.
    """
    last = position.target_next - (position.behind.what is not Behind.NOT_SAID)
    return parting < min(reaches_from(position), last)


def _lacks_ours(position: Position, tail: Tail, ours: int | None) -> bool:
    """Whether records that this owner appended are lost. `ours`: the sequence after those that were read.

    Where others wrote right before the position, its own may be deleted, or lie before what was read; they are lost if
    something else is in the place of the last one.
    """
    if is_cut(position, tail) or not position.map_tail:
        return position.sequence > (ours or 0)
    if ours is not None and ours >= position.sequence:
        return False
    run = position.map_tail[-1]
    last = run.target + run.count - 1
    return position.sequence > 0 and any(batch.base_offset <= last < batch.next_offset for batch in tail.batches)


def _is_replaced(position: Position, tail: Tail) -> bool:
    """Whether something that no known loss explains is right before the position.

    One marker of a newer epoch may be there: after a race of two barriers the position of the slower owner follows that
    of the faster, and the next owner's is in the place of a barrier that was lost.
    """
    last = last_before(position, tail.batches)
    if last is None or is_left(position, last):
        return False
    newer = [one for one in tail.batches if one.base_offset < position.target_next and _is_newer_marker(position, one)]
    may_have_been_more = position.behind.what is Behind.MARKER and not position.map_start.first
    return not last.is_marker or (may_have_been_more and len(newer) > 1)


def _is_newer_marker(position: Position, batch: TailBatch) -> bool:
    is_newer = batch.producer_id == position.producer_id and batch.producer_epoch > position.producer_epoch
    return batch.is_marker and is_newer


def judged_from(position: Position, tail: Tail) -> int:
    """Return the target offset that the map's tail must reach back to, so that `parts_at` sees all; -1 for none."""
    if not may_be_late(position, tail):
        return -1
    is_certain = is_cut(position, tail)
    return next((batch.base_offset for batch in tail.batches if _is_judged(position, batch, is_certain)), -1)


def _is_judged(position: Position, batch: TailBatch, is_certain: bool) -> bool:
    is_ours = is_data(position, batch) and (is_certain or is_of_older(position, batch))
    return is_ours or is_of_later_leader(position, batch)


def _behind_late(position: Position, tail: Tail, late: Sequence[TailBatch], parting: int) -> ResumePoint | Unknown:
    """Continue behind late batches; whoever does must compare the records (`PositionRecovery.find`)."""
    copied = late_records(position, tail, parting)
    if isinstance(copied, TailBatch):
        return Unknown(expected=position.target_next, found=copied.base_offset, cause=NOT_OF_THE_MAP)
    ours = {batch.base_offset for batch in late}
    behind = [batch for batch in tail.batches if batch.base_offset >= late[0].base_offset]
    return ResumePoint(
        source_next=copied[-1].source + copied[-1].count,
        target_next=tail.end,
        sequence=position.sequence,
        how=REGRESSION,
        tail_records=0,
        foreign=ranges_of([batch for batch in behind if batch.base_offset not in ours]),
        copied=join_runs(copied),
        target_end=late[-1].next_offset,
    )


def _last_of_ours(position: Position, tail: Tail) -> int | Unknown | None:
    """Return the sequence after the lane's last batch; Unknown if its sequences have a hole."""
    last: int | None = None
    offset = tail.batches[0].base_offset if tail.batches else -1
    holes = 0
    for batch in tail.batches:
        holes += max(0, batch.base_offset - offset)
        if not batch.is_control and is_mine(position, batch):
            first = unwrap(position, batch)
            if last is not None and first - last > holes:
                return Unknown(expected=position.target_next, found=batch.base_offset, cause=_MISSING)
            last, holes = first + batch.record_span, 0
        offset = batch.next_offset
    return last


def _broken(position: Position, tail: Tail) -> Unknown | None:
    """Find a place where the lane's batches do not continue each other although too few offsets are missing between.

    Compaction and retention leave holes in the offsets, one for each record, perhaps before what another writer wrote.
    Larger holes in the sequences, or a repetition, mean that the broker forgot its producers: it appended a batch
    twice, or after a lost one.
    """
    offset, sequence, holes = position.target_next, position.sequence, 0
    for batch in tail.batches:
        holes += max(0, batch.base_offset - offset)
        if is_mine(position, batch) and not batch.is_control:
            first = unwrap(position, batch)
            if first < sequence or first - sequence > holes:
                cause = "batches of this lane are there twice at this offset" if first < sequence else _MISSING
                return Unknown(expected=position.target_next, found=batch.base_offset, cause=cause)
            sequence, holes = first + batch.record_span, 0
        offset = batch.next_offset
    return None


def _walk(position: Position, tail: Tail) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Follow the lane's sequence through the tail; return its end and the ranges of other writers."""
    sequence = position.sequence
    foreign: list[tuple[int, int]] = []
    for batch in tail.batches:
        if batch.is_control:
            continue
        if is_mine(position, batch):
            sequence = max(sequence, unwrap(position, batch) + batch.record_span)
        else:
            add_range(foreign, batch)
    return sequence, tuple(foreign)


def _found(
    position: Position, tail: Tail, sequence: int, foreign: tuple[tuple[int, int], ...], how: str
) -> ResumePoint | Unknown:
    # The lane may have skipped source offsets (markers, aborted batches) after its last record. If nothing was appended
    # after the position, its `source_next` already counts them.
    source_next = position.source_next if sequence == position.sequence else position.source_of(sequence)
    if source_next is None:
        return Unknown(expected=position.target_next, found=tail.end, cause=f"no run covers sequence {sequence}")
    return ResumePoint(
        source_next=source_next,
        target_next=_end(tail),
        sequence=sequence,
        how=how,
        tail_records=max(0, sequence - position.sequence),
        foreign=foreign,
        copied=_copied(position, tail),
    )


def _copied(position: Position, tail: Tail) -> tuple[MapRun, ...]:
    """Return the source and target offsets of the lane's records in the tail, as runs."""
    runs: list[MapRun] = []
    mine = [batch for batch in tail.batches if is_mine(position, batch) and not batch.is_control]
    if mine:
        known = position.runs_until(unwrap(position, mine[-1]) + mine[-1].record_span)
        for batch in mine:
            target = batch.base_offset
            for source, count in stretches(known, unwrap(position, batch), batch.record_span):
                runs.append(MapRun(source, target, count))
                target += count
    return join_runs(runs)


def _end(tail: Tail) -> int:
    """Return the end of the tail; without a barrier, batches may have been appended after the end offset was read."""
    return max(tail.end, tail.batches[-1].next_offset) if tail.batches else tail.end


def _eaten(position: Position, tail: Tail, foreign: tuple[tuple[int, int], ...]) -> ResumePoint | Unknown:
    """Resume by the broker's producer state, because retention deleted all the lane's batches in the tail."""
    if tail.last_sequence is None:
        return Unknown(
            expected=position.target_next,
            found=tail.log_start,
            cause="the target's retention deleted the tail of the copy",
        )
    ahead = (tail.last_sequence + 1 - position.sequence) % SEQUENCE_SPAN
    if ahead >= FORWARD:
        return Unknown(
            expected=position.target_next,
            found=tail.log_start,
            cause="the target's retention deleted the tail of the copy; its producer state is older than the position",
        )
    return _found(position, tail, position.sequence + ahead, foreign, "producer state")


def _regressed(position: Position, tail: Tail, ours: int | None) -> ResumePoint | Unknown:
    """Rewind to the records that the target still has, if a run or the map names them: it lost acknowledged records."""
    mine = [at for at, batch in enumerate(tail.batches) if not batch.is_control and _of_our_id(position, batch, ours)]
    source_next = None if ours is None else position.source_of(ours)
    end = tail.batches[mine[-1]].next_offset if mine else -1
    if mine and source_next is None:
        source_next = _mapped_end(position, end, ours)
    if not mine or source_next is None:
        return Unknown(
            expected=position.target_next,
            found=tail.end,
            cause="the target lost records that it had acknowledged",
            target_end=end,
        )
    return ResumePoint(
        source_next=source_next,
        target_next=tail.end,
        sequence=position.sequence if ours is None else ours,
        how=REGRESSION,
        tail_records=0,
        foreign=ranges_of(tail.batches[mine[-1] + 1 :]),
        target_end=end,
    )


def _of_our_id(position: Position, batch: TailBatch, ours: int | None) -> bool:
    """Whether a batch is of the position's epoch or, if no such batch is left, of an older epoch of its producer id."""
    return is_mine(position, batch) if ours is not None else is_of_older_epoch(position, batch)


def _mapped_end(position: Position, target_end: int, ours: int | None) -> int | None:
    """Return the source offset after the last record below a target offset, if a record of the map ends there.

    As many records of the map must be behind it as the owner has appended there; all of its own, if none is left.
    """
    kept = cut_at_target(position.map_tail, target_end)
    if not kept or kept[-1].target + kept[-1].count != target_end:
        return None
    lost = sum(run.count for run in position.map_tail) - sum(run.count for run in kept)
    is_so = lost >= position.sequence if ours is None else lost == position.sequence - ours
    return kept[-1].source + kept[-1].count if is_so else None
