"""Keeps the durable state of one flow: opens its state topic, holds the flow, reads once, writes the wanted state.

    opening --held--> open --lease lost--> taken
       |  ^             |
       |  +--trouble----+
       +--held by another--> taken          refused --> nothing is stored, and that is reported

The supervisor must act on `taken`: another mirror has the flow, or a later version has written what this one cannot
read, and this one must end. A refusal (no right to create or write the topic) is tolerated: copying does not need the
topic. The topic is retried, since other mirrors cannot see that this one copies the flow until the topic says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from actors.control.ports import RememberedFlow
from actors.model.states import Desired, StopKind, moved_text, turned_text
from engine.base.clock import now_s, wall_ms
from engine.base.errors import FlowHeld, KafkaRefusal, MirrorError, NewerFormat, StateTaken, StateUnreadable
from engine.core.events.events import AnyEvent, Event
from engine.state.state import (
    DESIRED,
    DesiredState,
    Key,
    Quarantine,
    SetState,
    StoredStop,
    Value,
    desired_of,
    quarantine_key,
    set_key,
)

RETRY_S = 2.0
REFUSED_S = 60.0
"""Seconds between two tries if the topic is refused: an operator may grant the right."""
CLOSE_S = 3.0


_STORED: Mapping[StopKind, StoredStop] = {
    StopKind.FLOW: "flow",
    StopKind.DELETED: "deleted",
    StopKind.MIRROR: "mirror",
    StopKind.FAILOVER: "failover",
    StopKind.SWITCHOVER: "failover",
    StopKind.FAILBACK: "failback",
}
"""How a stop is stored; `DesiredState.switched` tells a switchover from a failover."""


class StateServiceLike(Protocol):
    """The methods of `engine.services.state_service.StateService` that are used."""

    awaited: str
    trouble: str

    @property
    def unrenewed_s(self) -> float: ...
    async def open(self) -> None: ...
    def load(self) -> Mapping[Key, Value]: ...
    async def put(self, entries: Mapping[Key, Value | None]) -> None: ...
    async def run(self) -> None: ...
    async def close(self, *, release: bool = True, within_s: float = 5.0) -> None: ...


class EventServiceLike(Protocol):
    """The methods of `engine.services.event_service.EventService` that are used."""

    def append(self, events: Iterable[Event]) -> None: ...
    async def run(self) -> None: ...
    async def flush(self) -> None: ...
    def take_events(self) -> Sequence[AnyEvent]: ...


class _Refused(NamedTuple):
    """The state topic is refused, since an instant (Unix ms)."""

    since_ms: int


class DurableFlowState:
    """The durable state of one flow."""

    def __init__(self, make: Callable[[], StateServiceLike], flow: str = "") -> None:
        self._make, self._flow = make, flow
        self._service: StateServiceLike | None = None
        """The topic that is being opened, or is open."""
        self._held: StateServiceLike | _Refused | None = None
        """Why this mirror owns the flow: the open topic, or its refusal; None while neither is known."""
        self._trouble = ""
        self._sure_at_s = now_s()
        self.kept: RememberedFlow | None = None
        """The wanted state: None before the topic was read, unless a command came first (`is_blind`)."""
        self.taken = ""
        """Which other mirror has the flow, or why this mirror must end; empty otherwise."""
        self._moved = frozenset[str]()
        """The moved topics that were last read or stored: one that this mirror releases is no news."""

    @property
    def known(self) -> RememberedFlow | None:
        """The wanted state as the supervisor may take it over: None before the topic was read, or refused."""
        return None if self.kept is None or self.kept.is_blind else self.kept

    @property
    def holds(self) -> bool:
        """Whether this mirror has the flow, as far as that can be known: the topic is open, or it is refused."""
        return self._held is not None and not self.taken

    @property
    def unrenewed_s(self) -> float:
        """For how many seconds it has not been known whether this mirror has the flow; 0 if the topic is refused."""
        if isinstance(self._held, _Refused):
            return 0.0
        return now_s() - self._sure_at_s if self._held is None else self._held.unrenewed_s

    @property
    def awaited(self) -> str:
        """What the flow waits for before this mirror has it; empty if nothing."""
        return self._service.awaited if self._service is not None else ""

    @property
    def trouble(self) -> str:
        """Why nothing can be stored now; empty when all is well."""
        return self._trouble or (self._service.trouble if self._service is not None else "")

    async def run(self) -> None:
        """Take the flow and hold it, until cancelled; returns when another mirror has it."""
        while not self.taken:
            service = self._service = self._make()
            try:
                await self._hold(service)
            except (FlowHeld, StateTaken, NewerFormat, StateUnreadable) as taken:
                self.taken = str(taken)
            except KafkaRefusal as refusal:
                if not isinstance(self._held, _Refused):
                    self._held = _Refused(wall_ms())
                self.kept = _seen(self.kept or RememberedFlow(), RememberedFlow())
                self._trouble = f"the wanted state cannot be stored on the target: {refusal}"
                await asyncio.sleep(REFUSED_S)
            except (MirrorError, OSError, TimeoutError) as trouble:
                self._trouble = str(trouble)
                await asyncio.sleep(RETRY_S)
            finally:
                if self._held is service:
                    self._sure_at_s, self._held = now_s() - service.unrenewed_s, None
                self._service = None
                await service.close(release=False)

    async def _hold(self, service: StateServiceLike) -> None:
        await service.open()
        self._trouble, found = "", _kept(service.load())
        if self.kept is None:
            self.kept = found
        elif found.failed_over and not self.kept.failed_over:
            self.taken = f"while this mirror could not see it, {turned_text(self._flow, found.stop)}"
            return
        elif unseen := sorted({*found.moved_topics} - {*_seen(self.kept, found).moved_topics} - self._moved):
            self.taken = f"while this mirror could not see it, {moved_text(self._flow, unseen)}"
            return
        self.kept = _seen(self.kept, found)
        if isinstance(self._held, _Refused):
            self.taken = _stopped_since(service.load(), self._held.since_ms)
            if self.taken:
                return
            await service.put(_changes(service.load(), self.kept))
        self._held, self._moved = service, frozenset(found.moved_topics)
        await service.run()

    async def store(self, kept: RememberedFlow) -> None:
        """Store the state; returns when it is durable, or if the topic is refused. Raises MirrorError."""
        if self._held is None:
            self.kept = kept
            if not self.taken:
                raise NotOpen(self._trouble or "the state topic is being opened")
            return
        stored: Mapping[Key, Value] = {} if isinstance(self._held, _Refused) else self._held.load()
        self.kept = _seen(kept, _kept(stored))
        if not isinstance(self._held, _Refused):
            await self._held.put(_changes(stored, self.kept))
            self._moved = frozenset(self.kept.moved_topics)

    async def close(self) -> None:
        if self._held is not None and not isinstance(self._held, _Refused):
            await self._held.close(release=True, within_s=CLOSE_S)


class NotOpen(MirrorError):
    """The wanted state cannot be written yet."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"not written yet: {self.why}"


