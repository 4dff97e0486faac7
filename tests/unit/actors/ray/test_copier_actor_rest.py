"""A copier at rest answers every three seconds, and at once when something happens."""

import asyncio

import msgspec
import pytest

from actors.model.messages import Report
from actors.ray.copier_actor import PATIENCE_S, REST_PATIENCE_S, CopierActor, spared_s
from engine.core.reports.progress import FlowProgress, LaneProgress
from tests.unit.actors.ray.test_copier_actor import GROUP, RELEASED, SPEC, Boss, FakeEngine, end


class RestingEngine(FakeEngine):
    """An engine whose snapshots may be changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[str, object] = {}
        self.lane_changes: dict[str, object] = {}

    def progress(self) -> FlowProgress:
        now = super().progress()
        owned: tuple[LaneProgress, ...] = tuple(msgspec.structs.replace(one, **self.lane_changes) for one in now.lanes)
        return msgspec.structs.replace(now, lanes=owned, **self.changes)


class Resting:
    """A copier at rest, and a supervisor that has granted a lease to it."""

    def __init__(self) -> None:
        self.engine = RestingEngine()
        self.shell = CopierActor(SPEC, make=lambda spec: self.engine)
        self.boss = Boss(self.shell)

    async def begin(self) -> None:
        await self.boss.say(sets=(GROUP,))
        await self.boss.until(lambda report: report.version == self.boss.orders.version)
        await self.ask()

    async def ask(self, stamp: float = 100.0) -> tuple[Report, float]:
        """Say the orders again; return the report, and how long it took."""
        began_s = asyncio.get_running_loop().time()
        report = await self.boss.repeat(stamp=stamp)
        return report, asyncio.get_running_loop().time() - began_s


async def test_without_news_an_answer_comes_every_three_seconds() -> None:
    copier = Resting()
    await copier.begin()
    for beat in range(3):
        copier.engine.changes["beat"] = copier.engine.changes["at_ms"] = beat  # time passes, which is no news
        copier.engine.lane_changes["source_end_age_ms"] = beat
        report, took_s = await copier.ask()
        assert took_s == pytest.approx(REST_PATIENCE_S, abs=0.1)
        assert report.progress.beat == beat, "the report is as new as its answer"
    await end(copier.shell, copier.boss)


@pytest.mark.parametrize(
    ("changes", "lane_changes"),
    [
        ({"records": 1}, {}),
        ({"waits_for": "cluster a does not answer"}, {}),
        ({"is_open": False}, {}),
        ({}, {"source_next": 8}),
        ({}, {"source_end": 99}),
        ({}, {"state": "failed", "reason": "refused"}),
        ({}, {"committed": False}),
    ],
)
async def test_what_happens_is_said_with_the_next_snapshot(
    changes: dict[str, object], lane_changes: dict[str, object]
) -> None:
    copier = Resting()
    await copier.begin()
    asking = asyncio.ensure_future(copier.ask())
    await asyncio.sleep(PATIENCE_S + 0.3)
    copier.engine.changes, copier.engine.lane_changes = changes, lane_changes
    report, took_s = await asking
    assert PATIENCE_S < took_s < REST_PATIENCE_S - 0.2
    for name, value in changes.items():
        assert getattr(report.progress, name) == value
    for name, value in lane_changes.items():
        assert {getattr(lane, name) for lane in report.progress.lanes} == {value}
    await end(copier.shell, copier.boss)


async def test_a_change_before_the_copier_rests_keeps_it_from_resting() -> None:
    copier = Resting()
    await copier.begin()
    asking = asyncio.ensure_future(copier.ask())
    copier.engine.changes = {"records": 1}
    _, took_s = await asking
    assert took_s == pytest.approx(PATIENCE_S, abs=0.2)
    await end(copier.shell, copier.boss)


async def test_an_event_and_new_orders_end_the_rest() -> None:
    copier = Resting()
    await copier.begin()
    asking = asyncio.ensure_future(copier.ask())
    await asyncio.sleep(PATIENCE_S + 0.3)
    copier.engine.events.append(RELEASED)
    report, took_s = await asking
    assert report.progress.events == (RELEASED,)
    assert took_s < REST_PATIENCE_S - 0.2
    asking = asyncio.ensure_future(copier.ask())
    await asyncio.sleep(PATIENCE_S + 0.3)
    began_s = asyncio.get_running_loop().time()
    await copier.boss.say(paused=True)
    await asking
    assert asyncio.get_running_loop().time() - began_s < 0.1
    await end(copier.shell, copier.boss)


async def test_a_supervisor_that_has_granted_no_lease_yet_does_not_wait_for_the_rest() -> None:
    copier = Resting()
    await copier.begin()
    _, took_s = await copier.ask(stamp=0.0)
    assert took_s == pytest.approx(PATIENCE_S, abs=0.1)
    await end(copier.shell, copier.boss)


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.001, 0.02), (0.04, 0.8), (0.5, 3.0), (4.0, 12.0)])
def test_snapshots_of_many_lanes_are_rarer_the_longer_one_takes(took_s: float, rest_s: float) -> None:
    assert spared_s(took_s) == pytest.approx(rest_s)
