"""FetchTurns: who is held back, why, and when all are woken again. In virtual time."""

import asyncio

import pytest
import uvloop

from engine.base.clock import now_s
from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import Limits
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionStream
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.turns import fetch_turns
from engine.flow.turns.fetch_turns import FetchTurns
from policies.model import FlowName, LaneName, TopicPartition
from policies.traffic import TrafficRules, parse_bandwidth, parse_priorities
from tests.fakes.lane_events import NoEvents
from tests.unit.engine.core.positions import position

FLOW = FlowName("A", "B")
MIB = 1024 * 1024


def lane_of(topic: str) -> LaneDriver:
    name = LaneName(TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0))
    lane = Lane(FLOW, name, Limits())
    stream = PositionStream(lane, PositionKeys("A").encode(name.source), lambda: 0)
    driver = LaneDriver(lane, LaneOwnership("s", 1), LaneStreams(stream, TopicPartition("p", 0)), 0, NoEvents())
    lane.own(position(0, 0), barrier_done=True)
    return driver


class Room:
    """A copier's memory."""

    budget_bytes = 64 * MIB
    used_bytes = 0


class Desk:
    """The turns of a copier; a lane in `stuck` cannot send."""

    def __init__(self, bandwidth: list[str], priorities: list[str]) -> None:
        self.room, self.woken_s, self.stuck = Room(), list[float](), set[LaneDriver]()
        self.turns = FetchTurns(
            self.room, lambda driver: driver not in self.stuck, lambda: self.woken_s.append(now_s())
        )
        self.limit(bandwidth, priorities)

    def limit(self, bandwidth: list[str], priorities: list[str]) -> bool:
        return self.turns.limit(TrafficRules(parse_bandwidth(bandwidth), parse_priorities(priorities)))


async def test_without_rules_nobody_is_held_back() -> None:
    desk, lane = Desk([], []), lane_of("t")
    desk.turns.received(lane, 1000 * MIB, 10**9)
    assert not desk.turns.holds_back(lane)
    assert desk.turns.why_held(lane) == ""
    assert desk.turns.most_bytes(lane, 512) == 512
    assert desk.turns.due_s() == float("inf")
    assert desk.turns.use() == {}


async def test_a_limit_holds_back_its_topics_until_all_are_woken() -> None:
    desk, logs, other = Desk(["logs@1000000"], []), lane_of("logs"), lane_of("x")
    began_s = now_s()
    assert not desk.turns.holds_back(logs)
    desk.turns.received(logs, 2_000_000)
    assert desk.turns.holds_back(logs)
    assert not desk.turns.holds_back(other)
    assert "topics logs may have 1,000,000 bytes per second" in desk.turns.why_held(logs)
    assert desk.turns.due_s() == pytest.approx(2.0, abs=0.1)
    await asyncio.sleep(3)
    assert desk.woken_s == [pytest.approx(began_s + 2.0, abs=0.1)]
    assert not desk.turns.holds_back(logs)