def _stopped_since(entries: Mapping[Key, Value], since_ms: int) -> str:
    """Say who has stopped the flow since `since_ms` (Unix time), by the entries of the topic; empty if it was not."""
    wanted = desired_of(entries)
    if wanted.state != Desired.STOPPED.value or wanted.at_ms <= since_ms:
        return ""
    return f"the flow was stopped by {wanted.who or 'another mirror'} while this one could not see it"


def _stop_kind(said: DesiredState) -> StopKind:
    if said.stop is msgspec.UNSET:
        return StopKind.MIRROR
    is_switched = said.switched is True and said.stop == StopKind.FAILOVER.value
    return StopKind.SWITCHOVER if is_switched else StopKind(said.stop)


def _kept(entries: Mapping[Key, Value]) -> RememberedFlow:
    said = desired_of(entries)
    return RememberedFlow(
        state=Desired(said.state),
        stop=_stop_kind(said),
        paused_topics=said.paused_topics,
        moved_topics=said.moved_topics,
        at_ms=said.at_ms,
        sets={key.subject: value for key, value in entries.items() if isinstance(value, SetState)},
        quarantine={key.subject: value for key, value in entries.items() if isinstance(value, Quarantine)},
    )


def _seen(kept: RememberedFlow, found: RememberedFlow) -> RememberedFlow:
    """Return what is wanted now that the stored state (`found`) is read: a command that came before it knew nothing.

    A failover that is stored stays; so do moved topics, sets and quarantines.
    """
    if not kept.is_blind:
        return kept
    if found.failed_over and not kept.failed_over:
        return found
    return msgspec.structs.replace(
        kept,
        paused_topics=tuple(sorted({*kept.paused_topics, *found.moved_topics})),
        moved_topics=tuple(sorted({*kept.moved_topics, *found.moved_topics})),
        sets=found.sets,
        quarantine=found.quarantine,
        is_blind=False,
    )


def _changes(stored: Mapping[Key, Value], kept: RememberedFlow) -> dict[Key, Value | None]:
    """Return the entries to write, and to remove (None), so that the topic matches `kept`."""
    is_switched = kept.state is Desired.STOPPED and kept.stop is StopKind.SWITCHOVER
    wanted: dict[Key, Value | None] = {
        DESIRED: DesiredState(
            state=kept.state.value,
            paused_topics=kept.paused_topics,
            moved_topics=kept.moved_topics,
            at_ms=kept.at_ms,
            stop=_STORED[kept.stop] if kept.state is Desired.STOPPED else msgspec.UNSET,
            switched=True if is_switched else msgspec.UNSET,
        )
    }
    wanted |= {set_key(set_id): value for set_id, value in kept.sets.items()}
    wanted |= {quarantine_key(set_id): value for set_id, value in kept.quarantine.items()}
    gone = {
        key: None for key, value in stored.items() if isinstance(value, SetState | Quarantine) and key not in wanted
    }
    return {key: value for key, value in wanted.items() if stored.get(key) != value} | gone
