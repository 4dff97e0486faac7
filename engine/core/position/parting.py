"""Finds where a target's log parts from the log that a lane's offset map is of, and which records are there instead.

    the map's log   ... | records | marker of the position's epoch | records again ...
    this log        ... | records | late batches of this lane      | marker of this barrier

A broker was cut off with requests of the lane in its socket, and took them up before it learnt that it leads no more.
Then an unclean election made it the leader. Both logs are equal up to the first batch that only one of them has; from
there on the map's offsets mean nothing, but the order of the lane's records is the same, and each has a number.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from engine.core.offset_map.map_runs import MapRun, cut_at_target, records_between
from engine.core.position.position import Position, stretches
from engine.core.position.right_before import doubtful, has_record, is_cut
from engine.core.position.target_tail import Tail, TailBatch, is_mine, is_of_older_epoch, is_of_others, unwrap


class Numbers:
    """The numbers of the map's records: their sequences in the count of the position's owner.

    The last record of the map is the last that this owner appended, so records of earlier owners have the numbers below
    0, in the map's order.
    """

    def __init__(self, position: Position) -> None:
        self._runs = position.map_tail
        self._begins: list[int] = []
        """The number of the first record of each run."""
        number = position.sequence - sum(run.count for run in self._runs)
        self.first = number
        """The lowest number that the map's tail has."""
        self.end = position.sequence
        for run in self._runs:
            self._begins.append(number)
            number += run.count

    def at(self, target: int) -> int:
        """Return the number of the first record at a target offset or behind it."""
        index = bisect_right(self._runs, target, key=lambda run: run.target) - 1
        if index < 0:
            return self.first
        run = self._runs[index]
        return self._begins[index] + min(target - run.target, run.count)

    def places(self, number: int, count: int) -> Iterator[MapRun]:
        """Yield where the map has `count` records from a number on, as far as it has them."""
        end = min(number + count, self.end)
        for index in range(max(0, bisect_right(self._begins, number) - 1), len(self._begins)):
            begins, run = self._begins[index], self._runs[index]
            step = max(0, number - begins)
            if begins + step >= end:
                return
            yield MapRun(run.source + step, run.target + step, min(run.count, end - begins) - step)


def may_be_late(position: Position, tail: Tail) -> bool:
    """Whether an older epoch may have appended after the position's barrier was lost; more must be read to know."""
    return doubtful(position, tail) or has_older_behind(position, tail)


def has_older_behind(position: Position, tail: Tail) -> bool:
    """Whether an older epoch has records behind the position, or right before it where the map has none of it."""
    behind = position.target_next + _follows_older(position)
    return any(is_of_older(position, batch) and batch.next_offset >= behind for batch in tail.batches)


def _follows_older(position: Position) -> bool:
    """Whether a record of an older epoch may be the last before the position: of this one there is not even a barrier.

    Otherwise late requests may end exactly where the position does.
    """
    return position.sequence == 0 and has_record(position) is not False


def is_of_older(position: Position, batch: TailBatch) -> bool:
    """Whether a batch has records of an older epoch of the position's producer id."""
    return is_of_older_epoch(position, batch) and is_data(position, batch)


def is_data(position: Position, batch: TailBatch) -> bool:
    """Whether a batch has records of the position's owner or of an earlier one with the same producer id."""
    return not (batch.is_control or batch.is_open) and (is_mine(position, batch) or is_of_older_epoch(position, batch))


def reaches_from(position: Position) -> int:
    """Return the target offset from which on the map's tail has every record of the lane."""
    start = position.map_start
    if start.first and not position.map_blocks:
        return 0
    return position.map_tail[0].target if position.map_tail else start.target


def parts_at(position: Position, tail: Tail, *, distrusts: bool) -> int:
    """Return the offset of the first batch that cannot be in the map's log; the end of this log if all can.

    `distrusts`: whether no record of another producer id may be where the map has one of an earlier owner. It may be
    the same: of an id that has expired, or of MM2, whose copy the map continues.
    """
    signs = _Signs(position, tail, distrusts=distrusts)
    return next((batch.base_offset for batch in tail.batches if signs.is_other(batch)), tail.end)


