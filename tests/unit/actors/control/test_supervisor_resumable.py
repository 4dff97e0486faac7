"""A mirror with an HTTP server: a flow that is stopped alone does not end it, so that a request can resume the flow."""

import pytest

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals, DiscoveryAnswer, RememberedFlow
from actors.control.supervisor import Supervisor
from actors.model.events import FailoverForgotten, FailoverOutcome
from actors.model.states import (
    Command,
    Desired,
    FailedOverFlow,
    IllegalCommand,
    NotAtRest,
    NotFailedOver,
    StopKind,
    UnknownFlow,
)
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeFleet, by_topic, lanes, ports
from tests.unit.actors.mirrors import advance, started

OUTCOME = FailoverOutcome(records=0, groups=0, unequal=0)


def resumable(fleet: FakeFleet, clock: Clock, plan: bool = True) -> Supervisor:
    """A mirror of one flow with a copier that copies."""
    flow = FlowPlan(name=FLOW, fingerprint="r1", resumable=plan)
    supervisor = Supervisor(SPEC, [flow], ports(fleet, clock), by_topic)
    fleet.discover(*lanes("a", 1))
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    supervisor.step()
    supervisor.step()
    return supervisor


def stopped(fleet: FakeFleet, clock: Clock, supervisor: Supervisor) -> Supervisor:
    """Stop its flow, and let the copier drain."""
    supervisor.command(Command.STOP, "A->B")
    advance(supervisor, clock, 2)
    assert fleet.copiers[0].calls.count("drain") == 1
    fleet.copiers[0].life = CopierVitals(state="closed", last=fleet.copiers[0].snapshot())
    advance(supervisor, clock, 2)
    return supervisor


def restarted(
    fleet: FakeFleet, clock: Clock, stop: StopKind, *, started_ms: int = 0, resumable: bool = True, added: bool = False
) -> Supervisor:
    """A supervisor that finds the flow stopped."""
    kept = RememberedFlow(state=Desired.STOPPED, stop=stop, at_ms=clock.wall_ms())
    fleet.answers[FLOW] = DiscoveryAnswer(serial=1, kept=kept)
    flow = FlowPlan(name=FLOW, fingerprint="r1", started_ms=started_ms, resumable=resumable, is_added=added)
    supervisor = Supervisor(SPEC, [flow], ports(fleet, clock), by_topic)
    advance(supervisor, clock, 5)
    return supervisor


