"""The actions that a lane asks its driver to do, as values."""

import msgspec

from engine.core.events.events import AnyEvent, RecordRefused
from engine.core.lane.pending_batch import PendingBatch


class Retry(msgspec.Struct, frozen=True):
    """Call `on_retry` after a back-off for the given attempt (1, 2, ...)."""

    attempt: int


class RetryRefused(msgspec.Struct, frozen=True):
    """The target refused a record of `piece`: report `event`, call `on_retry` after a long back-off.

    If the rules leave refused records out, call `leave_out` instead. `indexes`: of the refused records, in rising
    order; empty if the target does not say which of several it refuses.
    """

    attempt: int
    event: RecordRefused
    piece: PendingBatch
    indexes: tuple[int, ...] = ()


class Split(msgspec.Struct, frozen=True):
    """The target refused `piece` for its size or for a record: call `on_split` with smaller batches.

    `before`: the indexes of the records before which to cut, if it was for a record; empty: cut it to the target's size
    limit. If there is nothing to cut, do `refused`.
    """

    piece: PendingBatch
    refused: RetryRefused
    before: tuple[int, ...] = ()


class ReadTail(msgspec.Struct, frozen=True):
    """Read the target from `target_offset` to its end and call `on_tail`."""

    target_offset: int


class Inspect(msgspec.Struct, frozen=True):
    """Raymirror did not write target offsets `first` to `last`: check whether they hold more than control markers."""

    first: int
    last: int


class Unmarked(msgspec.Struct, frozen=True):
    """A commit left no marker at a target offset; the next one covers its records."""

    target_offset: int


class Reacquire(msgspec.Struct, frozen=True):
    """Stop, check who owns the lane, acquire it again a bounded number of times, then call `own`.

    `fenced`: the broker knows a newer owner, or does not know this one; otherwise the lane itself needs a new epoch.
    `settles`: the lane only needs to know the content of the log. No other owner is involved, so the number of tries
    is not bounded.
    """

    reason: str
    fenced: bool = False
    settles: bool = False


class Fail(msgspec.Struct, frozen=True):
    """The lane stopped for good; report the event."""

    event: AnyEvent


class WriteDenied(msgspec.Struct, frozen=True):
    """The permission to write a stream was removed: report it, call `ask_again` with `attempt` after a long back-off.

    `what`: the stream, as `FencedStream.what` names it.
    """

    what: str
    attempt: int
    error_code: int
    reason: str


class WriteAllowed(msgspec.Struct, frozen=True):
    """A stream that was denied a write can write again."""

    what: str


Action = Retry | RetryRefused | Split | ReadTail | Inspect | Unmarked | Reacquire | Fail | WriteDenied | WriteAllowed
Actions = tuple[Action, ...]
NOTHING: Actions = ()


def between(end: int, markers: int, base_offset: int) -> Actions:
    """Return actions for the target offsets between `end`, the end of the copy, and an append at `base_offset`.

    `markers`: the number of commit markers since `end`. If a marker is missing (`core/position/stored_tail.py`), its
    records are still in a transaction.
    """
    if base_offset < end + markers:
        return (Unmarked(end),)
    return (Inspect(end, base_offset - 1),) if base_offset > end + markers else NOTHING