class _Signs:
    """What shows that a batch is not in the map's log."""

    def __init__(self, position: Position, tail: Tail, *, distrusts: bool) -> None:
        self._position = position
        self._numbers = Numbers(position)
        self._cut = is_cut(position, tail)
        self._is_certain = self._cut or has_older_behind(position, tail)
        self._reached = reaches_from(position)
        is_known = position.map_start.first or any(is_data(position, batch) for batch in tail.batches)
        self._distrusts = distrusts and is_known and self._cut

    def is_other(self, batch: TailBatch) -> bool:
        """Whether only this log can have the batch."""
        position, in_map = self._position, records_between(self._position.map_tail, *_offsets(batch))
        if is_of_later_leader(position, batch):
            return True
        if batch.is_control:
            return bool(in_map)
        if is_of_others(position, batch):
            return bool(in_map) and (self._distrusts or self._numbers.at(batch.next_offset) > 0)
        if not is_data(position, batch) or batch.base_offset < self._reached:
            return False
        return self._is_moved(batch) if is_mine(position, batch) else self._is_late(batch, in_map)

    def _is_moved(self, batch: TailBatch) -> bool:
        """Whether the map has the records of this batch of the position's owner at other offsets."""
        first, position = unwrap(self._position, batch), self._position
        if first >= position.sequence:
            return batch.base_offset < position.target_next
        if first < self._numbers.first:
            return False
        target = batch.base_offset
        for place in self._numbers.places(first, batch.record_span):
            if place.target != target:
                return True
            target += place.count
        return False

    def _is_late(self, batch: TailBatch, in_map: Sequence[MapRun]) -> bool:
        """Whether the map has no records, or later ones, where this batch of an earlier owner is."""
        if not self._is_certain or not (self._cut or batch.base_offset < self._position.target_next):
            return False
        return sum(run.count for run in in_map) < batch.record_span or self._numbers.at(batch.next_offset) > 0


def is_of_later_leader(position: Position, batch: TailBatch) -> bool:
    """Whether a batch below the position is of a later leader epoch than what was right before the position.

    In one log the epochs of leaders never fall, so such a batch was appended after the end of the log was lost.
    """
    return batch.base_offset < position.target_next and 0 <= position.behind.epoch < batch.leader_epoch


def late_batches(position: Position, tail: Tail, parting: int) -> list[TailBatch]:
    """Return the batches with records of the lane from the parting on.

    There are none if the first is of an older epoch behind one of the position's: a broker refuses to append that.
    """
    late = [batch for batch in tail.batches if batch.base_offset >= parting and is_data(position, batch)]
    if late and is_of_older_epoch(position, late[0]):
        own = next((batch.base_offset for batch in tail.batches if is_mine(position, batch)), tail.end)
        return late if own > late[0].base_offset else []
    return late


def late_records(position: Position, tail: Tail, parting: int) -> Sequence[MapRun] | TailBatch:
    """Return the source and target offsets of the lane's records from the parting on; or the batch that is not clear.

    Records of the position's owner have their sequences; those of an earlier one continue the map's log where this log
    parts from it. If there are more, they are those behind the position, as far as its runs go. The earlier owner knew
    of holes that these runs may not have, so whoever continues must compare the records.
    """
    numbers = Numbers(position)
    number, holes, offset = numbers.at(parting), 0, parting
    copied: list[MapRun] = []
    for batch in tail.batches:
        if batch.base_offset < parting:
            continue
        holes, offset = holes + max(0, batch.base_offset - offset), batch.next_offset
        if not is_data(position, batch):
            continue
        if parting < reaches_from(position):
            return batch
        first = unwrap(position, batch) if is_mine(position, batch) else number
        pieces = list(_sources(position, numbers, first, batch.record_span))
        if not number <= first <= number + holes or sum(count for _, count in pieces) < batch.record_span:
            return batch
        target = batch.base_offset
        for source, count in pieces:
            copied.append(MapRun(source, target, count))
            target += count
        number, holes = first + batch.record_span, 0
    return copied


def _sources(position: Position, numbers: Numbers, number: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (source offset, records) of `count` records from a number on, as far as they are known."""
    yield from (place[::2] for place in numbers.places(number, count))
    first, end = max(number, position.sequence), number + count
    if first < end:
        yield from stretches(position.runs_until(end), first, end - first)


def last_kept(position: Position, before: int) -> MapRun | None:
    """Return the map's last records before a target offset: their content can show that the log has them."""
    kept = cut_at_target(position.map_tail, before)
    if not kept:
        return None
    source, target, count = kept[-1]
    out = max(0, count - _COMPARED)
    return MapRun(source + out, target + out, count - out)


_COMPARED = 256


def _offsets(batch: TailBatch) -> tuple[int, int]:
    """Return the first offset of a batch, and the one behind it."""
    return batch.base_offset, batch.next_offset
