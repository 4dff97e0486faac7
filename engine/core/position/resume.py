"""Resume is arithmetic, never counting: where the copy ended, from the position and the target's own batch headers.

Counting target records fails when the source was compacted meanwhile; a producer sequence does not. The tail of the
target (everything from the position's target offset on, read after the barrier) holds batches of ours, control
markers, and perhaps batches of foreign writers. Ours continue the sequence of the position.
"""

from collections.abc import Sequence

import msgspec

from engine.core.offset_map.map_runs import MapRun, cut_at_target, join_runs, source_at
from engine.core.position.position import SEQUENCE_SPAN, Position, stretches

REGRESSION = "target regression"
RENEWED = "topic made anew"
_MISSING = "batches of ours are missing at this offset"
_FORWARD = SEQUENCE_SPAN // 2
"""A sequence distance below this is a step forward; above it, a step back (serial number arithmetic)."""


class TailBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch header of the target's tail.

    `is_control`: a marker, or a batch of an aborted transaction: neither holds a record. `is_open`: a batch of a
    transaction whose end was not read.
    """

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_span: int
    is_control: bool
    is_open: bool = False

    @property
    def is_marker(self) -> bool:
        """Whether it is a marker and never held a record: markers have no sequence."""
        return self.is_control and self.base_sequence < 0


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The target partition from the position's target offset on, as read."""

    log_start: int
    end: int
    batches: tuple[TailBatch, ...]
    last_sequence: int | None = None
    """Our last sequence as DescribeProducers told it before the barrier; None where not asked or not known."""


class ResumePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the copy ended: next source offset, target end, next sequence (not wrapped), and how it was found."""

    source_next: int
    target_next: int
    sequence: int
    how: str
    tail_records: int
    foreign: tuple[tuple[int, int], ...] = ()
    """Inclusive target offset ranges that another writer appended."""
    twice: tuple[int, int] | None = None
    """Inclusive source offsets that may be on the target already, and are copied again."""
    copied: tuple[MapRun, ...] = ()
    """What the tail holds of ours behind the position, as runs of the offset map."""
    target_end: int = -1
    """Where records that the position counts are gone: the end of those of ours that are left; the map is cut there."""
    cut: int = -1
    """Where the source lost something: the source offset that its records and the map of them fit to; -1: all do."""
    whole: bool = False
    """Of a topic made anew: whether nothing of it was left out before `source_next`."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """The target does not tell where the copy ended.

    `target_end`: where the last batch of ours ends that is left; an older part of the offset map may know the rest.
    """

    expected: int
    found: int
    cause: str
    target_end: int = -1


def read_tail(position: Position, tail: Tail) -> ResumePoint | Unknown:
    """Find where the copy ended.

    The tail must have been read from `position.target_next` on (or from the log start where that is higher), from one
    offset before where records may have been lost, and, where `doubtful` says so, from as far back as possible.
    """
    if doubtful(position, tail):
        ours = _last_of_ours(position, tail)
        if isinstance(ours, Unknown):
            return ours
        if tail.end < position.target_next or position.sequence > (ours or 0) or _overwritten(position, tail):
            return _regressed(position, tail, ours)
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


def doubtful(position: Position, tail: Tail) -> bool:
    """Whether the log may have been cut below the position: it ends there, or the offset before holds something newer.

    A marker of another epoch, or a batch that reaches across, can only stand there if what stood there is gone; but
    for one race (two barriers at once), which the sequences tell from a loss.
    """
    last = position.target_next - 1
    across = [batch for batch in tail.batches if batch.base_offset <= last < batch.next_offset]
    return tail.end <= last or any(
        batch.next_offset > position.target_next or (batch.is_control and not is_mine(position, batch))
        for batch in across
    )


def _overwritten(position: Position, tail: Tail) -> bool:
    """Whether a marker stands where the offset map has a record of ours: only a loss can have made room for it."""
    return any(
        batch.is_control and source_at(position.map_tail, batch.base_offset) is not None for batch in tail.batches
    )


def is_mine(position: Position, batch: TailBatch) -> bool:
    """Whether a batch is of the position's producer epoch."""
    return (batch.producer_id, batch.producer_epoch) == (position.producer_id, position.producer_epoch)


def _last_of_ours(position: Position, tail: Tail) -> int | Unknown | None:
    """Return the sequence behind our last batch; what follows a hole in our sequences is not to be built on."""
    last: int | None = None
    offset = -1
    for batch in tail.batches:
        if not batch.is_control and is_mine(position, batch):
            first = unwrap(position, batch)
            if last is not None and first > last and batch.base_offset == offset:
                return Unknown(expected=position.target_next, found=batch.base_offset, cause=_MISSING)
            last = first + batch.record_span
        offset = batch.next_offset
    return last


