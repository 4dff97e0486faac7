"""Schedules the acquisition of lanes: many together, in halves after a failure, until the lane in trouble is alone.

look -> _acquire: leaders, limits, what the leaders remember    many lanes; in halves if that fails
          |                                                     lanes with nothing to copy watch, until woken
          -> _fence: one barrier each                           a slow one delays no other lane
               -> _behind: wave by wave, positions and tails    owned, or failed with an event
"""

import asyncio
from collections.abc import Mapping, Sequence

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, WireError
from engine.base.tasks import run_all
from engine.core.lane.batch_limit import DEFAULT_BYTES, SIZE_CONFIGS, most_bytes
from engine.core.lane.states import State
from engine.flow.context.copier_context import CopierContext
from engine.flow.io.router import BrokerRouter
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ownership.acquisition import Acquisition
from engine.flow.ownership.failure_handler import FailureHandler
from engine.flow.ownership.position_recovery import FencedLane, PreFenceState
from engine.flow.ports.ports import FENCED
from policies.model import TopicPartition

_WAVE_S = 0.15
"""Seconds that lanes wait after their barrier for the other lanes that are fenced with them."""
_WAVE_OF_READS, _LONGEST_WAVE_S = 3, 5.0
"""They wait so many times as long as the last wave needed, within a bound: each wave reads the positions of all lanes,
those of tens of thousands take seconds, and a wave that begins before the last one is done makes both slower."""
_PATIENCE_S = 5.0
_FEW = 32
"""Up to this many lanes are owned at once, needed or not: to find out which of them could wait takes as long."""
_REST_OF_LOOKS = 10
"""After a look at all lanes, how many times as long as it took none begins."""

_Failure = ConnectionLost | BrokerUnreachable | KafkaRefusal | WireError


