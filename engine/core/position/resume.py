"""Computes where the copy ended, from the position and the batch headers of the target's tail.

Counting target records would fail if the source was compacted in between; producer sequences do not. The tail of the
target (everything from the position's target offset on, read after the barrier) holds batches of this lane, control
markers, and possibly batches of other writers. The batches of this lane continue the sequence of the position.
"""

from collections.abc import Sequence

import msgspec

from engine.core.offset_map.map_runs import MapRun, cut_at_target, cut_before_target, join_runs, records_between
from engine.core.position.position import SEQUENCE_SPAN, Behind, Position, Seen, stretches
from engine.core.position.right_before import doubtful, has_record, is_cut, is_left
from engine.core.position.target_tail import (
    FORWARD,
    Tail,
    TailBatch,
    add_range,
    is_mine,
    is_of_older_epoch,
    is_of_others,
    last_before,
    ranges_of,
    unwrap,
)

REGRESSION = "target regression"
RENEWED = "topic re-created"
NOT_OF_THE_MAP = "batches of an earlier owner are here, and the offset map does not say which records they hold"
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


def read_tail(position: Position, tail: Tail) -> ResumePoint | Unknown:
    """Find where the copy ended.

    The tail must have been read from the offset before `position.target_next` on (or from the log start if that is
    higher), and from as far back as possible if `may_be_late` is true.
    """
    parts_at, late = _late(position, tail)
    if late:
        return _behind_late(position, tail, late, parts_at)
    if doubtful(position, tail):
        ours = _last_of_ours(position, tail)
        if isinstance(ours, Unknown):
            return ours
        ends_below = tail.end < position.target_next
        if ends_below or _lacks_ours(position, tail, ours) or _overwritten(position, tail):
            return _regressed(position, tail, ours)
        if _is_replaced(position, tail):
            return Unknown(expected=position.target_next, found=position.target_next - 1, cause=_NOT_AS_LEFT)
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


def _overwritten(position: Position, tail: Tail) -> list[int]:
    """Return offsets with something else where the map has a record of this lane, which only a loss can explain.

    A marker is never a record. A batch of another producer id is none if the log was cut, and has batches of this one,
    or the map has no record from before its owners; else it may be of MM2.
    """
    is_known = position.map_start.first or any(_is_data_of_ours(position, batch) for batch in tail.batches)
    is_known = is_known and is_cut(position, tail)
    return [
        run.target
        for batch in tail.batches
        if batch.is_control or (is_known and is_of_others(position, batch))
        for run in records_between(position.map_tail, *_offsets(batch))
    ]


def _offsets(batch: TailBatch) -> tuple[int, int]:
    """Return the first offset of a batch, and the one behind it."""
    return batch.base_offset, batch.next_offset


def _is_data_of_ours(position: Position, batch: TailBatch) -> bool:
    """Whether a batch has records of the position's producer id."""
    return not batch.is_control and not is_of_others(position, batch)


def _lacks_ours(position: Position, tail: Tail, ours: int | None) -> bool:
    """Whether records that this owner appended are lost. `ours`: the sequence after those that were read.

    Where others wrote right before the position, all of its own may be deleted, or lie before what was read.
    """
    if ours is not None or is_cut(position, tail) or not (position.map_tail and tail.batches):
        return position.sequence > (ours or 0)
    run = position.map_tail[-1]
    return position.sequence > 0 and tail.batches[0].base_offset < run.target + run.count


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


def may_be_late(position: Position, tail: Tail) -> bool:
    """Whether an older epoch may have appended after the position's barrier was lost; more must be read to know."""
    return doubtful(position, tail) or _has_older_behind(position, tail)


def _has_older_behind(position: Position, tail: Tail) -> bool:
    behind = position.target_next + _follows_older(position)
    return any(_is_older(position, batch) and batch.next_offset >= behind for batch in tail.batches)


def _follows_older(position: Position) -> bool:
    """Whether a record of an older epoch may be the last before the position: of this one there is not even a barrier.

    Otherwise late requests may end exactly where the position does.
    """
    return position.sequence == 0 and has_record(position) is not False


def judged_from(position: Position, tail: Tail) -> int:
    """Return the target offset that the map's tail must reach back to, so that `_late` sees all; -1 for none."""
    first = next((batch.base_offset for batch in tail.batches if _is_older(position, batch)), -1)
    return first if may_be_late(position, tail) and not _has_own_epoch(position, tail, first) else -1


