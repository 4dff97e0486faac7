"""What is kept in step for one flow in rounds of its own, over connections of its own, while the flow is ours."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from engine.clock import backoff_s, pause
from engine.core.events import AnyEvent
from engine.errors import MirrorError
from engine.kafka.cluster import ClusterClient

_MOST_S, _LOOK_S = 30.0, 0.25
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Rounds(Protocol[R_co]):
    """What is kept: `idle` where nothing is asked for; `trouble` tells why no round was made."""

    may_write: Callable[[], bool]

    @property
    def idle(self) -> bool: ...
    @property
    def report(self) -> R_co: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    def trouble(self, what: str) -> None: ...
    async def run(self) -> None: ...


class Keeper(Generic[R]):
    """Rounds of a flow: `run` connects and prepares first, and tries that again until it can."""

    def __init__(self, rounds: Rounds[R], clients: Sequence[ClusterClient]) -> None:
        self._kept = rounds
        self._clients = clients

    @property
    def may_write(self) -> Callable[[], bool]:
        """Whether the flow is ours; whoever knows may set it."""
        return self._kept.may_write

    @may_write.setter
    def may_write(self, ask: Callable[[], bool]) -> None:
        self._kept.may_write = ask

    @property
    def report(self) -> R:
        """What the last round found, or did."""
        return self._kept.report

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Hand over what happened since the last call."""
        return self._kept.take_events()

    async def run(self) -> None:
        """Make rounds until cancelled; returns at once where nothing is asked for."""
        if self._kept.idle:
            return
        attempt = 0
        while not await self._ready():
            attempt += 1
            await pause(backoff_s(attempt, most_s=_MOST_S))
        await self._kept.run()

    async def _ready(self) -> bool:
        """Connect and prepare; False, and told as trouble, where that fails."""
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
        """Do what the first round needs."""

    async def close(self) -> None:
        """Disconnect."""
        for client in self._clients:
            await client.close()
