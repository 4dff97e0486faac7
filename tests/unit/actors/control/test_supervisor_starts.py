"""Copiers that start late (no CPU, no node) or never: they end before their first report, or do not answer."""

from actors.control.ports import CopierVitals
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import adopt, advance, started


def test_a_copier_whose_node_comes_late_gets_its_share(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock, 2)
    fleet.discover(*lanes("a", 2), *lanes("b", 2))
    supervisor.step()
    first, late = fleet.copiers
    first.life = CopierVitals(state="ready")
    advance(supervisor, clock, 300)
    assert sorted(first.sets) == ["A->B/a", "A->B/b"]
    assert not late.hushed, "it has no lease that would have to run out"
    late.life = CopierVitals(state="ready")
    advance(supervisor, clock, 100)
    assert [len(copier.sets) for copier in fleet.copiers] == [1, 1], "and no third was started"


def test_a_copier_gets_no_set_before_it_has_reported(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, 1)
    (first,) = fleet.copiers
    first.life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    second = fleet.copiers[1]
    second.life, second.deaf = CopierVitals(state="ready"), True
    advance(supervisor, clock, 10)
    assert not any(copier.set_ids for copier in supervisor.status().copiers)
    second.deaf = False
    advance(supervisor, clock, 2)
    assert sorted(second.sets) == ["A->B/a", "A->B/b"]


def test_a_copier_that_never_reports_is_replaced(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    (mute,) = fleet.copiers
    mute.life, mute.deaf = CopierVitals(state="ready"), True
    advance(supervisor, clock, 70)
    assert fleet.retired == [mute.copier_id]
    assert len(fleet.copiers) == 2
    assert any("never reported" in event.text for event in supervisor.status().events)


def test_a_copier_that_is_lost_before_its_first_report_is_replaced(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    (first,) = fleet.copiers
    first.life = CopierVitals(state="lost", cause="ActorUnschedulableError: its node ended")
    supervisor.step()
    assert fleet.retired == [first.copier_id]
    assert len(fleet.copiers) == 2, "it had no lease, so nothing has to be waited for"
    assert any("ActorUnschedulableError" in event.text for event in supervisor.status().events)


def test_an_adopted_copier_on_a_lost_node_may_have_a_lease(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    second = adopt(fleet, clock)
    (left,) = fleet.copiers
    left.deaf = True
    left.life = CopierVitals(state="lost", cause="ActorDiedError: its node ended")
    advance(second, clock, 6)
    assert fleet.retired == [], "the earlier supervisor may have granted one just before it ended"
    advance(second, clock, 2)
    assert fleet.retired == [left.copier_id]
