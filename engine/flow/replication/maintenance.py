"""Does the periodic work of a copier: positions, keep-alives, expiry of producers, copies that retention deleted."""

from itertools import islice
from math import ceil, inf

from engine.base.clock import Turns, beat_s, now_s, pause
from engine.base.collecting import QuietCollector
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts
from engine.core.lane.outcome import UNAUTHORIZED
from engine.core.lane.states import State
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ports.ports import EARLIEST
from engine.flow.replication.syncs import SyncWriter
from policies.model import TopicPartition

_TICK_S = 0.2
_CALM_TICK_S = 1.0
"""Tick while nothing is copied, in seconds: each pass wakes an otherwise idle process."""
_CALM_BYTES = 1024
"""Bytes copied between two passes up to which a copier counts as calm: a heartbeat a second is no load."""
_SHUT_TICK_S = 0.02
"""Tick without a lease, in seconds: another thread renews the lease, and does not wake this loop."""
_REST_OF_LOOKS = 3
"""After a look at all lanes, how many times as long as it took none begins, unless a lease ends: tens of thousands take
longer than a tick."""
_LOOKED_AT_ONCE = 50
"""Lanes looked at before other tasks of the loop may run."""
_ASKED_AT_ONCE = 100
"""Partitions in one request for log starts: encoding and decoding a thousand takes the loop 5 ms."""
_LEAST_FLUSHED = 5
"""Positions that a pass asks for at least: one takes the loop 20 us to encode, and more to send and to settle."""
_OWNERLESS = (State.ACQUIRING, State.WATCHING, State.STOPPED, State.FAILED)


