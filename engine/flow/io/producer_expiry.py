"""Reads how long each target broker remembers producers (`producer.id.expiration.ms`), at first and every 300 s.

A broker takes a producer's age from its records. A broker that may have forgotten the lane's producer must not get a
batch of unknown outcome again (`BatchQueue.may_double`). So a broker that has not answered yet, or may not be asked,
counts as one that forgets at once: an unknown outcome then costs a barrier, and never a duplicate record.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from engine.base.clock import backoff_s, pause, wall_ms
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition

FORGETS_ALL_MS = 2**62
"""A timestamp above that of every record: the broker may have forgotten the producer of each of them."""
_MARGIN_S = 60.0
"""Time between the decision to send again and the broker's receipt: queues, back-offs, clocks that differ."""
_AGAIN_S = 300.0
"""The value may be changed while a broker runs (KIP-854)."""


class ProducerExpiry:
    """Marks for each lane the records that are so old that the target's leader may forget their producer."""

    def __init__(self, target: Cluster, drivers: dict[TopicPartition, LaneDriver]) -> None:
        self._target = target
        self._drivers = drivers
        self._after_s: dict[int, float] = {}
        self._missed = asyncio.Event()

    def mark(self, drivers: Iterable[LaneDriver]) -> None:
        """Set `forgets_before_ms` of some lanes by their present leaders; a lane without a leader keeps its value."""
        now_ms = wall_ms()
        for driver in drivers:
            node = driver.leaders.target.node
            if node < 0:
                continue
            if node not in self._after_s:
                self._missed.set()
            driver.lane.forgets_before_ms = _before_ms(now_ms, self._after_s.get(node, 0.0))

    async def keep(self) -> None:
        """Ask every broker, and ask again while a leader has not answered; until cancelled."""
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
    """Return the timestamp below which a record is too old; the margin is half of the time, at least 60 s."""
    left_s = min(after_s / 2, after_s - _MARGIN_S)
    return now_ms - int(left_s * 1000) if left_s > 0 else FORGETS_ALL_MS
