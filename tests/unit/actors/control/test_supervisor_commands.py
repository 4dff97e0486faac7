"""Commands of an operator to the supervisor: pause, resume, stop, drain, and what is refused."""

import pickle

import pytest

from actors.control.flow_state import DesiredFlow, FlowPlan, FlowState, TopicsNotKnownYet, UnknownTopic
from actors.control.ports import CopierVitals, DiscoveryAnswer, RememberedFlow
from actors.model.events import FailoverOutcome
from actors.model.states import Command, CopierState, Desired, IllegalCommand, MovedTopics, StopKind, UnknownFlow
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, by_topic, lanes, make
from tests.unit.actors.mirrors import adopt, advance, started


def test_pause_and_resume_reach_the_copier_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    copier = fleet.copiers[0]
    copier.calls.clear()
    supervisor.command(Command.PAUSE)
    assert supervisor.status().desired is Desired.PAUSED
    supervisor.step()
    supervisor.step()
    supervisor.command(Command.RESUME, "A->B")
    supervisor.step()
    supervisor.step()
    assert copier.calls == ["pause *", "pause nothing"]
    assert [kept.state for kept in fleet.kept] == [Desired.PAUSED, Desired.RUNNING]
    told = [event.text for event in supervisor.status().events if event.kind == "paused_or_resumed"]
    assert told == ["an operator paused the flow", "an operator resumed the flow"]


def test_topics_are_paused_alone(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    copier = fleet.copiers[0]
    copier.calls.clear()
    supervisor.command(Command.PAUSE, "A->B", ("a", "b"))
    supervisor.step()
    assert supervisor.status().flows[0].paused_topics == ("a", "b")
    assert supervisor.status().flows[0].desired is Desired.RUNNING
    supervisor.command(Command.RESUME, "A->B", ("a",))
    supervisor.step()
    assert copier.calls == ["pause a,b", "pause b"]
    assert fleet.kept[-1].paused_topics == ("b",)
    told = [event.text for event in supervisor.status().events if event.kind == "paused_or_resumed"]
    assert told == ["an operator paused a, b", "an operator resumed a"]


def test_resume_of_a_running_flow_wakes_stopped_lanes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.copiers[0].calls.clear()
    supervisor.command(Command.RESUME)
    supervisor.step()
    assert fleet.copiers[0].calls == ["wake"]


def test_a_new_copier_of_a_paused_flow_is_paused_before_it_is_assigned(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE)
    fleet.copiers[0].life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    fleet.copiers[1].life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert fleet.copiers[1].calls[0] == "pause *"
    assert fleet.copiers[1].calls[1].startswith("assign")


def test_stop_drains_and_is_final(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    copier = fleet.copiers[0]
    supervisor.command(Command.STOP)
    supervisor.step()
    supervisor.step()
    assert copier.calls.count("drain") == 1
    assert not supervisor.is_drained
    assert supervisor.status().phase == "draining"
    assert supervisor.status().copiers[0].state is CopierState.DRAINING
    copier.at[lanes("a", 1)[0]] = (9, 9)
    copier.life = CopierVitals(state="closed", last=copier.snapshot())
    supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [copier.copier_id]
    assert len(fleet.copiers) == 1
    assert supervisor.status().phase == "stopped"
    assert supervisor.status().flows[0].records == 9
    with pytest.raises(IllegalCommand, match="raymirror run"):
        supervisor.command(Command.RESUME)


def test_what_was_paused_stays_so_over_a_stop_and_the_next_start(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE, topics=("a",))
    supervisor.command(Command.STOP)
    supervisor.step()
    assert fleet.copiers[0].orders.paused_topics == {"a"}, "nothing of it is copied while the mirror drains"
    kept = fleet.kept[-1]
    assert (kept.state, kept.paused_topics) == (Desired.STOPPED, ("a",))
    for started_ms, state in ((kept.at_ms + 1, Desired.RUNNING), (kept.at_ms, Desired.STOPPED)):
        flow_state = FlowState(FlowPlan(name=FLOW, started_ms=started_ms), by_topic)
        flow_state.apply_discovery(DiscoveryAnswer(serial=1, lanes=lanes("a", 2), kept=kept), clock.now_s())
        assert flow_state.wanted == DesiredFlow(state=state, paused_topics=frozenset({"a"}))


def test_a_drain_leaves_the_desired_state(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.drain()
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="closed")
    supervisor.step()
    assert supervisor.is_drained
    assert supervisor.desired is Desired.RUNNING


def test_a_copier_that_does_not_drain_is_killed(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.STOP)
    supervisor.step()
    for _ in range(21):
        clock.seconds += 1
        supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [fleet.copiers[0].copier_id]
    assert any("did not drain" in event.text for event in supervisor.status().events)


def test_a_copier_that_has_not_answered_yet_is_not_waited_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1))
    supervisor.step()
    supervisor.command(Command.STOP)
    supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [fleet.copiers[0].copier_id]


