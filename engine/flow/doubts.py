"""Whether a target's new leader still has what the old one acknowledged; until that is known, lanes append nothing.

A leader that lost records (unclean election, a disk gone) may have lost what it knew of our producer with them: it
would take the next batch behind the hole. So a lane whose leader, or connection, is not the one that its answers came
from asks where the log ends. An end below what was acknowledged makes it acquire anew, which rewinds.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from engine.clock import backoff_s, pause
from engine.core.states import State
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.lane_driver import LaneDriver
from engine.flow.ports import LATEST, Cluster, Leader

_OWNED = (State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED)
_PATIENCE_S = 1.0
_ANSWER_S = 3.0
"""How long an answer is waited for at first; a leader that needs longer is given longer each time."""


class Doubts:
    """Asks for many lanes at once; `kick` lets a lane go on, `lost` says at which offset its log ends instead."""

    def __init__(
        self,
        target: Cluster,
        spawn: Callable[..., None],
        kick: Callable[[list[LaneDriver]], None],
        lost: Callable[[LaneDriver, int], None],
    ) -> None:
        self._target = target
        self._spawn = spawn
        self._kick = kick
        self._lost = lost
        self._asking: dict[LaneDriver, Leader] = {}
        """Who is being asked about a lane."""

    def doubt(self, driver: LaneDriver) -> None:
        """The connection to the lane's target leader is gone: who will lead next, and with what?"""
        driver.doubted = driver.lane.state in _OWNED

    def settle(self, drivers: Sequence[LaneDriver]) -> None:
        """The leaders were looked up: ask those that are new."""
        new: dict[LaneDriver, Leader] = {}
        for driver in drivers:
            leader = driver.target_leader
            if driver.lane.state not in _OWNED or leader.node < 0:
                continue
            if leader == driver.believed and (leader.epoch >= 0 or not driver.doubted):
                self._trust(driver)
                continue
            driver.doubted = True
            if self._asking.get(driver) != leader:
                new[driver] = self._asking[driver] = leader
        self._ask_each(new, 1)

    def _ask_each(self, asked: Mapping[LaneDriver, Leader], attempt: int) -> None:
        """Ask every leader on its own: a silent one holds back only what it leads."""
        led: defaultdict[int, dict[LaneDriver, Leader]] = defaultdict(dict)
        for driver, leader in asked.items():
            led[leader.node][driver] = leader
        for lanes in led.values():
            self._spawn(self._ask(lanes, attempt))

    def _trust(self, driver: LaneDriver) -> None:
        driver.believed = driver.target_leader
        if driver.doubted:
            driver.doubted = False
            self._kick([driver])

    async def _ask(self, lanes: Mapping[LaneDriver, Leader], attempt: int) -> None:
        asked = {driver: leader for driver, leader in lanes.items() if self._is_open(driver, leader)}
        if not asked:
            return
        try:
            async with asyncio.timeout(_ANSWER_S * attempt):
                ends = await self._target.offsets([driver.name.target for driver in asked], LATEST)
        except (TimeoutError, ConnectionLost, BrokerUnreachable, KafkaRefusal):
            await self._ask_again(asked, attempt)
            return
        for driver, leader in asked.items():
            if not self._is_open(driver, leader):
                continue
            self._asking.pop(driver, None)
            end = ends[driver.name.target]
            if end < driver.lane.target_next:
                self._lost(driver, end)
            else:
                self._trust(driver)

    def _is_open(self, driver: LaneDriver, leader: Leader) -> bool:
        """Whether it is still this leader that matters; else another is being asked, or the lane is acquired anew."""
        if driver.doubted and driver.lane.state in _OWNED and driver.target_leader == leader:
            return True
        if self._asking.get(driver) == leader:
            del self._asking[driver]
        return False

    async def _ask_again(self, asked: Mapping[LaneDriver, Leader], attempt: int) -> None:
        """Ask in two halves, so that one partition that cannot be asked about holds no other."""
        await pause(backoff_s(attempt, most_s=_PATIENCE_S))
        rows, middle = list(asked.items()), (len(asked) + 1) // 2
        self._ask_each(dict(rows[:middle]), attempt + 1)
        self._ask_each(dict(rows[middle:]), attempt + 1)