def _late(position: Position, tail: Tail) -> tuple[int, list[TailBatch]]:
    """Return where the log parts from the map, and the batches that an older epoch of this lane appended there, late.

        the map's log   ... | records | marker of the position's epoch | records again ...
        this log        ... | records | late batches of the older epoch | marker of this barrier

    A broker was cut off with requests of the older epoch in its socket, and took them up before it learnt that it leads
    no more. Then an unclean election made it the leader: it has neither the position's barrier nor what follows it. So
    the map's offsets are of another log from the first batch on that is where the map has no record, or from where
    something else is where it has one; the order of the records is the same.
    """
    known, start, cut = position.map_tail, position.map_start, is_cut(position, tail)
    if not (cut or _has_older_behind(position, tail)):
        return -1, []
    begins = known[0].target if known else start.target
    reached = 0 if start.first and not position.map_blocks else begins
    older = [batch for batch in tail.batches if _is_older(position, batch) and batch.base_offset >= reached]
    apart = [
        batch.base_offset
        for batch in older
        if (cut or batch.base_offset < position.target_next)
        and sum(run.count for run in records_between(known, *_offsets(batch))) < batch.record_span
    ]
    parts_at = min([*apart, *_overwritten(position, tail)], default=tail.end)
    late = [batch for batch in older if batch.base_offset >= parts_at]
    return parts_at, [] if late and _has_own_epoch(position, tail, late[0].base_offset) else late


def _is_older(position: Position, batch: TailBatch) -> bool:
    """Whether a batch has records of an older epoch of the position's producer id."""
    return is_of_older_epoch(position, batch) and not (batch.is_control or batch.is_open)


def _has_own_epoch(position: Position, tail: Tail, below: int) -> bool:
    """Whether the position's own barrier is in the tail below an offset, or a batch of its owner is in it anywhere.

    Behind late requests may be a marker of its own: the coordinator asks one leader after the other to write it.
    """
    return any(
        is_mine(position, batch) and (not batch.is_marker or batch.base_offset < below) for batch in tail.batches
    )


def _behind_late(position: Position, tail: Tail, late: Sequence[TailBatch], parts_at: int) -> ResumePoint | Unknown:
    """Continue behind late batches: their records are those that the map has from its parting on, in the same order.

    If there are more, they are those behind the position, as far as its runs go. The earlier owner knew of holes that
    these runs may not have; whoever continues must compare the records (`PositionRecovery.find`).
    """
    end = late[-1].next_offset
    known = cut_before_target(position.map_tail, parts_at)
    most = sum(batch.next_offset - batch.base_offset for batch in late)
    behind = stretches(position.runs_until(position.sequence + most), position.sequence, most)
    again = (source + step for source, count in (*(run[::2] for run in known), *behind) for step in range(count))
    copied: list[MapRun] = []
    for batch in late:
        offsets = range(batch.base_offset, batch.next_offset)
        pairs = [MapRun(source, target, 1) for target, source in zip(offsets, again, strict=False)]
        if len(pairs) < len(offsets):
            return Unknown(expected=position.target_next, found=batch.base_offset, cause=NOT_OF_THE_MAP)
        copied += pairs
    return ResumePoint(
        source_next=copied[-1].source + 1,
        target_next=tail.end,
        sequence=position.sequence,
        how=REGRESSION,
        tail_records=0,
        foreign=ranges_of([one for one in tail.batches if one.base_offset >= late[0].base_offset and one not in late]),
        copied=join_runs(copied),
        target_end=end,
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
        source_next = _mapped_end(position, end, below=0 if ours is not None else position.sequence)
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


def _mapped_end(position: Position, target_end: int, *, below: int) -> int | None:
    """Return the source offset after the last record below a target offset, if a record of the map ends there.

    `below`: so many records of the map are at the offset or behind it, as those that the owner itself appended must be
    if none of them is left.
    """
    kept = cut_at_target(position.map_tail, target_end)
    if not kept or kept[-1].target + kept[-1].count != target_end:
        return None
    lost = sum(run.count for run in position.map_tail) - sum(run.count for run in kept)
    return kept[-1].source + kept[-1].count if lost >= below else None