def _broken(position: Position, tail: Tail) -> Unknown | None:
    """Find where our batches do not continue each other although no offset is missing between them.

    Compaction and retention leave holes in the offsets. A hole or a repetition in our sequences alone means that the
    target did not refuse what it must: a broker that forgot its producers appends a batch twice, or behind a lost one.
    """
    offset: int | None = position.target_next if tail.log_start <= position.target_next else None
    sequence = position.sequence
    for batch in tail.batches:
        if is_mine(position, batch) and not batch.is_control:
            first = unwrap(position, batch)
            if first < sequence or (first > sequence and batch.base_offset == offset):
                cause = "batches of ours are there twice at this offset" if first < sequence else _MISSING
                return Unknown(expected=position.target_next, found=batch.base_offset, cause=cause)
            sequence = first + batch.record_span
        offset = batch.next_offset
    return None


def unwrap(position: Position, batch: TailBatch) -> int:
    """Return a batch's sequence as the position counts, which never wraps."""
    ahead = (batch.base_sequence - position.sequence) % SEQUENCE_SPAN
    return position.sequence + (ahead if ahead < _FORWARD else ahead - SEQUENCE_SPAN)


def _walk(position: Position, tail: Tail) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Follow our sequence through the tail; return it and the foreign ranges."""
    sequence = position.sequence
    foreign: list[tuple[int, int]] = []
    for batch in tail.batches:
        if batch.is_control:
            continue
        if is_mine(position, batch):
            sequence = max(sequence, unwrap(position, batch) + batch.record_span)
        else:
            _extend(foreign, batch)
    return sequence, tuple(foreign)


def ranges_of(batches: Sequence[TailBatch]) -> tuple[tuple[int, int], ...]:
    """Return the inclusive offset ranges of records, markers left out."""
    ranges: list[tuple[int, int]] = []
    for batch in batches:
        if not batch.is_control:
            _extend(ranges, batch)
    return tuple(ranges)


def _extend(ranges: list[tuple[int, int]], batch: TailBatch) -> None:
    first, last = batch.base_offset, batch.next_offset - 1
    if ranges and ranges[-1][1] + 1 == first:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))


def _found(
    position: Position, tail: Tail, sequence: int, foreign: tuple[tuple[int, int], ...], how: str
) -> ResumePoint | Unknown:
    # What lies behind the last record of the source was skipped knowingly (markers, aborted batches): the position,
    # where nothing was appended behind it, already knows.
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
    """Return which source records the tail's batches of ours hold, and where."""
    runs: list[MapRun] = []
    for batch in tail.batches:
        if is_mine(position, batch) and not batch.is_control:
            target = batch.base_offset
            for source, count in stretches(position.runs, unwrap(position, batch), batch.record_span):
                runs.append(MapRun(source, target, count))
                target += count
    return join_runs(runs)


def _end(tail: Tail) -> int:
    """Return the end of what was read: without a barrier, batches may have come since the end offset was asked for."""
    return max(tail.end, tail.batches[-1].next_offset) if tail.batches else tail.end


def _eaten(position: Position, tail: Tail, foreign: tuple[tuple[int, int], ...]) -> ResumePoint | Unknown:
    """Retention took the tail and nothing of ours is left in it: only the broker's producer state may know."""
    if tail.last_sequence is None:
        return Unknown(
            expected=position.target_next,
            found=tail.log_start,
            cause="the target's retention took the tail of the copy",
        )
    ahead = (tail.last_sequence + 1 - position.sequence) % SEQUENCE_SPAN
    if ahead >= _FORWARD:
        return Unknown(
            expected=position.target_next,
            found=tail.log_start,
            cause="the target's retention took the tail of the copy, and its producer state is older than the position",
        )
    return _found(position, tail, position.sequence + ahead, foreign, "producer state")


def _regressed(position: Position, tail: Tail, ours: int | None) -> ResumePoint | Unknown:
    """The target lost acknowledged records: rewind to what it still has, if a run or the map says what that is."""
    mine = [at for at, batch in enumerate(tail.batches) if not batch.is_control and _of_our_id(position, batch, ours)]
    source_next = None if ours is None else position.source_of(ours)
    end = tail.batches[mine[-1]].next_offset if mine else -1
    if mine and source_next is None:
        source_next = _mapped_end(position, end)
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
    """Whether a batch is of the position's epoch or, where none of those is left, of an older one of its id."""
    if ours is not None:
        return is_mine(position, batch)
    return batch.producer_id == position.producer_id and batch.producer_epoch < position.producer_epoch


def _mapped_end(position: Position, target_end: int) -> int | None:
    """Return the source offset behind the last record below a target offset, if the map's tail ends a record there."""
    kept = cut_at_target(position.map_tail, target_end)
    if not kept or kept[-1].target + kept[-1].count != target_end:
        return None
    return kept[-1].source + kept[-1].count
