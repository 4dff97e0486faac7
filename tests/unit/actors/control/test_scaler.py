"""Measurements of a flow become copiers; `tests/unit/policies/placement/test_scaling.py` tests the policy."""

from collections.abc import Callable

import msgspec

from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from engine.core.reports.progress import FlowProgress
from tests.unit.actors.fakes import FLOW, Clock, FakeCopier, FakeFleet, lanes, make

RATE = 1_000_000
"""Bytes per second that one simulated copier can carry."""


class Backlog:
    """Lag in bytes that copiers drain, and what they report of it. A copier's node takes `node_s` to come."""

    def __init__(self, fleet: FakeFleet, clock: Clock, lag_bytes: int, node_s: float = 0.0) -> None:
        self.fleet, self.clock, self.lag = fleet, clock, lag_bytes
        self.copied: dict[str, int] = {}
        self._node_s = node_s
        self._asked_s: dict[str, float] = {}

    def ready(self) -> list[FakeCopier]:
        return [copier for copier in self.fleet.copiers if copier.life.state == "ready"]

    def second(self, supervisor: Supervisor) -> None:
        self.clock.seconds += 1
        for copier in self.fleet.copiers:
            asked_s = self._asked_s.setdefault(copier.copier_id, self.clock.now_s())
            if copier.life.state == "starting" and self.clock.now_s() >= asked_s + self._node_s:
                copier.life = CopierVitals(state="ready")
            if copier.orders.drain and copier.life.state == "ready":
                copier.life = CopierVitals(state="closed", last=copier.snapshot())
        busy = [copier for copier in self.ready() if copier.sets]
        for copier in busy:
            part = min(RATE, -(-self.lag // len(busy)), self.lag)
            self.copied[copier.copier_id] = self.copied.get(copier.copier_id, 0) + part
            self.lag -= part
        for copier in self.ready():
            copier.adjust = self._adjust(copier.copier_id, len(busy))
        supervisor.step()

    def _adjust(self, copier_id: str, busy: int) -> Callable[[FlowProgress], FlowProgress]:
        copied, lag, now_ms = self.copied.get(copier_id, 0), self.lag, int(self.clock.seconds * 1000)

        def adjust(progress: FlowProgress) -> FlowProgress:
            told = [
                msgspec.structs.replace(
                    lane,
                    source_end=1,
                    source_next=0 if lag else 1,
                    lag_bytes=lag // busy // max(1, len(progress.lanes)),
                    behind_since_ms=now_ms - 60_000 if lag else -1,
                )
                for lane in progress.lanes
            ]
            return msgspec.structs.replace(progress, lanes=tuple(told), wire_bytes=copied)

        return adjust


def test_a_backlog_makes_the_fleet_grow_and_its_end_shrink() -> None:
    clock = Clock()
    fleet = FakeFleet(clock)
    supervisor = make(fleet, clock, copiers=1, most=4)
    fleet.discover(*(lane for topic in "abcd" for lane in lanes(topic, 1)))
    backlog = Backlog(fleet, clock, lag_bytes=4_000 * RATE)
    most = 0
    for _ in range(1200):
        backlog.second(supervisor)
        most = max(most, len(backlog.ready()))
    assert most == 4
    assert sorted(len(copier.sets) for copier in backlog.ready()) == [1, 1, 1, 1], "each has its share"
    while backlog.lag:
        backlog.second(supervisor)
    for _ in range(6000):
        backlog.second(supervisor)
    assert len(backlog.ready()) == 1
    reasons = [event.text() for event in fleet.told if type(event).__name__ == "Scaled"]
    assert any("1 -> 2 copiers" in reason or "1 -> 4 copiers" in reason for reason in reasons), reasons
    assert "2 -> 1 copier" in reasons[-1]
    assert len(backlog.ready()[0].sets) == 4


def test_a_flow_that_is_not_known_yet_keeps_its_number() -> None:
    clock = Clock()
    fleet = FakeFleet(clock)
    supervisor = make(fleet, clock, copiers=2, most=4)
    for _ in range(30):
        clock.seconds += 1
        supervisor.step()
    assert len(fleet.copiers) == 2
    assert not [event for event in fleet.told if event.flow == FLOW and type(event).__name__ == "Scaled"]


def test_copiers_whose_nodes_take_minutes_to_come_are_of_use_when_they_are_there() -> None:
    clock = Clock()
    fleet = FakeFleet(clock)
    supervisor = make(fleet, clock, copiers=1, most=4)
    fleet.discover(*(lane for topic in "abcd" for lane in lanes(topic, 1)))
    backlog = Backlog(fleet, clock, lag_bytes=20_000 * RATE, node_s=240.0)
    for _ in range(3000):
        backlog.second(supervisor)
    assert len(fleet.copiers) == 4, "none was started in place of another"
    assert sorted(len(copier.sets) for copier in backlog.ready()) == [1, 1, 1, 1], "each has its share"
    assert not any(copier.hushed for copier in fleet.copiers)
    reasons = [event.text() for event in fleet.told if type(event).__name__ == "Scaled"]
    assert not any("bottleneck" in reason for reason in reasons), reasons
