"""How long the brokers that lead our lanes remember producers: each is asked for its own value, and again now and then.

A broker takes a producer's age from its records. Whoever may have forgotten ours must not get a batch of unknown
outcome again (`Pieces.may_double`), so a broker that has not answered yet, or may not be asked, counts as one that
forgets at once: an unknown outcome then costs a barrier, never a record that is there twice.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from engine.clock import backoff_s, pause, wall_ms
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import Cluster
from policies.model import TopicPartition

FORGETS_ALL_MS = 2**62
"""A time that no record has: whatever their timestamps are, the broker may have forgotten their producer."""
_MARGIN_S = 60.0
"""Between the decision to send again and the broker that gets it: queues, back-offs, clocks that differ."""
_AGAIN_S = 300.0
"""The value may be changed while a broker runs (KIP-854)."""


class ProducerExpiry:
    """Tells the lanes which of their records their target's leader takes for so old that it forgets the producer."""

    def __init__(self, target: Cluster, drivers: dict[TopicPartition, LaneDriver]) -> None:
        self._target = target
        self._drivers = drivers
        self._after_s: dict[int, float] = {}
        self._missed = asyncio.Event()

    def mark(self, drivers: Iterable[LaneDriver]) -> None:
        """Set `forgets_before_ms` of some lanes by what is known of their leaders now; without one it stays."""
        now_ms = wall_ms()
        for driver in drivers:
            node = driver.target_leader.node
            if node < 0:
                continue
            if node not in self._after_s:
                self._missed.set()
            driver.lane.forgets_before_ms = _before_ms(now_ms, self._after_s.get(node, 0.0))

    async def keep(self) -> None:
        """Ask every broker, and again where one leads that has not answered; until cancelled."""
        attempt = 0
        while True:
            self._missed.clear()
            self._after_s.update(await self._target.producer_expiries_s())
            self.mark(self._drivers.values())
            attempt = attempt + 1 if self._missed.is_set() else 0
            if attempt:
                await pause(backoff_s(attempt))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await self._missed.wait()


def _before_ms(now_ms: int, after_s: float) -> int:
    """Return the timestamp below which a record is too old; half of the time is kept as a margin, a minute at least."""
    left_s = min(after_s / 2, after_s - _MARGIN_S)
    return now_ms - int(left_s * 1000) if left_s > 0 else FORGETS_ALL_MS