def test_wrong_names_are_refused(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    with pytest.raises(UnknownFlow, match="it has: A->B"):
        supervisor.command(Command.PAUSE, "A->C")
    with pytest.raises(UnknownTopic, match="no topic 'zzz'"):
        supervisor.command(Command.PAUSE, "A->B", ("zzz",))
    assert supervisor.status().flows[0].paused_topics == ()


@pytest.mark.parametrize("command", [Command.PAUSE, Command.RESUME])
@pytest.mark.parametrize("flow", [None, "A->B"])
def test_before_the_first_discovery_no_topic_is_said_to_be_unknown(
    fleet: FakeFleet, clock: Clock, command: Command, flow: str | None
) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    with pytest.raises(TopicsNotKnownYet, match=r"not known yet.*it waits for the first discovery of topics"):
        supervisor.command(command, flow, ("a",))
    fleet.answers[FLOW] = DiscoveryAnswer(serial=0, kept=RememberedFlow(), failure="cluster 'A' is away")
    supervisor.step()
    with pytest.raises(TopicsNotKnownYet, match="it waits for cluster 'A' is away") as caught:
        supervisor.command(command, flow, ("a",))
    assert caught.value.exit_code == 1
    fleet.answers[FLOW] = DiscoveryAnswer(serial=0, awaited="a sign of life, up to 5 s")
    supervisor.step()
    assert supervisor.status().flows[0].waiting_for == "a sign of life, up to 5 s"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    fleet.discover(*lanes("a", 1))
    supervisor.step()
    supervisor.command(command, flow, ("a",))
    with pytest.raises(UnknownTopic):
        supervisor.command(command, flow, ("b",))


def test_a_topic_that_a_copier_has_is_known_before_the_first_discovery(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    fleet.answers.clear()
    second = adopt(fleet, clock)
    second.step()
    second.command(Command.PAUSE, "A->B", ("a",))
    assert second.status().flows[0].paused_topics == ("a",)
    with pytest.raises(TopicsNotKnownYet):
        second.command(Command.PAUSE, "A->B", ("zzz",))


# --- topics whose producers have moved -------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [None, "A->B"])
@pytest.mark.parametrize("before", [Command.PAUSE, Command.RESUME])
def test_a_resume_of_the_flow_leaves_moved_topics_paused_and_says_so(
    fleet: FakeFleet, clock: Clock, flow: str | None, before: Command
) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE, "A->B", ("b",))
    supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    supervisor.command(before, flow)
    supervisor.command(Command.RESUME, flow)
    supervisor.step()
    found = supervisor.status().flows[0]
    assert (found.desired, found.paused_topics, found.moved_topics) == (Desired.RUNNING, ("a",), ("a",))
    assert fleet.copiers[0].orders.paused_topics == {"a"}
    assert (fleet.kept[-1].paused_topics, fleet.kept[-1].moved_topics) == (("a",), ("a",))
    told = [event.text for event in supervisor.status().events if event.kind == "paused_or_resumed"]
    assert told[1] == "producers of a move to the target: these topics stay paused"
    assert told[-1] == "an operator resumed the flow; a stays paused, because producers have moved"


def test_a_moved_topic_is_resumed_by_no_name_and_is_released(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    supervisor.command(Command.PAUSE, "A->B", ("b",))
    for flow in (None, "A->B"):
        with pytest.raises(MovedTopics, match="raymirror move --topics 'a' 'A->B' --undo") as refused:
            supervisor.command(Command.RESUME, flow, ("b", "a"))
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert supervisor.status().flows[0].paused_topics == ("a", "b")
    supervisor.command(Command.RELEASE_MOVED, "A->B", ("a", "b"))
    supervisor.step()
    assert fleet.copiers[0].orders.paused_topics == {"b"}, "an operator has paused b"
    assert supervisor.status().flows[0].moved_topics == ()


def test_producers_of_a_stopped_flow_move_too_and_its_next_start_knows(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.STOP, "A->B")
    supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    kept = fleet.kept[-1]
    assert (kept.state, kept.moved_topics) == (Desired.STOPPED, ("a",))
    flow_state = FlowState(FlowPlan(name=FLOW, started_ms=kept.at_ms + 1), by_topic)
    flow_state.apply_discovery(DiscoveryAnswer(serial=1, lanes=lanes("a", 2), kept=kept), clock.now_s())
    assert flow_state.wanted == DesiredFlow(paused_topics=frozenset("a"), moved_topics=frozenset("a"))


def test_the_time_of_a_failover_stays_when_producers_move(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.fail_over("A->B", FailoverOutcome(records=0, groups=0, unequal=0))
    at_ms = fleet.kept[-1].at_ms
    clock.seconds += 5
    supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    kept = fleet.kept[-1]
    assert (kept.at_ms, kept.stop, kept.moved_topics) == (at_ms, StopKind.FAILOVER, ("a",))


@pytest.mark.parametrize("command", [Command.RESUME, Command.PAUSE])
def test_a_command_before_the_stored_state_was_read_forgets_no_moved_topic(
    fleet: FakeFleet, clock: Clock, command: Command
) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1), kept=None)
    supervisor.step()
    with pytest.raises(TopicsNotKnownYet):
        supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    supervisor.command(command)
    assert fleet.kept[-1].is_blind
    fleet.discover(*lanes("a", 1), kept=RememberedFlow(paused_topics=("a", "b"), moved_topics=("a",)))
    supervisor.step()
    kept = fleet.kept[-1]
    assert (kept.is_blind, kept.paused_topics, kept.moved_topics) == (False, ("a",), ("a",))


def test_a_new_supervisor_ends_no_pause_that_it_has_not_read_yet(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE_MOVED, "A->B", ("a",))
    advance(supervisor, clock, 2)
    fleet.discover(*lanes("a", 2), *lanes("b", 1), kept=None)
    second = adopt(fleet, clock)
    advance(second, clock, 5)
    copier = fleet.copiers[0]
    assert copier.orders.paused_topics == {"a"}
    assert copier.granted_until_s > clock.now_s(), "its lease is renewed meanwhile"
