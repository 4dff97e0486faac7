"""When a mirror drills by itself, and what it tells about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.drills.schedule import AGAIN_S, LOOK_S, DrillScheduler
from engine.base.clock import pause, wall_ms
from engine.base.errors import BrokerUnreachable
from engine.core.reports.drill_report import DrillReport
from policies.dr.drill_schedule import FIRST_AFTER_S, parse_schedule

HOUR_S = 3600.0


def report(began_ms: int) -> DrillReport:
    return DrillReport(run_id="f00d", flow="A->B", began_ms=began_ms, ended_ms=began_ms)


class World:
    """A target that remembers the last drill, and drills that take a minute."""

    def __init__(self, text: str) -> None:
        self.last: DrillReport | None = None
        self.began: list[float] = []
        self.why, self.is_lost, self.opened = "", False, 0
        self.scheduler = DrillScheduler("A->B", parse_schedule(text), self.reader, self.start)
        self.scheduler.may_drill = lambda: self.may
        self.may = True
        self.at_ms = wall_ms()

    @asynccontextmanager
    async def reader(self) -> AsyncIterator["World.Reader"]:
        self.opened += 1
        yield self.Reader(self)

    class Reader:
        def __init__(self, world: "World") -> None:
            self._world = world

        async def last(self) -> DrillReport | None:
            if self._world.is_lost:
                raise BrokerUnreachable("B", "down")
            return self._world.last

    async def start(self) -> str:
        self.began.append((wall_ms() - self.at_ms) / 1000)
        assert self.scheduler.standing.runs
        began_ms = wall_ms()
        await pause(60.0)
        if not self.why:
            self.last = report(began_ms)
        return self.why

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.scheduler.run())
            yield
            task.cancel()


async def test_it_drills_an_hour_after_the_start_and_then_at_its_interval() -> None:
    world = World("12h")
    async with world.running():
        await pause(FIRST_AFTER_S + 26 * HOUR_S)
    first, second, third = world.began
    assert FIRST_AFTER_S <= first <= FIRST_AFTER_S + LOOK_S
    for before, after in ((first, second), (second, third)):
        assert 12 * HOUR_S <= after - before <= 12 * HOUR_S + LOOK_S
    standing = world.scheduler.standing
    assert (standing.last, standing.runs, standing.trouble) == (world.last, False, "")
    assert standing.next_ms - world.at_ms == pytest.approx((third + 12 * HOUR_S) * 1000, abs=1000)


async def test_a_drill_by_hand_counts_too() -> None:
    world = World("12h")
    world.last = report(wall_ms() - int(HOUR_S * 1000))
    async with world.running():
        await pause(10 * HOUR_S)
        assert world.began == []
        await pause(2 * HOUR_S)
    assert len(world.began) == 1


async def test_it_waits_while_the_flow_is_not_to_run_and_drills_then() -> None:
    world = World("1h")
    world.may = False
    async with world.running():
        await pause(5 * HOUR_S)
        assert world.began == []
        world.may = True
        await pause(2 * LOOK_S)
    assert len(world.began) == 1


async def test_a_drill_that_stored_nothing_is_told_and_tried_again_later() -> None:
    world = World("1h")
    world.why = "the source does not answer"
    async with world.running():
        await pause(FIRST_AFTER_S + 3 * LOOK_S)
        assert world.scheduler.standing.trouble == "the scheduled drill did not run: the source does not answer"
        world.why = ""
        await pause(AGAIN_S + LOOK_S)
        assert world.scheduler.standing.trouble == ""
    assert len(world.began) == 2
    assert world.began[1] - world.began[0] >= AGAIN_S


async def test_a_target_that_does_not_answer_ends_nothing() -> None:
    world = World("off")
    world.is_lost = True
    async with world.running():
        await pause(2.5 * LOOK_S)
        assert "down" in world.scheduler.standing.trouble
        world.is_lost, world.last = False, report(5)
        await pause(LOOK_S)
        assert world.scheduler.standing.trouble == ""
        assert world.scheduler.standing.last == report(5)
    assert world.opened > 2
    assert world.began == []
