"""A new supervisor that takes over living copiers."""

import msgspec
import pytest

from actors.control.ports import CopierVitals, RememberedFlow
from actors.model.states import Desired, Replaced
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import adopt, advance, started


def test_a_new_supervisor_takes_over_living_copiers_and_moves_nothing(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock, copiers=2)
    before = [dict(copier.sets) for copier in fleet.copiers]
    for copier in fleet.copiers:
        copier.calls.clear()
    supervisor = adopt(fleet, clock, copiers=2)
    for _ in range(4):
        supervisor.step()
    assert [copier.sets for copier in fleet.copiers] == before
    assert [copier.calls for copier in fleet.copiers] == [[], []]
    assert len(fleet.copiers) == 2
    assert supervisor.status().phase == "running"


def test_a_new_supervisor_places_nothing_before_every_copier_has_told_what_it_holds(
    fleet: FakeFleet, clock: Clock
) -> None:
    started(fleet, clock, copiers=2)
    mute, other = fleet.copiers
    mute.deaf = True
    supervisor = adopt(fleet, clock, copiers=2)
    for _ in range(3):
        supervisor.step()
    assert sorted(other.sets) == ["A->B/b"]
    advance(supervisor, clock, 8)
    assert sorted(other.sets) == ["A->B/a", "A->B/b"], "the lease an earlier supervisor gave has run out too"


def test_a_paused_flow_stays_paused_under_a_new_supervisor(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1), kept=RememberedFlow(state=Desired.PAUSED))
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert fleet.copiers[0].calls == ["pause *", "assign A->B/a @1 x1"]


def test_nothing_is_placed_before_what_is_wanted_was_read(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1), kept=None)
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    supervisor.step()
    assert fleet.copiers[0].calls == []


def test_an_older_supervisor_stands_down(fleet: FakeFleet, clock: Clock) -> None:
    older = started(fleet, clock)
    copier = fleet.copiers[0]
    copier.orders = msgspec.structs.replace(copier.orders, term=older.term + 5)
    copier.send(copier.orders)
    with pytest.raises(Replaced, match="newer supervisor"):
        older.step()


def test_an_outdated_copier_hands_over_to_a_new_one(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    old = fleet.copiers[0]
    supervisor = adopt(fleet, clock, fingerprint="r2")
    for _ in range(3):
        supervisor.step()
    fresh = fleet.copiers[1]
    assert sorted(old.sets) == ["A->B/a", "A->B/b"], "it copies until there is somebody else"
    fresh.life = CopierVitals(state="ready")
    for _ in range(4):
        supervisor.step()
    assert sorted(fresh.sets) == ["A->B/a", "A->B/b"]
    assert {group.epoch for group in fresh.sets.values()} == {3, 4}
    assert old.calls[-1] == "drain"
    old.life = CopierVitals(state="closed", last=old.snapshot())
    supervisor.step()
    assert fleet.retired == [old.copier_id]
