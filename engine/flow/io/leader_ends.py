"""Verifies that a target's new leader still holds every acknowledged record; until then its lanes append nothing.

A leader that lost records (unclean election, lost disk) may have lost its state of the lane's producer too. It would
accept the next batch behind the hole. So when the leader or the connection of a lane is not the one that acknowledged
its batches, the lane asks where the log ends. If the end is below the acknowledged offset, the lane is acquired again,
which rewinds it.

Others may have filled such a log up to that offset: late requests of an earlier owner, or another writer. So the lane
also asks where the leader epoch of its last append ends (OffsetsForLeaderEpoch): of one epoch there is one log
(KIP-101). Unless that is at the acknowledged offset or behind it, the batch before that offset is read: it is what
this owner left there, or the lane is acquired again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.base.clock import backoff_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone, WireError
from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.core.lane.states import State
from engine.core.position.right_before import ends_as_left
from engine.core.position.target_tail import TailBatch, last_before
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import LeaderEvents
from engine.flow.ports.ports import LATEST, EpochEnd, Leader
from policies.model import TopicPartition

_OWNED = (State.COPYING, State.TROUBLED, State.WAITING, State.SETTLING, State.REFUSED)
_PATIENCE_S = 1.0
_ANSWER_S = 3.0
"""Timeout of the first question; a leader that needs longer gets more time at each attempt."""
_READ_AT_ONCE = 16
"""Lanes whose last batches are read from one leader at once: an answer has up to a megabyte, which is in no budget."""


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
        self._reads: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By leader: a silent one delays no read of others."""

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
        places = {driver: driver.lane.target_next for driver in asked}
        try:
            async with asyncio.timeout(_ANSWER_S * attempt):
                lost, unsure = await self._ends(places, asked)
        except (TimeoutError, ConnectionLost, BrokerUnreachable, KafkaRefusal):
            await self._ask_again(asked, attempt)
            return
        moved = self._decide({driver: leader for driver, leader in asked.items() if driver not in unsure}, places, lost)
        for some in parts(list(unsure.items()), _READ_AT_ONCE):
            async with self._reads[some[0][1].node]:
                moved |= await self._read(dict(some), places, attempt)
        if moved:
            await self._ask_again(moved, attempt)

    def _decide(
        self, asked: Mapping[LaneDriver, Leader], places: Mapping[LaneDriver, int], lost: Mapping[LaneDriver, str]
    ) -> dict[LaneDriver, Leader]:
        """Trust the leaders of some lanes, and report those that lost records; return the lanes to ask about again."""
        moved: dict[LaneDriver, Leader] = {}
        for driver, leader in asked.items():
            if not self._is_open(driver, leader):
                continue
            if driver.lane.target_next != places[driver]:
                moved[driver] = leader  # acknowledged meanwhile, perhaps by the leader before
                continue
            self._asking.pop(driver, None)
            if driver in lost:
                self._events.cut_off(driver, lost[driver])
            else:
                self._trust(driver)
        return moved

    async def _ends(
        self, places: Mapping[LaneDriver, int], asked: Mapping[LaneDriver, Leader]
    ) -> tuple[dict[LaneDriver, str], dict[LaneDriver, Leader]]:
        """Return the lanes whose leaders lack acknowledged records, with what shows it, and those whose may lack some.

        `places`: the offset after the last acknowledged record. Raises as `Cluster` does.
        """
        targets = {driver.name.target: driver for driver in asked}
        known = {target: driver.leaders.epoch_at(places[driver]) for target, driver in targets.items()}
        epochs = {target: epoch for target, epoch in known.items() if epoch >= 0}
        ends: dict[TopicPartition, int] = {}
        held: dict[TopicPartition, EpochEnd] = {}

        async def ask_ends() -> None:
            ends.update(await self._target.offsets(list(targets), LATEST))

        async def ask_epochs() -> None:
            led = {target: asked[targets[target]] for target in epochs}
            held.update(await self._target.epoch_ends(epochs, led) if epochs else {})

        await run_all(ask_ends(), ask_epochs())
        lost: dict[LaneDriver, str] = {}
        unsure: dict[LaneDriver, Leader] = {}
        for target, driver in targets.items():
            end, target_next = ends[target], places[driver]
            if end < target_next:
                lost[driver] = f"the target ends at {end}, below the acknowledged end {target_next}: it lost records"
            elif target not in held or held[target].epoch != epochs[target] or held[target].end < target_next:
                unsure[driver] = asked[driver]
        return lost, unsure

    async def _read(
        self, asked: Mapping[LaneDriver, Leader], places: Mapping[LaneDriver, int], attempt: int
    ) -> dict[LaneDriver, Leader]:
        """Decide about some lanes by their last batches; return the lanes to ask about again."""
        lost: dict[LaneDriver, str] = {}
        asked = {driver: leader for driver, leader in asked.items() if self._is_open(driver, leader)}
        try:
            async with asyncio.timeout(_ANSWER_S * attempt):
                await run_all(*(self._look_at_last(driver, lost) for driver in asked))
        except (TimeoutError, ConnectionLost, BrokerUnreachable, KafkaRefusal):
            return dict(asked)
        return self._decide(asked, places, lost)

    async def _look_at_last(self, driver: LaneDriver, lost: dict[LaneDriver, str]) -> None:
        """Read the batch before a lane's position, and note it if it is not what this owner left there."""
        position = driver.lane.position
        last = position.target_next - 1
        if last < 0:
            return
        try:
            batches = await self._target.read_headers(driver.name.target, last, last + 1)
        except OffsetGone:
            return  # deleted, as old records are
        except WireError as error:
            lost[driver] = f"the target's batch at offset {last} cannot be read: {error}"
            return
        if not ends_as_left(position, batches) or _is_of_earlier_leader(driver, batches):
            lost[driver] = (
                f"the target has other records up to the acknowledged end {position.target_next}: it lost ours"
            )

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


def _is_of_earlier_leader(driver: LaneDriver, batches: Sequence[TailBatch]) -> bool:
    """Whether the last batch is of an earlier leader than the one that acknowledged it: another log may have the same.

    Or an append was acknowledged again that an earlier leader had appended: then the next owner finds all in its place.
    """
    position = driver.lane.position
    last = last_before(position, batches)
    return last is not None and 0 <= last.leader_epoch < driver.leaders.epoch_at(position.target_next)
