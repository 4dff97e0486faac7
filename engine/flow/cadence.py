"""What a copier does now and then: positions flushed, ids kept alive, old records and eaten copies noticed."""

from collections.abc import Callable

from engine.clock import now_s, pause
from engine.core.outcome import UNAUTHORIZED
from engine.core.states import State
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.gate import Gate
from engine.flow.halves import offsets_by_leaders
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import EARLIEST, Cluster
from engine.flow.remedies import Remedies
from engine.flow.routes import Routes, Spawn
from engine.flow.terms import FlowTerms
from policies.model import TopicPartition

_TICK_S = 0.2
_CALM_TICK_S = 1.0
"""While nothing is copied: each pass wakes a process that has nothing else to do."""
_SHUT_TICK_S = 0.02
"""A lease is renewed by another thread, which wakes nobody here."""
_OWNERLESS = (State.ACQUIRING, State.WATCHING, State.STOPPED, State.FAILED)


class Cadence:
    """The tick loop of one copier; `beat` grows with every pass."""

    def __init__(
        self,
        terms: FlowTerms,
        target: Cluster,
        drivers: dict[TopicPartition, LaneDriver],
        routes: Routes,
        remedies: Remedies,
        gate: Gate,
        spawn: Spawn,
        no_syncs: Callable[[], bool],
    ) -> None:
        self.beat = 0
        self._terms = terms
        self._target = target
        self._drivers = drivers
        self._routes = routes
        self._remedies = remedies
        self._gate = gate
        self._spawn = spawn
        self._no_syncs = no_syncs
        self._keep_alive_s = terms.keep_alive_s
        self._look_s = min(terms.flush_s, terms.untold_s)
        self._looking = False
        self._copied_bytes = 0

    def tick(self) -> None:
        """Show that the loop goes round."""
        self.beat += 1

    def producers_expire(self, after_s: float) -> None:
        """The target forgets idle transactional ids and producers after so many seconds: keep alive well before."""
        self._keep_alive_s = min(self._terms.keep_alive_s, after_s / 4)

    async def run(self) -> None:
        """Tick until cancelled."""
        flushed_at = looked_at = now_s()
        while True:
            await pause(self._tick_s())
            self.tick()
            now = now_s()
            self._gate.notice()
            self._routes.expiry.mark(self._drivers.values())
            flush, look = now - flushed_at >= self._terms.flush_s, now - looked_at >= self._look_s
            flushed_at = now if flush else flushed_at
            self._flush(everything=flush, untold=look)
            if look:
                looked_at = now
                self._spawn(self._look_for_eaten())
                self._routes.close_unused()
            self._keep_all_alive(now)

    def _tick_s(self) -> float:
        """Return the time to the next pass, which comes no later than the end of the lease."""
        if not self._gate.is_open:
            return _SHUT_TICK_S
        copied_bytes = sum(driver.lane.wire_bytes for driver in self._drivers.values())
        calm = copied_bytes == self._copied_bytes
        self._copied_bytes = copied_bytes
        tick_s = min(_CALM_TICK_S, max(_TICK_S, self._look_s)) if calm else _TICK_S
        return max(_SHUT_TICK_S, min(tick_s, self._gate.lease_until_s - now_s()))

    def _flush(self, *, everything: bool, untold: bool) -> None:
        all_untold = untold and self._no_syncs()
        dirty = [
            driver
            for driver in self._drivers.values()
            if everything or all_untold or self._much_copied(driver) or (untold and self._copied_nothing(driver))
        ]
        for driver in dirty:
            driver.positions.flush_asked = True
            driver.flushed_bytes = driver.lane.wire_bytes
        self._routes.kick(dirty)

    def _much_copied(self, driver: LaneDriver) -> bool:
        return driver.lane.wire_bytes - driver.flushed_bytes >= self._terms.flush_bytes

    def _copied_nothing(self, driver: LaneDriver) -> bool:
        """Whether the map has no record that an offset sync could name: all that came was skipped."""
        return driver.lane.map is not None and not driver.lane.map.pending

    async def _look_for_eaten(self) -> None:
        """Compare the target's log starts with the positions, once per lane until it recovers."""
        if self._looking:
            return  # the last look still waits for a broker
        self._looking = True
        try:
            drivers = [d for d in self._drivers.values() if d.lane.state is State.COPYING and d.lane.records]
            led = {driver.name.target: driver.target_leader for driver in drivers}
            starts = await offsets_by_leaders(self._target, led, EARLIEST)
        finally:
            self._looking = False
        for driver in drivers:
            start = starts.get(driver.name.target)
            if start is None:
                continue  # asked again at the next look
            eaten = start >= driver.lane.target_next
            if eaten and not driver.eaten_told:
                self._remedies.eaten(driver, start)
            driver.eaten_told = eaten

    def _keep_all_alive(self, now: float) -> None:
        for driver in self._drivers.values():
            if driver.producer is not None and now - driver.kept_alive_at >= self._keep_alive_s and self._gate.is_open:
                driver.kept_alive_at = now
                self._spawn(self._keep_alive(driver))

    async def _keep_alive(self, driver: LaneDriver) -> None:
        """Repeat the empty transaction, so that the transactional id, and with it the fence, does not expire."""
        producer = driver.producer
        if producer is None or not producer.fenced or driver.lane.state in _OWNERLESS:
            return
        if not self._gate.is_open or driver.doubted:  # a marker would take the place of records that may be lost
            driver.kept_alive_at = 0.0
            return
        if driver.transaction is not None:  # an empty one would roll back what is open
            driver.transaction.refresh()
            self._routes.kick([driver])
            return
        partitions = driver.kept_alive_partitions
        transactional_id = self._terms.transactional_id(*driver.name.source)
        try:
            await self._target.keep_alive(transactional_id, producer, partitions)
        except (ConnectionLost, BrokerUnreachable):
            driver.kept_alive_at = 0.0  # again at the next tick
        except KafkaRefusal as refusal:
            if driver.producer is not producer or driver.lane.state in _OWNERLESS:
                return
            if refusal.code not in UNAUTHORIZED:
                self._remedies.reacquire(driver, str(refusal), fenced=True)
            else:  # nobody has taken the lane, and another acquisition would be refused the same
                self._remedies.denials.keep_alive_denied(driver, refusal)
                driver.kept_alive_at = now_s() - self._keep_alive_s + self._terms.refused_retry_s
        else:
            self._remedies.denials.kept_alive(driver)
