"""What is remembered of one flow: the state topic opened, kept ours, read once, written when something is wanted.

    opening --ours--> open --lease lost--> taken
       |  ^             |
       |  +--trouble----+
       +--held by another--> taken          refused --> nothing is remembered, and that is said

`taken` is for the supervisor to act on: another mirror has the flow, or a later version has written what this one
cannot read, and this one must end. A refusal (no right to make or write the topic) is borne: copying does not need it.
It is asked for again, since nobody else sees that the flow is copied until the topic says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from actors.ports import Kept
from actors.states import Desired
from engine.clock import now_s, wall_ms
from engine.core.events import Event
from engine.errors import FlowHeld, KafkaRefusal, MirrorError, NewerFormat, StateTaken, StateUnreadable
from engine.state import DESIRED, DesiredState, Key, Quarantine, SetState, Value, quarantine_key, set_key

RETRY_S = 2.0
REFUSED_S = 60.0
"""Between two tries where the topic is refused: somebody may give us the right."""
CLOSE_S = 3.0


class StateKeeperLike(Protocol):
    """What is needed of `engine.state_keeper.StateKeeper`."""

    awaited: str
    trouble: str

    @property
    def unrenewed_s(self) -> float: ...
    async def open(self) -> None: ...
    def load(self) -> Mapping[Key, Value]: ...
    async def put(self, entries: Mapping[Key, Value | None]) -> None: ...
    async def run(self) -> None: ...
    async def close(self, *, release: bool = True, within_s: float = 5.0) -> None: ...


class EventKeeperLike(Protocol):
    """What is needed of `engine.event_keeper.EventKeeper`."""

    def append(self, events: Iterable[Event]) -> None: ...
    async def run(self) -> None: ...
    async def flush(self) -> None: ...


class Memory:
    """The memory of one flow."""

    def __init__(self, make: Callable[[], StateKeeperLike]) -> None:
        self._make = make
        self._keeper: StateKeeperLike | None = None
        self._open: StateKeeperLike | None = None
        self._refused_ms = 0
        """Since when nothing may be remembered (Unix time); 0: it may."""
        self._trouble = ""
        self._sure_at_s = now_s()
        self.kept: Kept | None = None
        """What is wanted, as far as it is known: None before the topic was read."""
        self.taken = ""
        """Who else has the flow, where somebody does."""

    @property
    def holds(self) -> bool:
        """Whether the flow is ours, as far as that can be known: open, or nobody may remember who has it."""
        return (self._open is not None or bool(self._refused_ms)) and not self.taken

    @property
    def unrenewed_s(self) -> float:
        """For how many seconds nobody could tell whether the flow is still ours; 0 where none may remember it."""
        if self._refused_ms:
            return 0.0
        return now_s() - self._sure_at_s if self._open is None else self._open.unrenewed_s

    @property
    def awaited(self) -> str:
        """What the flow waits for before it is ours; empty where it waits for nothing."""
        return self._keeper.awaited if self._keeper is not None else ""

    @property
    def trouble(self) -> str:
        """Why nothing can be remembered now; empty when all is well."""
        return self._trouble or (self._keeper.trouble if self._keeper is not None else "")

    async def run(self) -> None:
        """Take the flow and keep it, until cancelled; returns when another mirror has it."""
        while not self.taken:
            keeper = self._keeper = self._make()
            try:
                await self._hold(keeper)
            except (FlowHeld, StateTaken, NewerFormat, StateUnreadable) as taken:
                self.taken = str(taken)
            except KafkaRefusal as refusal:
                self._refused_ms, self.kept = self._refused_ms or wall_ms(), self.kept or Kept()
                self._trouble = f"what is wanted is not remembered: {refusal}"
                await asyncio.sleep(REFUSED_S)
            except (MirrorError, OSError, TimeoutError) as trouble:
                self._trouble = str(trouble)
                await asyncio.sleep(RETRY_S)
            finally:
                if self._open is not None:
                    self._sure_at_s = now_s() - self._open.unrenewed_s
                self._open = self._keeper = None
                await keeper.close(release=False)

    async def _hold(self, keeper: StateKeeperLike) -> None:
        await keeper.open()
        self._trouble = ""
        if self.kept is None:
            self.kept = _kept(keeper.load())
        elif self._refused_ms:
            self.taken = _stopped_since(keeper.load(), self._refused_ms)
            if self.taken:
                return
            await keeper.put(_changes(keeper.load(), self.kept))
        self._refused_ms = 0
        self._open = keeper
        await keeper.run()

    async def keep(self, kept: Kept) -> None:
        """Remember what is wanted; returns when it is durable, or cannot be. Raises MirrorError."""
        self.kept = kept
        if self._open is not None:
            await self._open.put(_changes(self._open.load(), kept))
        elif not self._refused_ms and not self.taken:
            raise NotOpen(self._trouble or "the state topic is being opened")

    async def close(self) -> None:
        """Give the flow back."""
        if self._open is not None:
            await self._open.close(release=True, within_s=CLOSE_S)


class NotOpen(MirrorError):
    """What is wanted cannot be written yet."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"not written yet: {self.why}"


def _stopped_since(entries: Mapping[Key, Value], since_ms: int) -> str:
    """Say who has stopped the flow since an instant, by what the topic holds; empty where nobody has."""
    wanted = entries.get(DESIRED)
    if not isinstance(wanted, DesiredState) or wanted.state != Desired.STOPPED.value or wanted.at_ms <= since_ms:
        return ""
    return f"the flow was stopped by {wanted.who or 'another mirror'} while this one could not see it"


def _kept(entries: Mapping[Key, Value]) -> Kept:
    wanted = entries.get(DESIRED)
    said = wanted if isinstance(wanted, DesiredState) else DesiredState(state=Desired.RUNNING.value)
    return Kept(
        state=Desired(said.state),
        paused_topics=said.paused_topics,
        at_ms=said.at_ms,
        sets={key.subject: value for key, value in entries.items() if isinstance(value, SetState)},
        quarantine={key.subject: value for key, value in entries.items() if isinstance(value, Quarantine)},
    )


def _changes(stored: Mapping[Key, Value], kept: Kept) -> dict[Key, Value | None]:
    """Say what is to be written, and what to be removed, so that the topic has what is kept."""
    wanted: dict[Key, Value | None] = {
        DESIRED: DesiredState(state=kept.state.value, paused_topics=kept.paused_topics, at_ms=kept.at_ms)
    }
    wanted |= {set_key(set_id): value for set_id, value in kept.sets.items()}
    wanted |= {quarantine_key(set_id): value for set_id, value in kept.quarantine.items()}
    gone = {
        key: None for key, value in stored.items() if isinstance(value, SetState | Quarantine) and key not in wanted
    }
    return {key: value for key, value in wanted.items() if stored.get(key) != value} | gone
