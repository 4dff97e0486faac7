"""What a lane asks of its driver, as values."""

import msgspec

from engine.core.events import AnyEvent, RecordRefused
from engine.core.piece import Piece


class Retry(msgspec.Struct, frozen=True):
    """Call `on_retry` after a back-off for the given attempt (1, 2, ...)."""

    attempt: int


class RetryRefused(msgspec.Struct, frozen=True):
    """The target refused a record: tell `event`, call `on_retry` after a long back-off."""

    attempt: int
    event: RecordRefused


class Split(msgspec.Struct, frozen=True):
    """The target refused `piece` for its size: call `on_split` with smaller batches; if there are none, as refused."""

    piece: Piece
    refused: RetryRefused


class ReadTail(msgspec.Struct, frozen=True):
    """Read the target from `target_offset` to its end and call `on_tail`."""

    target_offset: int


class Inspect(msgspec.Struct, frozen=True):
    """Target offsets `first` to `last` are not ours: look whether they hold more than control markers."""

    first: int
    last: int


class Unmarked(msgspec.Struct, frozen=True):
    """A commit left no marker at a target offset; the next one covers its records."""

    target_offset: int


class Reacquire(msgspec.Struct, frozen=True):
    """Stop, check who owns the lane, acquire it again a bounded number of times, then call `own`.

    `fenced`: the broker knows a newer owner, or does not know us; else it is we who want a new epoch. `settles`: only
    to learn what the log holds; nobody contradicts anybody, so it may be asked for any number of times.
    """

    reason: str
    fenced: bool = False
    settles: bool = False


class Fail(msgspec.Struct, frozen=True):
    """The lane stopped for good; tell the event."""

    event: AnyEvent


class WriteDenied(msgspec.Struct, frozen=True):
    """A right to write beside the records has lapsed: tell, call `ask_again` with `attempt` after a long back-off.

    `what`: the stream, as `FencedStream.what` names it.
    """

    what: str
    attempt: int
    error_code: int
    reason: str


class WriteAllowed(msgspec.Struct, frozen=True):
    """What was denied to a stream is written now."""

    what: str


Action = Retry | RetryRefused | Split | ReadTail | Inspect | Unmarked | Reacquire | Fail | WriteDenied | WriteAllowed
Actions = tuple[Action, ...]
NOTHING: Actions = ()


def between(end: int, markers: int, base_offset: int) -> Actions:
    """Say what lies between the last record of ours, which ends at `end`, and an append at `base_offset`.

    `markers`: of commits since. Where one is missing (`core/stored_tail.py`) its records are still in a transaction.
    """
    if base_offset < end + markers:
        return (Unmarked(end),)
    return (Inspect(end, base_offset - 1),) if base_offset > end + markers else NOTHING