class MaintenanceLoop:
    """The tick loop of one copier; `beat` grows with every pass, and with every part of a long one."""

    def __init__(
        self, context: CopierContext, router: BrokerRouter, failures: FailureHandler, syncs: SyncWriter | None
    ) -> None:
        self.beat = 0
        self._options = options = context.options
        self._target = context.target
        self._drivers = context.drivers
        self._lease_guard = context.lease_guard
        self._spawn = context.tasks.spawn
        self._router = router
        self._failures = failures
        self._syncs = syncs
        self._keep_alive_s = options.keep_alive_s
        self._look_s = min(options.flush_s, options.unsynced_s)
        self._looking = False
        self._copied_bytes = 0
        self._look_took_s = 0.0
        self._quiet = False
        """Whether nothing was copied between the last two passes."""
        self._to_flush: dict[LaneDriver, None] = {}
        self._collector = QuietCollector()

    def tick(self) -> None:
        """Show that the loop is alive."""
        self.beat += 1

    def producers_expire(self, after_s: float) -> None:
        """Keep ids alive well before `after_s` seconds, after which the target forgets idle ids and producers."""
        self._keep_alive_s = min(self._options.keep_alive_s, after_s / 4)

    async def run(self) -> None:
        """Tick until cancelled."""
        flushed_at = looked_at = epochs_at = now_s()
        while True:
            tick_s = self._tick_s()
            await pause(tick_s)
            self.tick()
            now = now_s()
            self._lease_guard.notice()
            flush, look = now - flushed_at >= self._options.flush_s, now - looked_at >= self._look_s
            flushed_at = now if flush else flushed_at
            if flush or (look and self._is_unsynced):
                self._to_flush |= dict.fromkeys(self._drivers.values())
            epochs = now - epochs_at >= self._options.epoch_s
            epochs_at = now if epochs else epochs_at
            await self._look_at_lanes(now, unsynced=look, epochs=epochs)
            self._look_took_s = now_s() - now
            self._flush_some(tick_s)
            if look:
                looked_at = now
                self._spawn(self._look_for_retention())
                self._router.close_unused()
            self._collector.notice(is_quiet=self._quiet)

    def _tick_s(self) -> float:
        """Return the seconds to the next pass, which comes no later than the end of the lease."""
        if not self._lease_guard.is_open:
            return _SHUT_TICK_S
        copied_bytes = sum(driver.lane.wire_bytes for driver in self._drivers.values())
        grown_bytes, self._copied_bytes = copied_bytes - self._copied_bytes, copied_bytes
        self._quiet = grown_bytes == 0
        is_calm = abs(grown_bytes) <= _CALM_BYTES and self._look_s >= _CALM_TICK_S
        tick_s = max(beat_s(_CALM_TICK_S) if is_calm else _TICK_S, _REST_OF_LOOKS * self._look_took_s)
        return max(_SHUT_TICK_S, min(tick_s, self._lease_guard.lease_until_s - now_s()))

    @property
    def _is_unsynced(self) -> bool:
        """Whether no offset sync shows the progress of the lanes."""
        return self._syncs is None or bool(self._syncs.trouble)

    async def _look_at_lanes(self, now: float, *, unsynced: bool, epochs: bool) -> None:
        """Do what every lane needs in each pass, in parts: other tasks of the loop run between them.

        `epochs`: look for lanes that owe a leader epoch. Their positions are spread as those at an interval are, so
        that many lanes that begin at once hold up no records.
        """
        turns = Turns()
        for number, drivers in enumerate(parts(list(self._drivers.values()), _LOOKED_AT_ONCE)):
            if number:  # on a busy machine a pass over very many lanes takes longer than a beat may
                self.tick()
            self._router.expiry.mark(drivers)
            if epochs:
                self._to_flush |= dict.fromkeys(one for one in drivers if one.positions.owes_epoch)
            self._flush([one for one in drivers if self._much_copied(one) or (unsynced and self._copied_nothing(one))])
            self._keep_alive_if_due(drivers, now)
            await turns.rest()

    def _flush_some(self, tick_s: float) -> None:
        """Ask for the next of the positions that are due at an interval: all of them within half of the interval.

        Not all at once: the positions of a thousand lanes would hold up the records behind them.
        """
        left_of = min(1.0, 2 * tick_s / min(self._options.flush_s, self._look_s if self._is_unsynced else inf))
        count = max(_LEAST_FLUSHED, ceil(left_of * len(self._drivers)))
        drivers = list(islice(self._to_flush, count))
        for driver in drivers:
            del self._to_flush[driver]
        self._flush(drivers)

    def _flush(self, drivers: list[LaneDriver]) -> None:
        for driver in drivers:
            driver.positions.flush_asked = True
            driver.upkeep.flushed(driver.lane.wire_bytes)
        self._router.schedule_send(drivers)

    def _much_copied(self, driver: LaneDriver) -> bool:
        return driver.lane.wire_bytes - driver.upkeep.flushed_bytes >= self._options.flush_bytes

    def _copied_nothing(self, driver: LaneDriver) -> bool:
        """Whether the map has no record that an offset sync could name: all fetched records were skipped."""
        return driver.lane.map is not None and not driver.lane.map.pending

    async def _look_for_retention(self) -> None:
        """Compare the target's log starts with the positions, once per lane until it recovers."""
        if self._looking:
            return  # the last check still waits for a broker
        self._looking = True
        try:
            drivers = [d for d in self._drivers.values() if d.lane.state is State.COPYING and d.lane.records]
            led = {driver.name.target: driver.leaders.target for driver in drivers}
            starts: dict[TopicPartition, int] = {}
            for some in parts(list(led.items()), _ASKED_AT_ONCE):
                starts |= await offsets_by_leaders(self._target, dict(some), EARLIEST)
        finally:
            self._looking = False
        for driver in drivers:
            start = starts.get(driver.name.target)
            if start is None:
                continue  # asked again at the next check
            if driver.health.pass_retention(passed=start >= driver.lane.target_next):
                self._failures.retention_passed(driver, start)

    def _keep_alive_if_due(self, drivers: list[LaneDriver], now: float) -> None:
        for driver in drivers:
            if (
                driver.producer is not None
                and now - driver.upkeep.kept_alive_at_s >= self._keep_alive_s
                and self._lease_guard.is_open
            ):
                driver.upkeep.kept_alive(now)
                self._spawn(self._keep_alive(driver))

    async def _keep_alive(self, driver: LaneDriver) -> None:
        """Repeat the empty transaction, so that the transactional id, and with it the fence, does not expire."""
        producer = driver.producer
        if producer is None or not producer.fenced or driver.lane.state in _OWNERLESS:
            return
        if not self._lease_guard.is_open or driver.leaders.doubted:  # a marker could take the offset of a lost record
            driver.upkeep.kept_alive(0.0)
            return
        if driver.transaction is not None:  # an empty transaction would roll back the open one
            driver.transaction.refresh()
            self._router.schedule_send([driver])
            return
        partitions = driver.kept_alive_partitions
        transactional_id = self._options.transactional_id(*driver.name.source)
        try:
            await self._target.keep_alive(transactional_id, producer, partitions)
        except (ConnectionLost, BrokerUnreachable):
            driver.upkeep.kept_alive(0.0)  # again at the next tick
        except KafkaRefusal as refusal:
            if driver.producer is not producer or driver.lane.state in _OWNERLESS:
                return
            if refusal.code not in UNAUTHORIZED:
                self._failures.reacquire(driver, str(refusal), fenced=True)
            else:  # no other copier has taken the lane, and a new acquisition would be refused for the same reason
                self._failures.denials.keep_alive_denied(driver, refusal)
                driver.upkeep.kept_alive(now_s() - self._keep_alive_s + self._options.refused_retry_s)
        else:
            self._failures.denials.kept_alive(driver)