@pytest.mark.local
def test_a_wait_of_less_than_a_millisecond_has_a_due_time_on_the_loop_of_a_copier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop answers a timer of less than half a millisecond with a handle that knows no time."""
    at_s = now_s()  # the limit stands still: on a busy machine the wait is over before the second question
    monkeypatch.setattr(fetch_turns, "now_s", lambda: at_s)

    async def hold_back() -> tuple[float, float]:
        woken, logs = asyncio.Event(), lane_of("logs")
        turns = FetchTurns(Room(), lambda _: True, woken.set)
        turns.limit(TrafficRules(parse_bandwidth(["logs@100000000"]), parse_priorities([])))
        turns.received(logs, 20_000)  # 0.2 ms of the limit
        assert turns.holds_back(logs)
        due_s = turns.due_s()
        assert turns.holds_back(logs)
        await woken.wait()
        return due_s, turns.due_s()

    due_s, behind_s = uvloop.run(hold_back())
    assert 0.0 <= due_s < 0.001
    assert behind_s == float("inf")


async def test_the_limit_of_the_flow_holds_for_all_topics_together() -> None:
    desk, one, other = Desk(["1000000"], []), lane_of("a"), lane_of("b")
    desk.turns.received(one, 3_000_000)
    assert desk.turns.holds_back(other)
    assert "the whole flow" in desk.turns.why_held(other)


async def test_a_fetch_asks_for_no_more_than_may_come() -> None:
    desk, lane = Desk(["1000000"], []), lane_of("t")
    assert desk.turns.most_bytes(lane, 512 * 1024) == pytest.approx(50_000, rel=1e-3)
    await asyncio.sleep(10)
    assert desk.turns.most_bytes(lane, 512 * 1024) == 512 * 1024


async def test_what_was_asked_for_counts_before_it_arrives_and_only_once() -> None:
    desk, lane = Desk(["1000000"], []), lane_of("t")
    desk.turns.reserve(lane, 3_000_000)
    assert desk.turns.holds_back(lane)
    desk.turns.received(lane, 40_000, reserved=3_000_000)
    await asyncio.sleep(0.05)
    assert not desk.turns.holds_back(lane)


async def test_use_says_the_rate_and_whether_the_limit_binds() -> None:
    desk, lane = Desk(["1000000"], []), lane_of("t")
    desk.turns.use()
    await asyncio.sleep(1)
    desk.turns.received(lane, 900_000)
    assert desk.turns.use()[""].bytes_per_s == pytest.approx(450_000, rel=1e-3)
    assert not desk.turns.use()[""].held
    desk.turns.received(lane, 900_000)
    desk.turns.holds_back(lane)
    assert desk.turns.use()[""].held
    await asyncio.sleep(5)
    assert not desk.turns.use()[""].held


async def test_other_limits_hold_at_once() -> None:
    desk, lane = Desk(["1000000"], []), lane_of("t")
    desk.turns.received(lane, 10_000_000)
    assert not desk.limit([], []), "classes have not changed"
    assert not desk.turns.holds_back(lane)
    desk.limit(["1000000"], [])
    assert not desk.turns.holds_back(lane), "a limit that was gone has no debt"
    assert desk.limit([], ["t@low"]), "classes have changed"


def backlog() -> tuple[Desk, LaneDriver, LaneDriver]:
    """A hot lane with a backlog, and a cold lane whose credit is used up."""
    desk, hot, cold = Desk([], ["hot@high"]), lane_of("hot"), lane_of("cold")
    desk.turns.received(hot, 0, 1000)
    assert not desk.turns.holds_back(cold), "the first second"
    desk.turns.received(cold, MIB, 1000)
    return desk, hot, cold


async def test_a_colder_class_waits_while_a_hotter_one_has_a_backlog() -> None:
    desk, hot, cold = backlog()
    assert desk.turns.holds_back(cold)
    assert "raymirror.priority (class normal): a hotter class has a backlog" in desk.turns.why_held(cold)
    assert not desk.turns.holds_back(hot)
    await asyncio.sleep(0.2)
    assert desk.woken_s, "it is looked at again soon"
    desk.turns.received(hot, 0, 0)
    assert not desk.turns.holds_back(cold), "the hot lane has caught up"


async def test_a_colder_class_gets_its_part() -> None:
    desk, hot, cold = backlog()
    desk.turns.received(hot, 17 * MIB, 1000)
    assert not desk.turns.holds_back(cold)


@pytest.mark.parametrize("why", ["stuck", "paused", "silent"])
async def test_a_backlog_that_cannot_move_holds_nobody_back(why: str) -> None:
    desk, hot, cold = backlog()
    assert desk.turns.holds_back(cold)
    if why == "stuck":
        desk.stuck.add(hot)
    elif why == "paused":
        hot.lane.paused = True
    await asyncio.sleep(6 if why == "silent" else 0.01)
    assert not desk.turns.holds_back(cold)


async def test_the_last_memory_is_for_hotter_classes() -> None:
    desk, hot, cold = Desk([], ["hot@high"]), lane_of("hot"), lane_of("cold")
    desk.room.used_bytes = 49 * MIB
    assert not desk.turns.holds_back(cold), "no hotter lane is in this copier"
    desk.turns.received(hot, 0, 0)
    assert desk.turns.holds_back(cold)
    assert "last quarter of the copier's memory" in desk.turns.why_held(cold)
    assert not desk.turns.holds_back(hot)
    desk.turns.forget(hot)
    assert not desk.turns.holds_back(cold)


async def test_a_lane_that_asks_first_does_not_use_up_the_limit_of_all() -> None:
    desk = Desk(["logs@1000000"], [])
    first, second = lane_of("logs"), lane_of("logs")
    turns = {first: 0, second: 0}
    for _ in range(200):
        for lane in (first, second):  # always in this order
            if not desk.turns.holds_back(lane):
                desk.turns.reserve(lane, 1_000_000)
                turns[lane] += 1
        await asyncio.sleep(0.1)
    assert sum(turns.values()) in (19, 20, 21), "the rate is used"
    assert abs(turns[first] - turns[second]) <= 1
