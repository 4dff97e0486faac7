"""One flow of a mirror stopped by a failover, while the others continue."""

import msgspec
import pytest

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from actors.model.events import FailedOver, FailoverOutcome
from actors.model.states import Command, Desired, FailedOverFlow, StopKind, UnknownFlow, turned_text
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeFleet, by_topic, lanes, ports


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet(clock: Clock) -> FakeFleet:
    return FakeFleet(clock)


def advance(supervisor: Supervisor, clock: Clock, seconds: int) -> None:
    """Let time pass, step by step."""
    for _ in range(seconds):
        clock.seconds += 1
        supervisor.step()


def two_flows(fleet: FakeFleet, clock: Clock) -> Supervisor:
    """A mirror of two flows of which each has a copier."""
    supervisor = Supervisor(
        SPEC,
        [FlowPlan(name=flow, fingerprint="r1") for flow in (FLOW, FlowName("B", "C"))],
        ports(fleet, clock),
        by_topic,
    )
    fleet.discover(*lanes("a", 1))
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = CopierVitals(state="ready")
    supervisor.step()
    supervisor.step()
    return supervisor


OUTCOME = FailoverOutcome(records=0, groups=3, unequal=1)


def test_a_stop_of_the_mirror_is_no_failover(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two_flows(fleet, clock)
    supervisor.fail_over(str(FLOW), OUTCOME)
    supervisor.command(Command.FORGET, str(FLOW))
    supervisor.command(Command.RESUME, str(FLOW))
    supervisor.fail_over("B->C", OUTCOME)
    supervisor.command(Command.STOP)
    found = [(flow.desired, flow.failed_over) for flow in supervisor.status().flows]
    assert found == [(Desired.STOPPED, False), (Desired.STOPPED, True)]


def test_a_flow_that_failed_over_ends_alone_and_may_come_back(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two_flows(fleet, clock)
    first = next(copier for copier in fleet.copiers if copier.flow == FLOW)
    supervisor.fail_over(str(FLOW), OUTCOME)
    supervisor.step()
    supervisor.step()
    assert first.calls[-1] == "drain"
    first.life = CopierVitals(state="closed", last=first.snapshot())
    advance(supervisor, clock, 3)
    status = supervisor.status()
    assert [copier.flow for copier in status.copiers] == ["B->C"]
    assert [(flow.desired, flow.stalled) for flow in status.flows] == [(Desired.STOPPED, 0), (Desired.RUNNING, 0)]
    assert status.flows[0].waiting_for == turned_text("A->B", StopKind.FAILOVER)
    assert status.flows[0].at_end is not None
    assert (status.flows[0].at_end.unknown_lanes, status.flows[1].at_end) == (0, None)
    assert (status.phase, status.desired) == ("running", Desired.RUNNING)
    assert fleet.kept[-1].state is Desired.STOPPED
    (told,) = [event for event in fleet.told if isinstance(event, FailedOver)]
    assert "and every record is copied; consumer groups exactly as on the source: 2 of 3" in told.text()
    assert told.text().endswith(
        "to copy in the old direction again: raymirror resume 'A->B' --forget-failover, or raymirror run CONFIG"
        " --forget-failover 'A->B' once the mirror has ended"
    )
    supervisor.command(Command.RESUME)
    assert supervisor.status().flows[0].desired is Desired.STOPPED, "it was said to all"
    assert [flow.failed_over for flow in supervisor.status().flows] == [True, False]
    with pytest.raises(FailedOverFlow):
        supervisor.command(Command.RESUME, str(FLOW))
    supervisor.command(Command.FORGET, str(FLOW))
    supervisor.command(Command.RESUME, str(FLOW))
    assert not supervisor.status().flows[0].failed_over
    advance(supervisor, clock, 1)
    assert sorted(copier.flow for copier in supervisor.status().copiers) == ["A->B", "B->C"]
    assert supervisor.status().flows[0].at_end is None


def test_a_mirror_ends_with_the_last_flow_that_failed_over(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two_flows(fleet, clock)
    for flow in ("A->B", "B->C"):
        supervisor.fail_over(flow, msgspec.structs.replace(OUTCOME, records=-1, partitions=4, undrained=2))
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = CopierVitals(state="closed", last=copier.snapshot())
    supervisor.step()
    assert (supervisor.is_drained, supervisor.desired) == (True, Desired.STOPPED)
    assert [flow.waiting_for for flow in supervisor.status().flows] == ["", ""], "resume cannot work any more"
    assert not supervisor.refused
    assert any("an unknown number of records in 2 of 4 partitions" in event.text() for event in fleet.told)
    assert fleet.told[-1].text().endswith("again: raymirror run CONFIG --forget-failover 'B->C'")
    blank = FailedOver(flow=FLOW, outcome=OUTCOME)  # of an earlier version
    assert " --forget-failover if the mirror still runs, else raymirror run CONFIG" in blank.text()
    with pytest.raises(UnknownFlow):
        supervisor.fail_over("X->Y", OUTCOME)
