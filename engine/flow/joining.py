"""How lanes join a copier: acquired together, in halves where that fails, so that a bad lane ends up alone."""

import asyncio
from collections.abc import Callable, Sequence

from engine.clock import backoff_s, pause
from engine.core.events import AnyEvent, LaneRefused
from engine.core.states import State
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.acquisition import Acquisition
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import Cluster
from engine.flow.remedies import Remedies
from engine.flow.routes import Routes, Spawn
from engine.flow.terms import FlowTerms
from policies.model import TopicPartition

_DEFAULT_BATCH_BYTES = 1_048_588
"""Kafka's default of max.message.bytes, where the target does not let us ask."""


class Joining:
    """Brings lanes without an owner through the acquisition, however often that takes."""

    def __init__(
        self,
        terms: FlowTerms,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        acquisition: Acquisition,
        routes: Routes,
        remedies: Remedies,
        spawn: Spawn,
        tell: Callable[[AnyEvent], None],
        owned: Callable[[Sequence[LaneDriver]], None],
    ) -> None:
        self._terms = terms
        self._target = target
        self._drivers = drivers
        self._acquisition = acquisition
        self._routes = routes
        self._remedies = remedies
        self._spawn = spawn
        self._tell = tell
        self._owned = owned
        self._joined = asyncio.Event()

    def look(self) -> None:
        """Some lane may have no owner."""
        self._joined.set()

    async def run(self) -> None:
        """Acquire what joins, until cancelled."""
        while True:
            await self._joined.wait()
            self._joined.clear()
            joined = [d for d in self._drivers.values() if d.lane.state is State.ACQUIRING and not d.acquiring]
            for driver in joined:
                driver.acquiring = True
            if joined:
                self._spawn(self._acquire(joined, 1))

    async def _acquire(self, drivers: list[LaneDriver], attempt: int) -> None:
        """Acquire lanes together; when that fails, in two halves, so that one bad lane never holds the others."""
        left = self._still_to_acquire(drivers)
        if not left:
            return
        try:
            await self._routes.refresh(left)
            await self._learn_limits(left)
            await self._acquisition.acquire(left, self._tell)
        except (ConnectionLost, BrokerUnreachable) as error:
            await self._try_again(left, attempt, str(error))
        except KafkaRefusal as refusal:
            if len(left) > 1:
                await self._try_again(left, attempt, str(refusal))
            else:
                event = LaneRefused(flow=self._terms.flow, lane=left[0].name.source, what=str(refusal))
                self._remedies.fail(left[0], event)
                left[0].acquiring = False
        else:
            for driver in self._still_to_acquire(left):
                driver.acquiring = False  # owned, and lost again meanwhile
                self._joined.set()

    def _still_to_acquire(self, drivers: Sequence[LaneDriver]) -> list[LaneDriver]:
        """Return the lanes that have no owner yet; the others, whatever became of them, are out of the acquisition."""
        done = [d for d in drivers if d.lane.state is not State.ACQUIRING or self._drivers.get(d.name.source) is not d]
        for driver in done:
            driver.acquiring = False
        self._owned(done)
        return [d for d in drivers if d.acquiring]

    async def _try_again(self, drivers: list[LaneDriver], attempt: int, reason: str) -> None:
        drivers = self._still_to_acquire(drivers)
        for driver in drivers:
            driver.reason = reason
        await pause(backoff_s(attempt))
        middle = (len(drivers) + 1) // 2
        for half in (drivers[:middle], drivers[middle:]):
            if half:
                self._spawn(self._acquire(half, attempt + 1))

    async def _learn_limits(self, drivers: Sequence[LaneDriver]) -> None:
        topics = sorted({driver.name.target.topic for driver in drivers})
        try:
            configs = await self._target.topic_configs(topics, ["max.message.bytes"])
        except KafkaRefusal:
            configs = {}
        for driver in drivers:
            value = configs.get(driver.name.target.topic, {}).get("max.message.bytes")
            driver.max_batch_bytes = int(value) if value else _DEFAULT_BATCH_BYTES
