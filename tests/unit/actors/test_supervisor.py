"""The supervisor, step by step, over a fake fleet."""

import msgspec
import pytest

from actors.desk import UnknownTopic
from actors.ports import Kept, Vital
from actors.states import Command, CopierState, Desired, IllegalCommand
from actors.status import decode_status, encode_status
from actors.supervisor import Replaced, Supervisor, UnknownFlow
from engine.core.events import SourceGap, TopicCreated
from policies.model import TopicPartition
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make


@pytest.fixture
def fleet(clock: Clock) -> FakeFleet:
    return FakeFleet(clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(fleet: FakeFleet, clock: Clock, copiers: int = 1, highest_epoch: int = 0) -> Supervisor:
    """Bring a mirror of two topics to the point where everything is assigned."""
    supervisor = make(fleet, clock, copiers)
    fleet.discover(*lanes("a", 2), *lanes("b", 1), highest_epoch=highest_epoch)
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = Vital(state="ready")
    supervisor.step()
    supervisor.step()
    return supervisor


def advance(supervisor: Supervisor, clock: Clock, seconds: int) -> None:
    """Let time pass, step by step."""
    for _ in range(seconds):
        clock.now_s += 1
        supervisor.step()


def test_copiers_start_while_topics_are_looked_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    assert len(fleet.copiers) == 1
    assert supervisor.status().flows[0].waiting_for == "the first discovery of topics"
    fleet.copiers[0].life = Vital(state="ready")
    fleet.discover()
    supervisor.step()
    assert fleet.copiers[0].calls == []
    assert supervisor.status().flows[0].waiting_for == "topics that match the flow's patterns"


def test_sets_wait_for_the_copiers_first_answer(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    assert fleet.copiers[0].calls == []
    assert supervisor.status().phase == "starting"
    assert "copier to start" in supervisor.status().flows[0].waiting_for
    fleet.copiers[0].life = Vital(state="ready")
    supervisor.step()
    assert fleet.copiers[0].calls == ["assign A->B/a @1 x2"]
    assert supervisor.status().phase == "running"


def test_epochs_grow_from_the_highest_found(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock, highest_epoch=41)
    assert fleet.copiers[0].calls == ["assign A->B/a @42 x2", "assign A->B/b @43 x1"]


def test_nothing_is_said_twice(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    said = list(fleet.copiers[0].calls)
    supervisor.step()
    supervisor.step()
    assert fleet.copiers[0].calls == said


def test_lanes_spread_over_copiers_and_stay(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    assert [list(copier.sets) for copier in fleet.copiers] == [["A->B/a"], ["A->B/b"]]
    fleet.discover(*lanes("a", 2), *lanes("b", 1), *lanes("c", 3))
    advance(supervisor, clock, 80)
    assert [sorted(copier.sets) for copier in fleet.copiers] == [["A->B/a", "A->B/b"], ["A->B/c"]], "three lanes each"
    calls = [list(copier.calls) for copier in fleet.copiers]
    for _ in range(20):
        clock.now_s += 1
        supervisor.step()
    assert [copier.calls for copier in fleet.copiers] == calls, "and there they rest"


def test_new_partitions_join_their_set_at_its_epoch(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.discover(*lanes("a", 4), *lanes("b", 1))
    supervisor.step()
    assert fleet.copiers[0].calls[-1] == "assign A->B/a @1 x4"


def test_the_sets_of_a_dead_copier_move_at_a_higher_epoch(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    first = fleet.copiers[0]
    first.at[lanes("a", 1)[0]] = (70, 100)
    supervisor.step()
    first.life = Vital(state="dead", cause="killed")
    supervisor.step()
    second = fleet.copiers[1]
    assert fleet.retired == [first.copier_id]
    assert second.copier_id != first.copier_id
    second.life = Vital(state="ready")
    supervisor.step()
    assert second.calls == ["assign A->B/a @3 x2", "assign A->B/b @4 x1"]
    status = supervisor.status()
    assert status.flows[0].records == 70, "what the dead one had counted is kept"
    assert any("killed" in event.text and event.severity == "error" for event in status.events)


def test_a_copier_that_cannot_live_is_started_ever_slower(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    starts = []
    for _ in range(60):
        fleet.copiers[-1].life = Vital(state="dead", cause="no target")
        supervisor.step()
        starts.append(len(fleet.copiers))
        clock.now_s += 1
    assert starts[0] == 2, "the first replacement comes at once"
    assert starts[-1] <= 8
    clock.now_s += 31
    supervisor.step()
    assert len(fleet.copiers) == starts[-1] + 1, "but it never gives up"


def test_an_assignment_that_was_not_heard_is_said_again(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    copier = fleet.copiers[0]
    copier.life = Vital(state="ready")
    copier.deaf = True
    supervisor.step()
    assert copier.calls == []
    assert "deaf" in supervisor.status().flows[0].waiting_for
    copier.deaf = False
    supervisor.step()
    assert copier.calls == ["assign A->B/a @1 x2"]
    assert supervisor.status().flows[0].waiting_for == ""


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


def test_resume_of_a_running_flow_wakes_stopped_lanes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.copiers[0].calls.clear()
    supervisor.command(Command.RESUME)
    supervisor.step()
    assert fleet.copiers[0].calls == ["wake"]


def test_a_new_copier_of_a_paused_flow_is_paused_before_it_is_assigned(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.PAUSE)
    fleet.copiers[0].life = Vital(state="dead", cause="killed")
    supervisor.step()
    fleet.copiers[1].life = Vital(state="ready")
    supervisor.step()
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
    copier.life = Vital(state="closed", last=copier.snapshot())
    supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [copier.copier_id]
    assert len(fleet.copiers) == 1
    assert supervisor.status().phase == "stopped"
    assert supervisor.status().flows[0].records == 9
    with pytest.raises(IllegalCommand, match="raymirror run"):
        supervisor.command(Command.RESUME)


def test_a_drain_leaves_the_desired_state(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.drain()
    supervisor.step()
    fleet.copiers[0].life = Vital(state="closed")
    supervisor.step()
    assert supervisor.is_drained
    assert supervisor.desired is Desired.RUNNING


def test_a_copier_that_does_not_drain_is_killed(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.command(Command.STOP)
    supervisor.step()
    for _ in range(21):
        clock.now_s += 1
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


def test_lag_is_known_only_when_every_lane_told_it(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    b0 = lanes("b", 1)[0]
    fleet.copiers[0].at = {a0: (5, 10), a1: (10, 10), b0: (-1, -1)}
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes, flow.lanes) == (5, 1, 3)
    fleet.copiers[0].at[b0] = (3, 3)
    fleet.copiers[0].at[a0] = (10, 10)
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes) == (0, 0)


def test_rates_follow_the_counters(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    lane = lanes("a", 1)[0]
    for second in range(1, 10):
        clock.now_s += 1
        fleet.copiers[0].at[lane] = (second * 1000, 10_000)
        supervisor.step()
    flow = supervisor.status().flows[0]
    assert flow.records_per_s == pytest.approx(1000)
    assert flow.bytes_per_s == pytest.approx(100_000)


def test_events_arrive_once_from_both_sides_and_are_bounded(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    created = TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=1)
    fleet.discover(*lanes("a", 1), events=(created,))
    supervisor.step()
    copier = fleet.copiers[0]
    copier.life = Vital(state="ready")
    copier.events.append(SourceGap(flow=FLOW, lane=TopicPartition("a", 0), first=1, last=9, cause="retention"))
    supervisor.step()
    supervisor.step()
    texts = [event.text for event in supervisor.status().events]
    assert len(texts) == 2
    assert texts[0] == created.text()
    assert "source offsets 1 to 9 are gone" in texts[1]
    for number in range(600):
        copier.events.append(TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=number))
    supervisor.step()
    assert len(supervisor.status().events) == 500


def test_a_discovery_that_fails_is_said_once_and_copying_goes_on(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], failure="source: no answer")
    supervisor.step()
    supervisor.step()
    status = supervisor.status()
    assert status.flows[0].waiting_for == "source: no answer"
    assert [event.text for event in status.events] == ["source: no answer"]
    assert status.phase == "running"


def test_wrong_names_are_refused(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    with pytest.raises(UnknownFlow, match="it has: A->B"):
        supervisor.command(Command.PAUSE, "A->C")
    with pytest.raises(UnknownTopic, match="no topic 'zzz'"):
        supervisor.command(Command.PAUSE, "A->B", ("zzz",))
    assert supervisor.status().flows[0].paused_topics == ()


def test_a_status_crosses_processes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    status = supervisor.status(lanes=True)
    assert len(status.lanes) == 3
    assert decode_status(encode_status(status)) == status


# --- leases -------------------------------------------------------------------------------------------------------


def test_a_silent_copier_keeps_its_sets_until_its_lease_has_run_out(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    silent, other = fleet.copiers
    silent.deaf = True
    clock.now_s += 6.4
    supervisor.step()
    assert sorted(other.sets) == ["A->B/b"], "it may still write"
    assert silent.hushed, "its lease is not renewed any more"
    clock.now_s += 0.8
    supervisor.step()
    supervisor.step()
    assert sorted(other.sets) == ["A->B/a", "A->B/b"]
    assert other.sets["A->B/a"].epoch == 3
    assert silent.copier_id in fleet.retired
    assert any("its lease ran out" in event.text for event in supervisor.status().events)


def test_a_copier_on_a_lost_node_keeps_its_sets_until_its_lease_has_run_out(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    lost, other = fleet.copiers
    lost.life = Vital(state="lost", cause="its node")
    supervisor.step()
    assert sorted(other.sets) == ["A->B/b"], "nobody knows whether its process has ended"
    advance(supervisor, clock, 8)
    assert sorted(other.sets) == ["A->B/a", "A->B/b"]


def test_a_copier_with_a_stuck_data_loop_is_told_from_an_idle_one(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    stuck, idle = fleet.copiers
    stuck.frozen_loop = True
    for _ in range(12):
        clock.now_s += 1
        supervisor.step()
    assert fleet.retired == [stuck.copier_id]
    assert sorted(idle.sets) == ["A->B/a", "A->B/b"]
    assert any("stood still" in event.text for event in supervisor.status().events)


# --- a new supervisor ---------------------------------------------------------------------------------------------


def adopt(fleet: FakeFleet, clock: Clock, copiers: int = 1, recipe: str = "r1") -> Supervisor:
    """Begin a second supervisor over the copiers of the first."""
    clock.now_s += 1
    second = FakeFleet(clock)
    second.left = [copier for copier in fleet.copiers if copier.life.state == "ready"]
    second.answers = dict(fleet.answers)
    fleet.retired, fleet.copiers = second.retired, second.copiers
    return make(second, clock, copiers, recipe)


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
    fleet.discover(*lanes("a", 1), kept=Kept(state=Desired.PAUSED))
    supervisor.step()
    fleet.copiers[0].life = Vital(state="ready")
    supervisor.step()
    assert fleet.copiers[0].calls == ["pause *", "assign A->B/a @1 x1"]


def test_nothing_is_placed_before_what_is_wanted_was_read(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1), kept=None)
    supervisor.step()
    fleet.copiers[0].life = Vital(state="ready")
    supervisor.step()
    assert fleet.copiers[0].calls == []


def test_an_older_supervisor_stands_down(fleet: FakeFleet, clock: Clock) -> None:
    older = started(fleet, clock)
    copier = fleet.copiers[0]
    copier.orders = msgspec.structs.replace(copier.orders, term=older.term + 5)
    copier.tell(copier.orders)
    with pytest.raises(Replaced, match="newer supervisor"):
        older.step()


def test_an_outdated_copier_hands_over_to_a_new_one(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    old = fleet.copiers[0]
    supervisor = adopt(fleet, clock, recipe="r2")
    for _ in range(3):
        supervisor.step()
    fresh = fleet.copiers[1]
    assert sorted(old.sets) == ["A->B/a", "A->B/b"], "it copies until there is somebody else"
    fresh.life = Vital(state="ready")
    for _ in range(4):
        supervisor.step()
    assert sorted(fresh.sets) == ["A->B/a", "A->B/b"]
    assert {group.epoch for group in fresh.sets.values()} == {3, 4}
    assert old.calls[-1] == "drain"
    old.life = Vital(state="closed", last=old.snapshot())
    supervisor.step()
    assert fleet.retired == [old.copier_id]


# --- moves --------------------------------------------------------------------------------------------------------


def test_a_set_moves_only_when_it_was_let_go(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    old = fleet.copiers[0]
    old.slow_to_let_go = True
    supervisor = adopt(fleet, clock, recipe="r2")
    for _ in range(2):
        supervisor.step()
    fresh = fleet.copiers[1]
    fresh.life = Vital(state="ready")
    for _ in range(5):
        supervisor.step()
    assert fresh.sets == {}
    old.sets.clear()
    for _ in range(3):
        supervisor.step()
    assert sorted(fresh.sets) == ["A->B/a", "A->B/b"]


def test_another_deployment_of_the_same_flow_ends_this_one(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], taken="mirrored by another deployment")
    supervisor.step()
    supervisor.step()
    assert fleet.copiers[0].calls[-1] == "drain"
    assert supervisor.refused == "mirrored by another deployment"


# --- sets that end their copiers ----------------------------------------------------------------------------------


def test_a_set_that_ends_its_copiers_is_quarantined_alone(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock, copiers=3)
    fleet.discover(*(lane for topic in "abcdef" for lane in lanes(topic, 1)))
    supervisor.step()
    for _ in range(200):
        clock.now_s += 1
        for copier in fleet.copiers:
            if copier.life.state == "starting":
                copier.life = Vital(state="ready")
            if "A->B/d" in copier.sets and copier.life.state == "ready":
                copier.life = Vital(state="dead", cause="poison")
        supervisor.step()
    living = [copier for copier in fleet.copiers if copier.life.state == "ready"]
    held = sorted(set_id for copier in living for set_id in copier.sets)
    assert held == ["A->B/a", "A->B/b", "A->B/c", "A->B/e", "A->B/f"]
    assert "A->B/d is in quarantine" in supervisor.status().flows[0].waiting_for
    assert "poison" in supervisor.status().flows[0].waiting_for
    deaths = len(fleet.copiers)
    supervisor.command(Command.RESUME)
    advance(supervisor, clock, 5)
    tried = [copier for copier in fleet.copiers if "A->B/d" in copier.sets and copier.life.state == "ready"]
    assert tried, "the operator says: try it now"
    assert len(tried[0].sets) == 1, "alone"
    assert len(fleet.copiers) >= deaths


def test_a_set_that_has_just_come_to_a_survivor_is_not_moved_on_at_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    dead, survivor = fleet.copiers
    advance(supervisor, clock, 20)
    dead.life = Vital(state="dead", cause="killed")
    supervisor.step()
    assert sorted(survivor.sets) == ["A->B/a", "A->B/b"]
    fleet.copiers[-1].life = Vital(state="ready")
    advance(supervisor, clock, 10)
    assert sorted(survivor.sets) == ["A->B/a"], "it resumes, and would pause twice; the other one may move"
    assert [call for call in survivor.calls if "A->B/a" in call] == ["assign A->B/a @3 x2"]


def test_a_topic_that_is_gone_is_said(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.discover(*lanes("b", 1))
    advance(supervisor, clock, 3)
    assert sorted(lane.source.topic for group in fleet.copiers[0].sets.values() for lane in group.lanes) == ["b"]
    (event,) = [event for event in supervisor.status().events if "gone from the source" in event.text]
    assert (event.severity, event.about) == ("error", "a")
