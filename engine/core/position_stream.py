"""The positions of one lane as a stream of tiny batches: one in flight, the newest wins, fenced like the data.

The lane's own producer id writes them, with a sequence of its own on the positions partition; the lane's barrier
covers that partition too, so a stale owner can no more move the position than append data. A position written twice
does no harm, which makes every answer but fencing simple.
"""

from collections.abc import Callable

import msgspec

from engine.core.actions import Action, Fail, Reacquire, Retry
from engine.core.events import PositionRefused
from engine.core.lane import Lane
from engine.core.outcome import Outcome, OutcomeKind
from engine.core.piece import Lease, Payload
from engine.core.position import encode_value
from engine.core.states import State
from engine.wire.encode import encode_batch
from engine.wire.record import Record

_DUPLICATE = 46
_UNCOMPRESSED = 0
_MINE = frozenset({State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED})


class PositionWrite(msgspec.Struct, kw_only=True):
    """One position on its way: its bytes, and what is durable once it is."""

    payload: Payload
    plan_version: int
    position_version: int
    records: int
    lease: Lease | None = None


class PositionStream:
    """Decides when a lane's position is written; `wall_ms` stamps the record."""

    def __init__(self, lane: Lane, key: bytes, wall_ms: Callable[[], int]) -> None:
        self.flush_asked = False
        self._lane = lane
        self._key = key
        self._wall_ms = wall_ms
        self._sequence = 0
        self._pending: PositionWrite | None = None
        self._resend = False
        self._attempt = 0
        self._durable_version = -1
        self._durable_records = lane.records

    def begin(self) -> None:
        """Start anew under a new producer epoch."""
        self._sequence = 0
        self._pending = None
        self._resend = False
        self._attempt = 0
        self._durable_version = -1
        self._durable_records = self._lane.records

    @property
    def records_behind(self) -> int:
        """Records acknowledged since the last durable position: the tail that the next owner would find."""
        return self._lane.records - self._durable_records

    @property
    def writing(self) -> bool:
        """Whether a position is on its way, and may become durable whatever happens to us."""
        return self._pending is not None

    @property
    def settled(self) -> bool:
        """Whether the newest position is durable."""
        return self._pending is None and self._durable_version == self._lane.position_version

    def next_write(self) -> PositionWrite | None:
        """Hand out the write that is due, None while one is in flight or none is needed."""
        if self._pending is not None:
            if not self._resend:
                return None
            self._resend = False
            return self._pending
        if self._lane.state not in _MINE or not self._due():
            return None
        self.flush_asked = False
        self._pending = self._encode()
        return self._pending

    def _due(self) -> bool:
        dirty = self._lane.position_version != self._durable_version
        return self._lane.plan_needed or (self.flush_asked and dirty)

    def _encode(self) -> PositionWrite:
        lane = self._lane
        producer_id, epoch = lane.producer
        now = self._wall_ms()
        record = Record(offset=0, timestamp=now, key=self._key, value=encode_value(lane.position), headers=())
        payload = encode_batch(
            [record], _UNCOMPRESSED, producer_id=producer_id, producer_epoch=epoch, base_sequence=self._sequence
        )
        return PositionWrite(
            payload=payload,
            plan_version=lane.plan_version,
            position_version=lane.position_version,
            records=lane.records,
        )

    def on_outcome(self, write: PositionWrite, outcome: Outcome) -> Action | None:
        """Take the answer; an answer for a write of a former epoch is ignored."""
        if write is not self._pending:
            return None
        if outcome.kind is OutcomeKind.APPENDED or outcome.error_code == _DUPLICATE:
            self._pending = None
            self._attempt = 0
            self._sequence = (self._sequence + 1) & 0x7FFFFFFF
            self._durable_version = write.position_version
            self._durable_records = write.records
            self._lane.on_position_durable(write.plan_version)
            return None
        self._attempt += 1
        match outcome.kind:
            case OutcomeKind.RETRY | OutcomeKind.UNKNOWN:
                return Retry(self._attempt)
            case OutcomeKind.FENCED | OutcomeKind.ORDER:
                return Reacquire(f"position: {outcome.message}", fenced=outcome.kind is OutcomeKind.FENCED)
            case _:
                return self._refused(outcome)

    def on_retry(self) -> None:
        """Send the same bytes again."""
        self._resend = self._pending is not None

    def _refused(self, outcome: Outcome) -> Fail | None:
        if self._lane.state not in _MINE:
            return None  # the lane has failed, stopped, or is being acquired anew: this write says nothing any more
        self._lane.fail()
        return Fail(
            PositionRefused(
                flow=self._lane.flow,
                lane=self._lane.name.source,
                error_code=outcome.error_code,
                reason=outcome.message or outcome.kind.value,
            )
        )
