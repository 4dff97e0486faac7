"""Copiers that must run in a site: what the flow waits for, and what a reload of their place does."""

import msgspec

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from policies.placement.sites import missing_site
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeFleet, by_topic, lanes, ports
from tests.unit.actors.mirrors import advance

PLAN = FlowPlan(name=FLOW, fingerprint="r1", site="west")
ANYWHERE = msgspec.structs.replace(PLAN, fingerprint="r2", site="")


def near(fleet: FakeFleet, clock: Clock) -> Supervisor:
    """Make a mirror whose copiers must run in a site; one is starting."""
    supervisor = Supervisor(SPEC, [PLAN], ports(fleet, clock), by_topic)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    return supervisor


def waits(supervisor: Supervisor) -> str:
    return supervisor.status().flows[0].waiting_for


def test_the_flow_waits_for_a_node_of_its_site(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = near(fleet, clock)
    assert waits(supervisor) == "a copier to start (needs one free CPU on a Ray node of site west)"
    fleet.lacking = missing_site("west")
    supervisor.step()
    assert waits(supervisor) == f"a copier to start ({missing_site('west')})"
    assert supervisor.status().phase == "waiting", "so that run --detach returns"
    assert {lane.reason for lane in supervisor.status(lanes=True).lanes} == {waits(supervisor)}
    fleet.lacking = ""
    fleet.copiers[0].life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert waits(supervisor) == ""


def test_a_place_that_nobody_wants_any_more_is_not_waited_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = near(fleet, clock)
    fleet.lacking = missing_site("west")
    advance(supervisor, clock, 100)
    assert len(fleet.copiers) == 1, "one waits; a second would wait as well"
    fleet.lacking = ""
    supervisor.reconfigure(SPEC, [ANYWHERE])
    supervisor.step()
    assert fleet.retired == ["copier-1"]
    assert [copier.fingerprint for copier in fleet.copiers] == ["r1", "r2"]
    assert waits(supervisor) == "a copier to start (needs one free CPU in the Ray cluster)"


def test_no_copier_makes_room_for_one_that_no_node_can_run(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = near(fleet, clock)
    (working,) = fleet.copiers
    working.life = CopierVitals(state="ready")
    advance(supervisor, clock, 3)
    assert sorted(working.sets) == ["A->B/a"]
    fleet.lacking = missing_site("east")
    supervisor.reconfigure(SPEC, [msgspec.structs.replace(PLAN, fingerprint="r2", site="east")])
    advance(supervisor, clock, 100)
    assert sorted(working.sets) == ["A->B/a"], "it continues where it is"
    assert waits(supervisor) == f"a copier to start ({missing_site('east')})", "and status says so"
    fleet.lacking = ""
    fleet.copiers[-1].life = CopierVitals(state="ready")
    advance(supervisor, clock, 5)
    assert sorted(fleet.copiers[-1].sets) == ["A->B/a"]
