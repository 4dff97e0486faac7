"""Decides whether a target's log still ends as a lane left it, by the batch right before the lane's position."""

from collections.abc import Sequence

from engine.core.offset_map.map_runs import source_at
from engine.core.position.position import Behind, Position, Seen
from engine.core.position.target_tail import (
    Tail,
    TailBatch,
    is_mine,
    is_of_older_epoch,
    is_of_others,
    last_before,
    unwrap,
)


def doubtful(position: Position, tail: Tail) -> bool:
    """Whether the log may have been cut below the position: more must be read to know.

    A marker of another producer id may be there for a reason (another writer's), or in the place of lost records; if
    its leader epoch is that of the batch that was seen there, the log is the same.
    """
    if is_cut(position, tail):
        return True
    last = last_before(position, tail.batches)
    is_seen = last is not None and 0 <= position.behind.epoch == last.leader_epoch
    return last is not None and not is_seen and last.is_marker and is_of_others(position, last)


def is_cut(position: Position, tail: Tail) -> bool:
    """Whether the log ends below the position, or has something else right before it than what its owner left there."""
    return tail.end < position.target_next or not ends_as_left(position, tail.batches)


def ends_as_left(position: Position, batches: Sequence[TailBatch]) -> bool:
    """Whether right before a position is what its owner left there; also if nothing is left there.

    `batches`: from the offset before the position, or an earlier one, on.
    """
    last = last_before(position, batches)
    return last is None or (is_left(position, last) and _is_of_same_leader(position, last))


def _is_of_same_leader(position: Position, last: TailBatch) -> bool:
    """Whether a batch has the leader epoch of the one that was seen there: of one epoch there is one log (KIP-101)."""
    return -1 in (position.behind.epoch, last.leader_epoch) or position.behind.epoch == last.leader_epoch


def is_left(position: Position, last: TailBatch) -> bool:
    """Whether a batch can be what was right before a position when it was written.

        by the position       what can be there
        behind a marker       a marker of its owner; of an earlier owner too, if the owner has appended nothing
        behind another writer what another writer wrote
        by its map no record  such a marker, or what another writer wrote
        a record              the owner's last batch; if it has appended nothing: one of an earlier owner
        not known             each of these

    Without transactional ids every owner has a producer id of its own, with epoch 0; earlier versions did not note it.
    """
    if last.next_offset > position.target_next:
        return False
    is_others, is_ours = is_of_others(position, last), is_mine(position, last) or precedes(position, last)
    match position.behind.what:
        case Behind.OTHERS:
            return is_others
        case Behind.MARKER:
            return last.is_marker and is_ours
    record = has_record(position)
    if last.is_marker:
        return not record and (is_ours or is_others)
    if is_others:
        return record is False or (position.sequence == 0 and (record is None or position.producer_epoch == 0))
    ends_there = not is_mine(position, last) or unwrap(position, last) + last.record_span == position.sequence
    return record is not False and is_ours and ends_there


def has_record(position: Position) -> bool | None:
    """Whether the map has a record at the last offset before a position; None: that is before the start of the map."""
    if source_at(position.map_tail, position.target_next - 1) is not None:
        return True
    begins = position.map_start.target
    return False if position.behind.what or position.map_tail or begins < position.target_next else None


def precedes(position: Position, batch: TailBatch) -> bool:
    """Whether a batch is of an earlier owner, and the owner of the position has appended nothing."""
    return position.sequence == 0 and is_of_older_epoch(position, batch)


def behind_in(tail: Tail, target_next: int, producer: tuple[int, int], known: Seen) -> Seen:
    """Return what a tail has right before a target offset. Of a record of the lane only the leader epoch is said.

    `producer`: the id and the epoch of the lane's owner. `known`: what was there before, if the tail has nothing.
    """
    last = next((batch for batch in reversed(tail.batches) if batch.next_offset == target_next), None)
    if last is None:
        return Seen() if tail.batches else known
    is_marker = last.is_marker and last.producer_epoch == producer[1]
    what = Behind.OTHERS if last.producer_id != producer[0] else Behind.MARKER if is_marker else Behind.NOT_SAID
    return Seen(what, last.leader_epoch)
