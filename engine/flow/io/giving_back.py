"""Frees receive buffers when memory is short: lanes that cannot send give theirs back, and fetch again when they can.

A lane may wait for the leader of its partition, for a position (whose partition many lanes share), for the coordinator
of its transaction, or for a broker that does not answer. The batches it has fetched stay in receive buffers. Enough
such lanes would hold all buffers, and lanes that could send would not be fetched any more. So while a fetch waits for
memory, and some lane could be fetched and sent, lanes that make no progress give back:

- batches that were never sent are dropped, and fetched again later;
- of the batches that were sent, the first five must be kept as they are: they are copied out of the receive buffers,
  which other lanes share. The bytes of the later ones are given up: if they fail, the lane is acquired again, because
  a leader remembers only five.

A batch that is fetched again needs a position again. A lane whose positions take longer than its patience would never
send, so its patience doubles each time that it gives back.

While there is enough memory nothing is given back, so a lane sends at once when its obstacle ends.
"""

from collections.abc import Mapping
from typing import Protocol

from engine.base.clock import now_s, pause
from engine.core.lane.states import State
from engine.flow.io.buffers import BufferPool
from engine.flow.lane.lane_driver import LaneDriver
from policies.model import TopicPartition

_TICK_S = 0.2
STILL_S = 0.8
"""A lane makes no progress if no batch was sent or acknowledged for this many seconds; a healthy lane needs less."""
MOST_STILL_S = 30.0
"""The longest patience, in seconds, of a lane that gave back several times: as long as a request's timeout."""
_FORGIVEN_S = 120.0
"""After this many seconds without giving back a lane starts at `STILL_S` again. Longer than request plus patience."""
_SENDING = (State.COPYING, State.TROUBLED)
"""States in which a lane may hold a receive buffer."""

_Mark = tuple[int, int]


class MemoryUsers(Protocol):
    """The holder of lanes' receive buffers (`BrokerRouter`)."""

    def can_send(self, driver: LaneDriver) -> bool:
        """Whether no known obstacle keeps the lane's batches from being sent."""

    def wake(self, driver: LaneDriver) -> None:
        """The lane may be fetched, or has dropped what was fetched."""

    def copy_out(self, after_s: float) -> None:
        """Take batches that target brokers have not answered for `after_s` seconds out of receive buffers."""


class GivingBack:
    """Watches the lanes of one copier while memory is short."""

    def __init__(self, pool: BufferPool, drivers: Mapping[TopicPartition, LaneDriver], users: MemoryUsers) -> None:
        self._pool = pool
        self._drivers = drivers
        self._users = users
        self._held: dict[LaneDriver, None] = {}
        self._marks: dict[LaneDriver, tuple[_Mark, float]] = {}
        self._patience: dict[LaneDriver, tuple[float, float]] = {}
        """Seconds without progress after which a lane gives back again, and the instant when it last gave back."""

    async def run(self) -> None:
        """Check every 0.2 s while memory is short or some lane is held, until cancelled."""
        while True:
            if not self._held and not self._pool.is_short:
                self._marks.clear()
                self._pool.short.clear()
                await self._pool.short.wait()
            await pause(_TICK_S)
            self.check(now_s())

    def holds(self, driver: LaneDriver) -> bool:
        """Whether the lane gave back its buffers and still cannot send; such a lane is not fetched."""
        if driver not in self._held:
            return False
        if self._users.can_send(driver):
            del self._held[driver]
            return False
        return True

    def forget(self, driver: LaneDriver) -> None:
        """Forget a lane that has ended."""
        self._held.pop(driver, None)
        self._marks.pop(driver, None)
        self._patience.pop(driver, None)

    def check(self, now: float) -> None:
        """Release lanes that can send again; if memory is short, make lanes without progress give back buffers."""
        for driver in list(self._held):
            if not self.holds(driver):
                self._users.wake(driver)
        if not self._pool.is_short:
            return self._marks.clear()  # a mark from before does not cover the time since
        still = self._stand_still(now)
        if not still or not any(self._could_use_it(driver) for driver in self._drivers.values()):
            return None
        for driver in still:
            driver.lane.rewind()
            self._marks.pop(driver, None)
            self._held[driver] = None
            self._patience[driver] = min(2 * self._patience_of(driver, now), MOST_STILL_S), now
            self._users.wake(driver)  # ranges that have arrived hold memory too, and only their reader drops them
        return self._users.copy_out(STILL_S)

    def _patience_of(self, driver: LaneDriver, now: float) -> float:
        """Return after how many seconds without progress the lane gives back."""
        patience, gave_back_at = self._patience.get(driver, (STILL_S, now))
        return patience if now - gave_back_at < _FORGIVEN_S else STILL_S

    def _stand_still(self, now: float) -> list[LaneDriver]:
        """Return the lanes that hold memory, have not moved for a while, and cannot send."""
        before, self._marks = self._marks, {}
        still: list[LaneDriver] = []
        for driver in self._drivers.values():
            lane = driver.lane
            if lane.idle or lane.state not in _SENDING:
                continue
            in_flight = lane.pieces.in_flight
            mark = lane.source_next, in_flight[-1].sequence if in_flight else -1
            known = before.get(driver)
            since = known[1] if known is not None and known[0] == mark else now
            self._marks[driver] = mark, since
            stands = now - since >= self._patience_of(driver, now)
            if stands and driver not in self._held and not self._users.can_send(driver):
                still.append(driver)
        return still

    def _could_use_it(self, driver: LaneDriver) -> bool:
        return driver not in self._held and driver.lane.wants_fetch and self._users.can_send(driver)
