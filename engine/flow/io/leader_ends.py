"""Verifies that a target's new leader still holds every acknowledged record; until then its lanes append nothing.

A leader that lost records (unclean election, lost disk) may have lost its state of the lane's producer too. It would
accept the next batch behind the hole. So when the leader or the connection of a lane is not the one that acknowledged
its batches, the lane asks where the log ends, and whether it has the leader epoch of the lane's last append: without
it, other records are at those offsets, and the end says nothing (KIP-101: of one epoch there is one log). If the end is
below the acknowledged offset, or the epoch is missing, the lane is acquired again, which rewinds it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.core.lane.states import State
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import LeaderEvents
from engine.flow.ports.ports import LATEST, EpochEnd, Leader
from policies.model import TopicPartition

_OWNED = (State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED)
_PATIENCE_S = 1.0
_ANSWER_S = 3.0
"""Timeout of the first question; a leader that needs longer gets more time at each attempt."""
_EPOCH_ATTEMPTS = 3
"""Attempts until a leader that says where its log ends, and nothing of epochs, counts as one that knows none."""


class Senders(Protocol):
    """The sender of lanes' batches (`BrokerRouter`)."""

    def schedule_send(self, drivers: Iterable[LaneDriver]) -> None:
        """These lanes may have something to send."""


class LeaderEndVerifier:
    """Verifies the target leaders of lanes, many lanes in one request."""

    def __init__(self, context: CopierContext, senders: Senders, events: LeaderEvents) -> None:
        self._target = context.target
        self._spawn = context.tasks.spawn
        self._senders = senders
        self._events = events
        self._asking: dict[LaneDriver, Leader] = {}
        """The leader that is being asked about a lane."""

    def doubt(self, driver: LaneDriver) -> None:
        """Note that the connection to the lane's target leader is lost: the next leader must be verified."""
        driver.leaders.doubt(is_owned=driver.lane.state in _OWNED)

    def verify(self, drivers: Sequence[LaneDriver]) -> None:
        """Ask the new leaders of some lanes, whose leaders were just looked up."""
        new: dict[LaneDriver, Leader] = {}
        for driver in drivers:
            leader = driver.leaders.target
            if driver.lane.state not in _OWNED or leader.node < 0:
                continue
            if driver.leaders.target_is_verified:
                self._trust(driver)
                continue
            driver.leaders.doubt()
            if self._asking.get(driver) != leader:
                new[driver] = self._asking[driver] = leader
        self._ask_each(new, 1)

    def _ask_each(self, asked: Mapping[LaneDriver, Leader], attempt: int) -> None:
        """Ask every leader separately: a silent leader delays only its own partitions."""
        led: defaultdict[int, dict[LaneDriver, Leader]] = defaultdict(dict)
        for driver, leader in asked.items():
            led[leader.node][driver] = leader
        for lanes in led.values():
            self._spawn(self._ask(lanes, attempt))

    def _trust(self, driver: LaneDriver) -> None:
        if driver.leaders.trust(driver.lane.target_next):
            self._senders.schedule_send([driver])

    async def _ask(self, lanes: Mapping[LaneDriver, Leader], attempt: int) -> None:
        asked = {driver: leader for driver, leader in lanes.items() if self._is_open(driver, leader)}
        if not asked:
            return
        epochs = {driver.name.target: _epoch(driver) for driver in asked if _epoch(driver) >= 0}
        try:
            async with asyncio.timeout(_ANSWER_S * attempt):
                ends, held = await self._ends(asked, epochs)
        except (TimeoutError, ConnectionLost, BrokerUnreachable, KafkaRefusal):
            await self._ask_again(asked, attempt)
            return
        unsaid: dict[LaneDriver, Leader] = {}
        for driver, leader in asked.items():
            if not self._is_open(driver, leader):
                continue
            target, epoch = driver.name.target, _epoch(driver)
            is_missing = epoch >= 0 and target not in held and attempt < _EPOCH_ATTEMPTS
            if is_missing or epoch != epochs.get(target, -1):  # the latter: acknowledged meanwhile
                unsaid[driver] = leader
                continue
            self._asking.pop(driver, None)
            lost = _lost(driver, ends[target], held.get(target))
            if lost:
                self._events.cut_off(driver, lost)
            else:
                self._trust(driver)
        if unsaid:
            await self._ask_again(unsaid, attempt)

    async def _ends(
        self, drivers: Iterable[LaneDriver], epochs: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, EpochEnd]]:
        """Return where logs end, and the newest leader epoch of each that is not above the given one."""
        targets = [driver.name.target for driver in drivers]
        ends: dict[TopicPartition, int] = {}
        held: dict[TopicPartition, EpochEnd] = {}

        async def ask_ends() -> None:
            ends.update(await self._target.offsets(targets, LATEST))

        async def ask_epochs() -> None:
            held.update(await self._target.epoch_ends(epochs) if epochs else {})

        await run_all(ask_ends(), ask_epochs())
        return ends, held

    def _is_open(self, driver: LaneDriver, leader: Leader) -> bool:
        """Whether this leader's answer still matters; else another is being asked, or the lane is acquired again."""
        if driver.leaders.doubted and driver.lane.state in _OWNED and driver.leaders.target == leader:
            return True
        if self._asking.get(driver) == leader:
            del self._asking[driver]
        return False

    async def _ask_again(self, asked: Mapping[LaneDriver, Leader], attempt: int) -> None:
        """Ask again in two halves, so that a partition that cannot be asked about delays no other."""
        await pause(backoff_s(attempt, most_s=_PATIENCE_S))
        rows, middle = list(asked.items()), (len(asked) + 1) // 2
        self._ask_each(dict(rows[:middle]), attempt + 1)
        self._ask_each(dict(rows[middle:]), attempt + 1)


def _epoch(driver: LaneDriver) -> int:
    """Return the leader epoch of a lane's last append; -1: not known."""
    return driver.leaders.epoch_at(driver.lane.target_next)


def _lost(driver: LaneDriver, end: int, held: EpochEnd | None) -> str:
    """Return what shows that a target lacks acknowledged records; empty if nothing does."""
    epoch, target_next = _epoch(driver), driver.lane.target_next
    if end < target_next:
        return f"the target ends at {end}, below the acknowledged end {target_next}: it lost records"
    if held is not None and held.epoch < epoch:
        return (
            f"the target's log has nothing of leader epoch {epoch}, which acknowledged records up to offset"
            f" {target_next}: it lost them, and has others there"
        )
    return ""
