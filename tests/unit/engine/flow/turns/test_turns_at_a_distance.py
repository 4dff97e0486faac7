"""Two lanes of one limit, whose broker is far: one is read in ranges and asks at once, the other once a round trip."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from engine.flow.io.buffers import BufferPool
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import FetchEvents
from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch
from engine.flow.turns.fetch_turns import FetchTurns
from policies.traffic import TrafficRules, parse_bandwidth, parse_priorities
from tests.unit.engine.flow.turns.test_fetch_turns import MIB, lane_of

MINUTE_S = 60.0


class Far:
    """A broker, its inbox, and a reader of ranges. `idle`: the inbox also reads a lane that has no limit."""

    is_stale = False

    def __init__(self, round_trip_s: float, *, idle: bool) -> None:
        self.round_trip_s, self.turns_of_few, self.bytes_of_many = round_trip_s, 0, 0
        memory = BufferPool(64 * MIB)
        self.turns = FetchTurns(memory, lambda _driver: True, self.wake)
        self.turns.limit(TrafficRules(parse_bandwidth(["bulk.*@10000000"]), parse_priorities([])))
        self.many, self.few, free = lane_of("bulk.many"), lane_of("bulk.few"), lane_of("free")
        self.lanes = [self.few, free] if idle else [self.few]
        for one in self.lanes:
            one.lane.on_position_durable(one.lane.plan_version)
        self.inbox = Inbox(self, cast("FetchEvents", self), memory, FetchOptions(), InboxLimits(512 * 1024))
        self._soon = False

    def wake(self) -> None:
        self.inbox.wake()
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self.ask_in_ranges)

    def ask_in_ranges(self) -> None:
        self._soon = False
        while not self.turns.holds_back(self.many):
            self.turns.reserve(self.many, 2 * MIB)
            self.bytes_of_many += 2 * MIB

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, _room: object) -> FetchAnswer:
        found = any(want.partition == self.few.name.source for want in wanted)
        self.turns_of_few += found
        await asyncio.sleep(self.round_trip_s + (0.0 if found else options.max_wait_s))
        if found:
            self.turns.received(self.few, 512 * 1024)
        return FetchAnswer(memoryview(b""), [], 0.0)

    async def close(self) -> None:
        """Nothing is open."""

    async def connect(self) -> "Far":
        return self

    connect_beside = connect

    async def back_off(self, attempt: int) -> None:
        raise AssertionError(f"the fetch failed {attempt} times")

    def served(self) -> list[LaneDriver]:
        return self.lanes

    def may_fetch(self, _driver: LaneDriver) -> bool:
        return True

    may_hold = may_fetch

    def lost(self) -> None:
        """Never."""

    def silent(self) -> None:
        """Never."""

    def taken(self, _drivers: object) -> None:
        """Nothing to do."""

    def idle(self, _driver: LaneDriver, _found: object) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("round_trip_s", [0.03, 0.1, 0.2])
async def test_a_lane_that_asks_once_a_round_trip_has_turns_beside_one_that_asks_at_once(
    round_trip_s: float, idle: bool
) -> None:
    far = Far(round_trip_s, idle=idle)
    task = asyncio.create_task(far.inbox.run())
    far.ask_in_ranges()
    await asyncio.sleep(MINUTE_S)
    task.cancel()
    assert far.turns_of_few > MINUTE_S
    assert far.bytes_of_many + far.turns_of_few * 512 * 1024 > 9_000_000 * MINUTE_S, "nothing of the rate is lost"