def test_a_flow_that_is_stopped_leaves_its_mirror_running(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    advance(supervisor, clock, 60)
    status = supervisor.status()
    assert (status.phase, status.desired, status.copiers) == ("running", Desired.RUNNING, ())
    assert (status.flows[0].desired, status.flows[0].may_return) == (Desired.STOPPED, True)
    assert not supervisor.is_drained


def test_it_is_resumed(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.command(Command.RESUME, "A->B")
    advance(supervisor, clock, 1)
    assert len(fleet.copiers) == 2
    assert (supervisor.status().flows[0].desired, supervisor.status().flows[0].may_return) == (Desired.RUNNING, False)


def test_it_may_return_paused_and_copies_nothing(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.command(Command.PAUSE, "A->B")
    advance(supervisor, clock, 1)
    fleet.copiers[1].life = CopierVitals(state="ready")
    advance(supervisor, clock, 3)
    assert fleet.copiers[1].calls[0] == "pause *"
    assert supervisor.status().flows[0].desired is Desired.PAUSED


def test_without_http_the_mirror_ends_with_its_last_flow(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock, plan=False))
    assert supervisor.is_drained
    with pytest.raises(IllegalCommand):
        supervisor.command(Command.PAUSE, "A->B")


def test_a_failover_of_the_last_flow_ends_the_mirror(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    supervisor.fail_over("A->B", OUTCOME)
    advance(supervisor, clock, 1)
    assert supervisor.is_ending
    assert not supervisor.status().flows[0].may_return


def test_a_restart_of_a_flow_that_was_failed_over_is_refused(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    supervisor.restart("A->B")
    supervisor.fail_over("A->B", OUTCOME)
    with pytest.raises(FailedOverFlow, match="cannot restart flow A->B: it was failed over"):
        supervisor.restart("A->B")


def test_a_stop_of_the_whole_mirror_ends_it(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.command(Command.STOP)
    advance(supervisor, clock, 1)
    assert supervisor.is_drained


def test_a_reload_without_http_ends_a_mirror_whose_flows_are_stopped(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.reconfigure(SPEC, [FlowPlan(name=FLOW, fingerprint="r1")])
    advance(supervisor, clock, 1)
    assert supervisor.is_drained


def test_the_next_supervisor_stays_too(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = restarted(fleet, clock, StopKind.FLOW)
    assert (supervisor.status().phase, supervisor.status().flows[0].may_return) == ("running", True)


@pytest.mark.parametrize("stop", [StopKind.MIRROR, StopKind.FAILOVER])
def test_the_next_supervisor_ends_a_mirror_that_was_stopped_or_failed_over(
    fleet: FakeFleet, clock: Clock, stop: StopKind
) -> None:
    supervisor = restarted(fleet, clock, stop)
    assert supervisor.is_drained
    assert supervisor.status().flows[0].failed_over is (stop is StopKind.FAILOVER)


def test_a_new_start_leaves_a_flow_stopped_that_was_stopped_alone(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = restarted(fleet, clock, StopKind.FLOW, started_ms=clock.wall_ms() + 1)
    assert supervisor.status().flows[0].desired is Desired.STOPPED
    supervisor.command(Command.RESUME, "A->B")
    advance(supervisor, clock, 1)
    assert supervisor.status().flows[0].desired is Desired.RUNNING


@pytest.mark.parametrize(("stop", "resumable"), [(StopKind.MIRROR, True), (StopKind.FLOW, False)])
def test_a_new_start_runs_any_other_flow(fleet: FakeFleet, clock: Clock, stop: StopKind, resumable: bool) -> None:
    supervisor = restarted(fleet, clock, stop, started_ms=clock.wall_ms() + 1, resumable=resumable)
    assert supervisor.status().flows[0].desired is Desired.RUNNING


def test_no_start_and_no_confirmation_runs_a_flow_that_a_failback_has_turned(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = restarted(fleet, clock, StopKind.FAILBACK, started_ms=clock.wall_ms() + 1)
    assert "a failback decides which direction is copied between A and B" in supervisor.refused
    with pytest.raises(NotFailedOver):
        supervisor.command(Command.FORGET, "A->B")


@pytest.mark.parametrize("added", [False, True])
def test_a_new_start_does_not_run_a_flow_that_was_failed_over(fleet: FakeFleet, clock: Clock, added: bool) -> None:
    supervisor = restarted(fleet, clock, StopKind.FAILOVER, started_ms=clock.wall_ms() + 1, added=added)
    assert supervisor.is_drained
    assert supervisor.status().flows[0].failed_over
    assert supervisor.refused.startswith("flow A->B: it was failed over, so applications write to B;")
    assert "raymirror dr failback 'A->B'" in supervisor.refused
    assert not fleet.copiers


def test_a_new_start_tells_a_switchover_from_a_failover(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    supervisor.fail_over("A->B", FailoverOutcome(records=0, groups=0, unequal=0, switched=True))
    supervisor.step()
    supervisor.fail_over("A->B", OUTCOME)
    supervisor.step()
    assert [one.stop for one in fleet.kept[-2:]] == [StopKind.SWITCHOVER, StopKind.FAILOVER]
    again = restarted(fleet, clock, StopKind.SWITCHOVER, started_ms=clock.wall_ms() + 1)
    assert again.refused.startswith("flow A->B: a switchover has stopped it for good, and made B the cluster")
    again.command(Command.FORGET, "A->B")


def test_a_command_before_the_state_is_read_does_not_undo_a_failover(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = Supervisor(SPEC, [FlowPlan(name=FLOW, fingerprint="r1")], ports(fleet, clock), by_topic)
    fleet.answers[FLOW] = DiscoveryAnswer(serial=0)
    supervisor.step()
    supervisor.command(Command.RESUME, "A->B")
    kept = RememberedFlow(state=Desired.STOPPED, stop=StopKind.FAILOVER, at_ms=clock.wall_ms())
    fleet.answers[FLOW] = DiscoveryAnswer(serial=1, kept=kept)
    advance(supervisor, clock, 2)
    assert supervisor.status().flows[0].failed_over
    assert not supervisor.refused, "it is this mirror that has failed over"


def test_a_deleted_flow_that_a_reload_adds_again_runs(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = restarted(fleet, clock, StopKind.DELETED, started_ms=clock.wall_ms() + 1, added=True)
    assert supervisor.status().flows[0].desired is Desired.RUNNING


def test_what_a_stop_is_part_of_is_stored(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.fail_over("A->B", OUTCOME)
    supervisor.command(Command.STOP, "A->B")
    for command in (Command.RESUME, Command.PAUSE):
        with pytest.raises(FailedOverFlow, match=f"cannot {command} flow A->B: it was failed over"):
            supervisor.command(command, "A->B")
    supervisor.command(Command.FORGET, "A->B")
    supervisor.command(Command.RESUME, "A->B")
    kinds = [(one.state, one.stop) for one in fleet.kept[-4:]]
    running = (Desired.RUNNING, StopKind.MIRROR)
    stops = [(Desired.STOPPED, kind) for kind in (StopKind.FLOW, StopKind.FAILOVER, StopKind.MIRROR)]
    assert kinds == [*stops, running]
    assert any(isinstance(event, FailoverForgotten) for event in fleet.told)
    with pytest.raises(NotFailedOver):
        supervisor.command(Command.FORGET, "A->B")


def test_a_deleted_flow_is_stopped_and_comes_back_as_it_is_created(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    supervisor.delete("A->B")
    flow = supervisor.status().flows[0]
    assert (flow.desired, flow.deleted, flow.may_return) == (Desired.STOPPED, True, True)
    supervisor.command(Command.STOP, "A->B")
    flow = supervisor.status().flows[0]
    assert (flow.desired, flow.deleted) == (Desired.STOPPED, False), "created as stopped"
    supervisor.delete("A->B")
    supervisor.command(Command.PAUSE, "A->B")
    flow = supervisor.status().flows[0]
    assert (flow.desired, flow.deleted) == (Desired.PAUSED, False)
    supervisor.delete("A->B")
    supervisor.command(Command.RESUME, "A->B")
    assert not supervisor.status().flows[0].deleted


def test_a_new_start_leaves_a_deleted_flow_deleted(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = restarted(fleet, clock, StopKind.DELETED, started_ms=clock.wall_ms() + 1)
    assert supervisor.status().flows[0].deleted


def test_a_failover_is_stronger_than_a_delete(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    supervisor.fail_over("A->B", OUTCOME)
    supervisor.delete("A->B")
    flow = supervisor.status().flows[0]
    assert (flow.failed_over, flow.deleted) == (True, False)


def test_a_stop_of_the_mirror_counts_for_a_flow_that_was_stopped_before(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    supervisor.command(Command.STOP)
    assert fleet.kept[-1].stop is StopKind.MIRROR


def test_only_the_copiers_that_are_named_are_replaced(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    supervisor.restart("A->B", (fleet.copiers[1].copier_id, "ended since"))
    advance(supervisor, clock, 1)
    fleet.copiers[2].life = CopierVitals(state="ready")
    advance(supervisor, clock, 6)
    assert fleet.copiers[0].calls.count("drain") == 0
    assert fleet.copiers[1].calls.count("drain") == 1
    supervisor.restart("A->B", ())
    advance(supervisor, clock, 3)
    assert len(fleet.copiers) == 3


def test_the_status_knows_the_target_cluster(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    assert supervisor.status().flows[0].target_id == ""
    fleet.answers[FLOW] = DiscoveryAnswer(serial=2, kept=RememberedFlow(), target_id="kafka-1")
    advance(supervisor, clock, 1)
    assert supervisor.status().flows[0].target_id == "kafka-1"


def test_no_copier_starts_while_the_positions_of_a_stopped_flow_are_changed(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = stopped(fleet, clock, resumable(fleet, clock))
    with supervisor.at_rest("A->B"):
        supervisor.command(Command.RESUME, "A->B")
        advance(supervisor, clock, 5)
        assert len(fleet.copiers) == 1
        with pytest.raises(NotAtRest, match="it is not stopped"), supervisor.at_rest("A->B"):
            pass
    advance(supervisor, clock, 1)
    assert len(fleet.copiers) == 2


def test_positions_are_changed_only_after_the_last_copier(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = resumable(fleet, clock)
    with pytest.raises(NotAtRest, match="it is not stopped"), supervisor.at_rest("A->B"):
        pass
    supervisor.command(Command.STOP, "A->B")
    with pytest.raises(NotAtRest, match="still being drained"), supervisor.at_rest("A->B"):
        pass
    supervisor = stopped(fleet, clock, supervisor)
    with supervisor.at_rest("A->B"), pytest.raises(NotAtRest, match="another request"), supervisor.at_rest("A->B"):
        pass
    with pytest.raises(UnknownFlow), supervisor.at_rest("B->A"):
        pass
    supervisor.command(Command.STOP)
    with pytest.raises(NotAtRest, match="its mirror ends"), supervisor.at_rest("A->B"):
        pass
