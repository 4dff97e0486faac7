"""Takeover of another configuration in place: flows are added, removed and changed; others are not touched."""

import msgspec
import pytest

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals, DiscoveryAnswer, RememberedFlow
from actors.control.supervisor import Supervisor
from actors.model.events import Reloaded
from actors.model.messages import ConfigRef
from actors.model.states import Command, Desired
from policies.model import FlowName
from policies.placement.scaling import ScalingLimits
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeCopier, FakeFleet, by_topic, lanes, ports
from tests.unit.actors.mirrors import advance

OTHER, NEW = FlowName("B", "C"), FlowName("C", "D")
TOPIC = {FLOW: "a", OTHER: "b", NEW: "c"}
AFTER = msgspec.structs.replace(SPEC, config=ConfigRef(path="other.properties", digest="e"))


def plan(flow: FlowName, fingerprint: str = "r1", most: int = 1, started_ms: int = 0) -> FlowPlan:
    return FlowPlan(
        name=flow, fingerprint=fingerprint, scaling=ScalingLimits(minimum=1, maximum=most), started_ms=started_ms
    )


@pytest.fixture
def both(fleet: FakeFleet, clock: Clock) -> Supervisor:
    """A mirror of two flows, each with a copier and a topic of its own."""
    supervisor = Supervisor(
        SPEC,
        [plan(FLOW), plan(OTHER)],
        ports(fleet, clock),
        by_topic,
    )
    for flow in (FLOW, OTHER, NEW):
        fleet.answers[flow] = DiscoveryAnswer(serial=1, lanes=lanes(TOPIC[flow], 2), kept=RememberedFlow())
    go_on(supervisor, fleet, clock)
    return supervisor


def go_on(supervisor: Supervisor, fleet: FakeFleet, clock: Clock, seconds: int = 5) -> None:
    """Let time pass; whoever starts is ready, and whoever is asked to drain ends."""
    for _ in range(seconds):
        advance(supervisor, clock, 1)
        for copier in fleet.copiers:
            if copier.life.state == "starting":
                copier.life = CopierVitals(state="ready")
            elif "drain" in copier.calls:
                copier.life = CopierVitals(state="closed")


def of(fleet: FakeFleet, flow: FlowName) -> FakeCopier:
    return [copier for copier in fleet.copiers if copier.flow == flow][-1]


def owned(supervisor: Supervisor, flow: FlowName) -> dict[str, tuple[str, int]]:
    """Say who owns each set of a flow, and at which epoch."""
    ownership = supervisor._flows[flow].state.ownership
    return {set_id: (copier_id, ownership.sets[set_id].epoch) for set_id, copier_id in ownership.owner.items()}


def test_a_flow_that_stays_the_same_hears_nothing(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    copier, before, term = of(fleet, FLOW), owned(both, FLOW), both.term
    heard, version = list(copier.calls), copier.orders.version
    both.reconfigure(AFTER, [plan(FLOW), plan(OTHER, "r2"), plan(NEW)])
    go_on(both, fleet, clock, 60)
    assert of(fleet, OTHER).fingerprint == "r2", "the changed flow has another copier"
    assert owned(both, NEW)
    both.reconfigure(AFTER, [plan(FLOW)])
    go_on(both, fleet, clock, 60)
    assert fleet.given_back == [OTHER, NEW]
    assert (of(fleet, FLOW), owned(both, FLOW), both.term) == (copier, before, term)
    assert (copier.calls, copier.orders.version) == (heard, version), "not one order has changed"


def test_a_changed_flow_moves_its_sets_to_copiers_of_the_new_settings(
    both: Supervisor, fleet: FakeFleet, clock: Clock
) -> None:
    before, former = owned(both, OTHER), of(fleet, OTHER)
    both.reconfigure(AFTER, [plan(FLOW), plan(OTHER, "r2")])
    go_on(both, fleet, clock, 60)
    after, latter = owned(both, OTHER), of(fleet, OTHER)
    assert former.copier_id in fleet.retired
    assert {copier_id for copier_id, _ in after.values()} == {latter.copier_id}
    assert all(after[set_id][1] > epoch for set_id, (_, epoch) in before.items()), "epochs are used once"


def test_a_flow_that_is_removed_is_drained_given_back_and_forgotten(
    both: Supervisor, fleet: FakeFleet, clock: Clock
) -> None:
    copier = of(fleet, OTHER)
    taken = Reloaded(flow=OTHER, path="other.properties", change="removed", keys=("B->C.enabled",))
    both.reconfigure(AFTER, [plan(FLOW)], [taken])
    assert both.is_reloading
    both.step()
    assert copier.calls[-1] == "drain"
    assert not fleet.given_back, "it may still write"
    assert "drain" in both.status().flows[1].waiting_for
    copier.life = CopierVitals(state="closed")
    go_on(both, fleet, clock)
    assert not both.is_reloading
    assert fleet.given_back == [OTHER]
    status = both.status()
    assert [flow.flow for flow in status.flows] == ["A->B"]
    assert (status.phase, status.config_path, status.config_digest) == ("running", "other.properties", "e")
    assert taken in fleet.told
    assert "the flow is removed (B->C.enabled)" in taken.text()


def test_what_is_said_to_all_is_not_meant_for_a_flow_that_goes(
    both: Supervisor, fleet: FakeFleet, clock: Clock
) -> None:
    both.reconfigure(AFTER, [plan(FLOW)])
    both.command(Command.PAUSE)
    assert both._flows[OTHER].state.wanted.state is Desired.RUNNING
    assert both._flows[FLOW].state.wanted.state is Desired.PAUSED


def test_a_paused_flow_that_changes_stays_paused(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    both.command(Command.PAUSE, "B->C")
    both.reconfigure(AFTER, [plan(FLOW), plan(OTHER, "r2")])
    go_on(both, fleet, clock, 60)
    assert both._flows[OTHER].state.wanted.state is Desired.PAUSED
    assert of(fleet, OTHER).orders.paused


def test_a_stopped_flow_stays_stopped_and_an_added_one_runs(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    both.command(Command.STOP, "B->C")
    go_on(both, fleet, clock)
    fleet.answers[NEW] = DiscoveryAnswer(
        serial=1, lanes=lanes("c", 1), kept=RememberedFlow(state=Desired.STOPPED, at_ms=5)
    )
    both.reconfigure(AFTER, [plan(FLOW), plan(OTHER, "r2"), plan(NEW, started_ms=6)])
    go_on(both, fleet, clock)
    assert both._flows[OTHER].state.wanted.state is Desired.STOPPED, "a failover is not undone by a reload"
    assert both._flows[NEW].state.wanted.state is Desired.RUNNING, "who adds a flow wants it to run"


def test_other_limits_hold_at_once(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    limits = ScalingLimits(minimum=2, maximum=3)
    both.reconfigure(AFTER, [msgspec.structs.replace(plan(FLOW), scaling=limits), plan(OTHER)])
    go_on(both, fleet, clock)
    assert both._flows[FLOW].state.copiers_wanted == 2
    both.reconfigure(AFTER, [plan(FLOW), plan(OTHER)])
    assert both._flows[FLOW].state.copiers_wanted == 1


def test_a_flow_that_takes_the_place_of_all_others_keeps_the_mirror(
    both: Supervisor, fleet: FakeFleet, clock: Clock
) -> None:
    both.reconfigure(AFTER, [plan(NEW)])
    go_on(both, fleet, clock, 10)
    assert sorted(fleet.given_back) == [FLOW, OTHER]
    assert (both.status().phase, both.is_ending) == ("running", False)
