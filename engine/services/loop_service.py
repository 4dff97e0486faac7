"""Runs the sync loop of one flow over its own connections, while this mirror owns the flow."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from engine.base.clock import backoff_s, pause
from engine.base.errors import MirrorError
from engine.core.events.events import AnyEvent
from engine.kafka.client.cluster import ClusterClient

_MOST_S, _LOOK_S = 30.0, 0.25
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class SyncLoop(Protocol[R_co]):
    """A loop of rounds; `idle`: there is nothing to do; `trouble` takes the reason why no round ran."""

    may_write: Callable[[], bool]

    @property
    def idle(self) -> bool: ...
    @property
    def report(self) -> R_co: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    def trouble(self, what: str) -> None: ...
    async def run(self) -> None: ...


class LoopService(Generic[R]):
    """The sync loop of a flow as a service: `run` first connects and prepares, and retries that until it succeeds."""

    def __init__(self, rounds: SyncLoop[R], clients: Sequence[ClusterClient]) -> None:
        self._kept = rounds
        self._clients = clients

    @property
    def may_write(self) -> Callable[[], bool]:
        """Whether this mirror owns the flow; the Metadata actor sets it."""
        return self._kept.may_write

    @may_write.setter
    def may_write(self, ask: Callable[[], bool]) -> None:
        self._kept.may_write = ask

    @property
    def report(self) -> R:
        """The report of the last round."""
        return self._kept.report

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        return self._kept.take_events()

    async def run(self) -> None:
        """Run rounds until cancelled; return at once if there is nothing to do."""
        if self._kept.idle:
            return
        attempt = 0
        while not await self._ready():
            attempt += 1
            await pause(backoff_s(attempt, most_s=_MOST_S))
        await self._kept.run()

    async def _ready(self) -> bool:
        """Connect and prepare; if that fails, report it as trouble and return False."""
        while not self.may_write():
            await pause(_LOOK_S)
        try:
            for client in self._clients:
                await client.open()
            await self._prepare()
        except (MirrorError, OSError, TimeoutError) as failure:
            self._kept.trouble(str(failure))
            return False
        return True

    async def _prepare(self) -> None:
        """Do what the first round needs; a subclass may override this."""

    async def close(self) -> None:
        """Disconnect."""
        for client in self._clients:
            await client.close()
