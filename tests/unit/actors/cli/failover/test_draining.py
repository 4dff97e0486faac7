"""How long a failover waits for each of its parts."""

from collections.abc import Collection

import msgspec
import pytest

from actors.cli.failover import draining
from actors.cli.failover.draining import DrainBudget, drain
from actors.model.status import MirrorStatus
from engine.core.reports.drain import Ends
from engine.core.reports.progress import LaneProgress
from policies.model import TopicPartition
from tests.unit.actors.fakes import Clock, FakeFleet, lane_progress, lanes
from tests.unit.actors.mirrors import started
from tests.unit.engine.config_files import flow

A0, A1 = lanes("a", 2)


class World:
    """A mirror whose lanes move a step with every look, a source that tells its ends, and a clock that waits move."""

    def __init__(self, status: MirrorStatus, *rows: list[LaneProgress], ends: Ends, later: Ends | None = None) -> None:
        self.now_s, self._status, self._rows = 0.0, status, list(rows)
        self._ends, self._later = ends, later or Ends()
        self.again: list[Collection[TopicPartition]] = []

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        rows = self._rows.pop(0) if len(self._rows) > 1 else self._rows[0]
        return msgspec.structs.replace(self._status, lanes=tuple(rows) if lanes else ())

    async def ends(self, _lanes: Collection[TopicPartition]) -> Ends:
        return self._ends

    async def ends_of(self, asked: Collection[TopicPartition]) -> Ends:
        self.again.append(set(asked))
        return self._later

    async def pause(self, seconds: float) -> None:
        self.now_s += seconds

    async def drain(self, give_up_at_s: float) -> Ends:
        return await drain(self, flow(), self, give_up_at_s)  # type: ignore[arg-type]


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


def row(number: int, source_next: int, state: str = "copying") -> LaneProgress:
    found = lane_progress((A0, A1)[number], source_next=source_next, state=state)
    return msgspec.structs.replace(found, set_id="A->B/000")


def meet(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(draining, "now_s", lambda: world.now_s)
    monkeypatch.setattr(draining, "pause", world.pause)
    return world


BOTH = Ends(ends={A0.source: 5, A1.source: 5})
ONE = Ends(ends={A0.source: 5}, unknown={A1.source: "no leader"})


async def test_it_ends_when_all_is_copied_and_waits_for_nobody_who_has_failed(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(0, 3), row(1, 2, "failed")], [row(0, 4), row(1, 2, "failed")], [row(0, 5), row(1, 2, "failed")]
    world = meet(World(status, *rows, ends=BOTH), monkeypatch)
    assert await world.drain(1000.0) == BOTH
    assert world.now_s < 2


async def test_heartbeats_are_not_waited_for(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    (beats,) = lanes("heartbeats", 1)
    behind = msgspec.structs.replace(lane_progress(beats, source_next=1), set_id="A->B/001")
    ends = Ends(ends=BOTH.ends | {beats.source: 9}, unknown={TopicPartition("X.heartbeats", 0): "no leader"})
    world = meet(World(status, [row(0, 5), row(1, 5), behind], ends=ends), monkeypatch)
    assert await world.drain(1000.0) == BOTH
    assert world.now_s == 0


async def test_it_ends_when_time_is_up(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    world = meet(World(status, [row(0, 3), row(1, 5)], ends=BOTH), monkeypatch)
    await world.drain(30.0)
    assert 30 <= world.now_s < 31


async def test_an_end_that_is_not_known_is_asked_for_again_and_then_waited_for(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[row(0, 5), row(1, 2)]] * 20 + [[row(0, 5), row(1, 5)]]
    world = meet(World(status, *rows, ends=ONE, later=Ends(ends={A1.source: 5})), monkeypatch)
    assert await world.drain(1000.0) == BOTH
    assert world.again == [{A1.source}]


async def test_nobody_waits_longer_for_a_leader_than_one_may_take(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = meet(World(status, [row(0, 5), row(1, 2)], ends=ONE, later=Ends(unknown=ONE.unknown)), monkeypatch)
    assert (await world.drain(1000.0)).unknown == ONE.unknown
    assert draining.LEADERS_S <= world.now_s < draining.LEADERS_S + 1
    gone = meet(World(status, [row(0, 3)], ends=Ends(gone="refused")), monkeypatch)
    await gone.drain(1000.0)
    assert gone.now_s == 0


def test_a_part_of_the_time_is_kept_for_what_comes_behind_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(draining, "now_s", lambda: now_s)
    long, short = DrainBudget(60.0), DrainBudget(6.0)
    assert (long.drain_until_s, short.drain_until_s, short.left_s) == (140.0, 103.0, 6.0)
    now_s = 200.0
    assert long.left_s == 0.0
