"""A stream of small batches that a lane writes in addition to its records: one in flight, fenced like the data.

The lane's producer id writes them, with a separate sequence on their partition. The lane's barrier covers that
partition too, so a stale owner can neither write there nor append data. A batch that is written twice does no harm, so
every failure but fencing is simply retried.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from engine.core.events.events import AnyEvent
from engine.core.lane.actions import Action, Fail, Reacquire, Retry, WriteAllowed, WriteDenied
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import UNAUTHORIZED, Outcome, OutcomeKind
from engine.core.lane.pending_batch import BufferShare, Payload
from engine.core.lane.states import State
from engine.wire.batch import read_header, restamp
from engine.wire.encode import encode_batch
from engine.wire.record import Record

_DUPLICATE = 46
_MINE = frozenset({State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED})
_STILL_MINE = _MINE | {State.FAILED}
"""States in which a write of unknown outcome is sent again. In other states another owner may have the lane, and some
lanes have no fence."""


class Write(msgspec.Struct, kw_only=True):
    """Some records that are in flight as one batch."""

    payload: Payload
    record_count: int
    lease: BufferShare | None = None

    def detach(self) -> None:
        """Do nothing: the bytes of a write are in no receive buffer."""

    def let_go(self) -> None:
        """Do nothing: the bytes of a write are in no receive buffer."""


W = TypeVar("W", bound=Write)


class FencedStream(ABC, Generic[W]):
    """Decides when to write, and handles the answers; `wall_ms` returns the timestamp for records (Unix ms)."""

    def __init__(self, lane: Lane, wall_ms: Callable[[], int]) -> None:
        self._lane = lane
        self._wall_ms = wall_ms
        self._sequence = 0
        self._pending: W | None = None
        self._resend = False
        self._attempt = 0
        self._waits = False
        self.denied = False
        """Whether the last answer was a missing permission, which an administrator may grant again."""

    def begin(self) -> None:
        """Start again under a new producer epoch."""
        self._sequence = 0
        self._pending = None
        self._resend = self._waits = False
        self._attempt = 0

    @property
    def writing(self) -> bool:
        """Whether a write is in flight: it may become durable whatever happens to the lane."""
        return self._pending is not None

    def next_write(self) -> W | None:
        """Return the write that is due; None while one is in flight or none is needed."""
        if self._pending is not None:
            if not self._resend or self._lane.state not in _STILL_MINE:
                return None
            self._resend = False
            return self._pending
        if self._lane.state not in _MINE or self._lane.trail.left or not self.due:
            return None
        self._pending = self._make()
        self._lane.trail.writes += 1
        return self._pending

    def on_outcome(self, write: W, outcome: Outcome) -> Action | None:
        """Take the answer to a write; ignore an answer to a write of an earlier epoch."""
        if write is not self._pending:
            return None
        if outcome.kind is OutcomeKind.APPENDED or outcome.error_code == _DUPLICATE:
            self._pending = None
            self._attempt = 0
            self._lane.trail.writes -= 1
            self._sequence = (self._sequence + write.record_count) & 0x7FFFFFFF
            self._durable(write)
            return self._allowed()
        self._attempt += 1
        self._lane.trail.failed()
        match outcome.kind:
            case OutcomeKind.RETRY | OutcomeKind.UNKNOWN:
                return Retry(self._attempt)
            case OutcomeKind.FENCED | OutcomeKind.ORDER:
                return Reacquire(f"{self.what}: {outcome.message}", fenced=outcome.kind is OutcomeKind.FENCED)
            case _:
                return self._refused(outcome)

    def on_retry(self) -> None:
        """Send the same bytes again, unless the write waits for a permission: only `ask_again` retries that."""
        self._resend = self._pending is not None and not self._waits

    def ask_again(self, attempt: int) -> None:
        """Send the write again that was denied at this attempt; a later attempt has its own back-off."""
        if self._waits and attempt == self._attempt:
            self._waits = False
            self._resend = True

    def _allowed(self) -> WriteAllowed | None:
        was_denied, self.denied = self.denied, False
        return WriteAllowed(self.what) if was_denied else None

    def _refused(self, outcome: Outcome) -> Fail | WriteDenied | None:
        if self._lane.state not in _MINE:
            return None  # the lane has failed, stopped, or is being acquired again: this write no longer matters
        if outcome.error_code in UNAUTHORIZED:  # a broker checks permissions before it appends
            self._waits = self.denied = True
            return WriteDenied(self.what, self._attempt, outcome.error_code, outcome.message or outcome.kind.value)
        self._lane.fail()
        return Fail(self._refusal(outcome.error_code, outcome.message or outcome.kind.value))

    def _encode(self, records: Sequence[tuple[bytes, bytes | None]], codec: int) -> bytearray:
        """Encode (key, value) pairs as one batch of the lane's producer; None is a tombstone."""
        producer_id, epoch = self._lane.producer
        now = self._wall_ms()
        batch = encode_batch(
            [Record(offset=0, timestamp=now, key=key, value=value, headers=()) for key, value in records],
            codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
        )
        if self.transactional:
            restamp(batch, 0, read_header(batch, 0), producer_id, epoch, self._sequence, transactional=True)
        return batch

    # --- for subclasses: the content of the writes ----------------------------------------------------------

    what: str
    """The content of the stream in a word or two, for messages."""
    transactional = False
    """Whether the writes are part of the lane's transactions."""

    @property
    @abstractmethod
    def due(self) -> bool:
        """Whether a write is needed."""

    @abstractmethod
    def _make(self) -> W:
        """Encode the write that is due."""

    @abstractmethod
    def _durable(self, write: W) -> None:
        """Note that a write is in the log."""

    @abstractmethod
    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        """Return the event that the target refused a write and the lane has stopped."""