class _FencedTogether:
    """Lanes fenced together: those on their way to the barrier (`left`), and those behind it."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.fenced: dict[LaneDriver, FencedLane] = {}
        self.done = asyncio.Event()

    def through(self) -> None:
        """Count one lane that has passed its barrier, or will not."""
        self.left -= 1
        if not self.left:
            self.done.set()


class AcquisitionScheduler:
    """Takes lanes without an owner through the acquisition, and again until each has an owner or stops."""

    def __init__(
        self, context: CopierContext, acquisition: Acquisition, router: BrokerRouter, failures: FailureHandler
    ) -> None:
        self._options = context.options
        self._target = context.target
        self._drivers = context.drivers
        self._ownerless = context.ownerless
        self._spawn = context.tasks.spawn
        self._acquisition = acquisition
        self._router = router
        self._failures = failures
        self._wave_s = _WAVE_S

    async def run(self) -> None:
        """Acquire the lanes that join, until cancelled."""
        while True:
            await self._ownerless.wait()
            self._ownerless.clear()
            now = now_s()
            joined = [d for d in self._drivers.values() if d.lane.state is State.ACQUIRING and not d.attempts.under_way]
            due = [driver for driver in joined if driver.attempts.is_due(now)]
            for driver in due:
                driver.attempts.start()
            if due:
                self._spawn(self._acquire(due, 1))
            later_s = [d.attempts.join_at_s for d in joined if d.attempts.join_at_s > now]
            if later_s:
                self._spawn(self._look_in(min(later_s) - now))
            # Thousands of sets that join one after the other would each make it look at all lanes.
            await pause(_REST_OF_LOOKS * (now_s() - now))

    async def _look_in(self, after_s: float) -> None:
        await pause(after_s)
        self._ownerless.set()

    # --- stages ----------------------------------------------------------------------------------------------

    async def _acquire(self, drivers: Sequence[LaneDriver], attempt: int) -> None:
        left = self._still_to_acquire(drivers)
        if not left:
            return
        try:
            await self._router.leaders.refresh(left)
            left = await self._within_reach(left, attempt)
            fresh = [driver for driver in left if driver.producer is None and not driver.attempts.woken]
            if len(fresh) > _FEW:
                await self._acquisition.rest(fresh)
                left = self._still_to_acquire(left)
            before = await self._look_before(left, attempt)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal, WireError) as error:
            await self._failed(left, attempt, error)
            return
        # A lane that was released during these reads is not fenced: the fence would hit the lane's next owner.
        left = self._still_to_acquire(left)
        batch = _FencedTogether(len(left))
        for driver in left:
            self._spawn(self._fence(driver, before[driver.name.source], batch, attempt))
        while batch.left or batch.fenced:
            try:
                async with asyncio.timeout(self._wave_s):
                    await batch.done.wait()
            except TimeoutError:
                pass
            wave, batch.fenced = batch.fenced, {}
            if wave:
                self._spawn(self._behind(wave, attempt))

    async def _within_reach(self, drivers: Sequence[LaneDriver], attempt: int) -> list[LaneDriver]:
        """Split off the lanes whose leaders cannot be reached: the others would wait for them, and fail with them.

        At the first attempt lanes with slow leaders are split off too; later they get the time they need.
        """
        far = await self._router.beyond_reach(drivers, hurry=attempt == 1)
        if far:
            self._spawn(self._try_again(list(far), attempt, far))
        return self._still_to_acquire([driver for driver in drivers if driver not in far])

    async def _look_before(self, drivers: Sequence[LaneDriver], attempt: int) -> dict[TopicPartition, PreFenceState]:
        before: dict[TopicPartition, PreFenceState] = {}

        async def look() -> None:
            before.update(await self._acquisition.before(drivers, suspicious=attempt > 1))

        if drivers:
            await run_all(self._learn_limits(drivers), look())
        return before

    async def _fence(self, driver: LaneDriver, before: PreFenceState, batch: _FencedTogether, attempt: int) -> None:
        try:
            batch.fenced[driver] = await self._acquisition.fence(driver, before)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal, WireError) as error:
            self._spawn(self._failed([driver], attempt, error))
        finally:
            batch.through()

    async def _behind(self, wave: Mapping[LaneDriver, FencedLane], attempt: int, *, waited: bool = False) -> None:
        left = self._still_to_acquire(list(wave))
        if not left:
            return
        began_s = now_s()
        try:
            late = await self._acquisition.behind({d: wave[d] for d in left}, waited=waited)
        except (ConnectionLost, BrokerUnreachable, KafkaRefusal, WireError) as error:
            await self._failed(left, attempt, error)
            return
        self._wave_s = max(_WAVE_S, min(_LONGEST_WAVE_S, _WAVE_OF_READS * (now_s() - began_s)))
        for driver in self._still_to_acquire(left):
            if driver not in late:
                driver.attempts.end()  # owned, and lost again since
                self._ownerless.set()
        if late:
            await pause(self._left_to_wait_s(list(late)))
            await self._behind(late, attempt, waited=True)

    def _left_to_wait_s(self, late: Sequence[LaneDriver]) -> float:
        """Return the seconds until no request of a previous owner can arrive any more.

        Previous owners had lost their leases when this copier got the lanes, so their last requests are older still.
        """
        return max(0.0, max(driver.attempts.given_at_s for driver in late) + self._options.takeover_wait_s - now_s())

    def _still_to_acquire(self, drivers: Sequence[LaneDriver]) -> list[LaneDriver]:
        """Return the lanes that have no owner yet; take the others, whatever their state is, out of the acquisition."""
        done = [d for d in drivers if d.lane.state is not State.ACQUIRING or self._drivers.get(d.name.source) is not d]
        for driver in done:
            driver.attempts.end()
        self._begin(done)
        return [d for d in drivers if d.attempts.under_way]

    def _begin(self, drivers: Sequence[LaneDriver]) -> None:
        """Let lanes that have an owner, or need none, copy."""
        self._router.expiry.mark(drivers)
        self._router.leaders.look_up(driver for driver in drivers if driver.leaders.doubted)
        for driver in drivers:
            driver.upkeep.begin(now_s(), driver.lane.wire_bytes)
            if driver.lane.state in (State.COPYING, State.WATCHING):
                self._failures.denials.allowed(driver)
                self._failures.denials.kept_alive(driver)
        self._router.schedule_send(drivers)
        self._router.wake_inboxes()

    # --- trouble ---------------------------------------------------------------------------------------------

    async def _failed(self, drivers: Sequence[LaneDriver], attempt: int, error: _Failure) -> None:
        """Try again the lanes that are still without an owner.

        A refusal to a single lane is final, unless it is for a missing right, which may be granted again.
        """
        left = self._still_to_acquire(drivers)
        refused = isinstance(error, KafkaRefusal) and len(left) == 1
        if refused and isinstance(error, KafkaRefusal) and error.code in FENCED:
            left[0].attempts.end()
            self._failures.lose_again(left[0], str(error), fenced=True)
        elif refused and isinstance(error, KafkaRefusal) and not self._failures.denials.refused(left[0], error):
            left[0].attempts.end()
        elif left:
            reason = left[0].health.reason if refused else str(error)
            await self._try_again(left, attempt, dict.fromkeys(left, reason))

    async def _try_again(self, drivers: Sequence[LaneDriver], attempt: int, reasons: Mapping[LaneDriver, str]) -> None:
        for driver in drivers:
            driver.health.explain(reasons[driver])
        await pause(backoff_s(attempt, most_s=_PATIENCE_S))
        for part in await self._parts(drivers):
            if part:
                self._spawn(self._acquire(part, attempt + 1))

    async def _parts(self, drivers: Sequence[LaneDriver]) -> tuple[Sequence[LaneDriver], ...]:
        """Split lanes that failed together: those with unreachable leaders from the rest, else into two halves.

        Lanes that all wait for a broker stay together: none of them makes the others fail.
        """
        try:
            await self._router.leaders.refresh(drivers)
            far = await self._router.beyond_reach(drivers)
        except (ConnectionLost, BrokerUnreachable):
            far = {}
        for driver, reason in far.items():
            driver.health.explain(reason)
        if far:
            return [driver for driver in drivers if driver not in far], list(far)
        middle = (len(drivers) + 1) // 2
        return drivers[:middle], drivers[middle:]

    async def _learn_limits(self, drivers: Sequence[LaneDriver]) -> None:
        topics = sorted({driver.name.target.topic for driver in drivers})
        try:
            configs = await self._target.topic_configs(topics, SIZE_CONFIGS)
        except KafkaRefusal:
            configs = {}
        for driver in drivers:
            driver.limit.learn(most_bytes(configs.get(driver.name.target.topic, {})) or DEFAULT_BYTES)
