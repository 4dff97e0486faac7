"""The supervisor, step by step, over a fake fleet."""

import msgspec
import pytest

from actors.desk import UnknownTopic
from actors.ports import Vital
from actors.states import Command, CopierState, Desired, IllegalCommand
from actors.status import decode_status, encode_status
from actors.supervisor import Supervisor, UnknownFlow
from engine.core.events import SourceGap, TopicCreated
from policies.model import TopicPartition
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def started(fleet: FakeFleet, clock: Clock, copiers: int = 1, highest_epoch: int = 0) -> Supervisor:
    """Bring a mirror of two topics to the point where everything is assigned."""
    supervisor = make(fleet, clock, copiers)
    fleet.discover(*lanes("a", 2), *lanes("b", 1), highest_epoch=highest_epoch)
    await supervisor.step()
    for copier in fleet.copiers:
        copier.life = Vital(state="ready")
    await supervisor.step()
    return supervisor


async def test_copiers_start_while_topics_are_looked_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    await supervisor.step()
    assert len(fleet.copiers) == 1
    assert supervisor.status().flows[0].waiting_for == "the first discovery of topics"
    fleet.copiers[0].life = Vital(state="ready")
    fleet.discover()
    await supervisor.step()
    assert fleet.copiers[0].calls == []
    assert supervisor.status().flows[0].waiting_for == "topics that match the flow's patterns"


async def test_sets_wait_for_the_copiers_first_answer(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    await supervisor.step()
    assert fleet.copiers[0].calls == []
    assert supervisor.status().phase == "starting"
    assert "copier to start" in supervisor.status().flows[0].waiting_for
    fleet.copiers[0].life = Vital(state="ready")
    await supervisor.step()
    assert fleet.copiers[0].calls == ["assign A->B/a @1 x2"]
    assert supervisor.status().phase == "running"


async def test_epochs_grow_from_the_highest_found(fleet: FakeFleet, clock: Clock) -> None:
    await started(fleet, clock, highest_epoch=41)
    assert fleet.copiers[0].calls == ["assign A->B/a @42 x2", "assign A->B/b @43 x1"]


async def test_nothing_is_said_twice(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    said = list(fleet.copiers[0].calls)
    await supervisor.step()
    await supervisor.step()
    assert fleet.copiers[0].calls == said


async def test_lanes_spread_over_copiers_and_stay(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock, copiers=2)
    assert [list(copier.sets) for copier in fleet.copiers] == [["A->B/a"], ["A->B/b"]]
    fleet.discover(*lanes("a", 2), *lanes("b", 1), *lanes("c", 3))
    await supervisor.step()
    assert [sorted(copier.sets) for copier in fleet.copiers] == [["A->B/a"], ["A->B/b", "A->B/c"]]


async def test_new_partitions_join_their_set_at_its_epoch(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    fleet.discover(*lanes("a", 4), *lanes("b", 1))
    await supervisor.step()
    assert fleet.copiers[0].calls[-1] == "assign A->B/a @1 x4"


async def test_the_sets_of_a_dead_copier_move_at_a_higher_epoch(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    first = fleet.copiers[0]
    first.at[lanes("a", 1)[0]] = (70, 100)
    await supervisor.step()
    first.life = Vital(state="dead", cause="killed")
    await supervisor.step()
    second = fleet.copiers[1]
    assert fleet.retired == [first.copier_id]
    assert second.copier_id != first.copier_id
    second.life = Vital(state="ready")
    await supervisor.step()
    assert second.calls == ["assign A->B/a @3 x2", "assign A->B/b @4 x1"]
    status = supervisor.status()
    assert status.flows[0].records == 70, "what the dead one had counted is kept"
    assert any("killed" in event.text and event.severity == "error" for event in status.events)


async def test_a_copier_that_cannot_live_is_started_ever_slower(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    starts = []
    for _ in range(60):
        fleet.copiers[-1].life = Vital(state="dead", cause="no target")
        await supervisor.step()
        starts.append(len(fleet.copiers))
        clock.now_s += 1
    assert starts[0] == 2, "the first replacement comes at once"
    assert starts[-1] <= 8
    clock.now_s += 31
    await supervisor.step()
    assert len(fleet.copiers) == starts[-1] + 1, "but it never gives up"


async def test_an_assignment_that_was_not_heard_is_said_again(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    await supervisor.step()
    copier = fleet.copiers[0]
    copier.life = Vital(state="ready")
    copier.deaf = True
    await supervisor.step()
    assert "deaf" in supervisor.status().flows[0].waiting_for
    copier.deaf = False
    await supervisor.step()
    assert copier.calls == ["assign A->B/a @1 x2"]
    assert supervisor.status().flows[0].waiting_for == ""


async def test_pause_and_resume_reach_the_copier_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    copier = fleet.copiers[0]
    copier.calls.clear()
    supervisor.command(Command.PAUSE)
    assert supervisor.status().desired is Desired.PAUSED
    await supervisor.step()
    await supervisor.step()
    supervisor.command(Command.RESUME, "A->B")
    await supervisor.step()
    await supervisor.step()
    assert copier.calls == ["pause *", "resume *"]


async def test_topics_are_paused_alone(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    copier = fleet.copiers[0]
    copier.calls.clear()
    supervisor.command(Command.PAUSE, "A->B", ("a", "b"))
    await supervisor.step()
    assert supervisor.status().flows[0].paused_topics == ("a", "b")
    assert supervisor.status().flows[0].desired is Desired.RUNNING
    supervisor.command(Command.RESUME, "A->B", ("a",))
    await supervisor.step()
    assert copier.calls == ["pause a,b", "resume a", "pause b"]


async def test_resume_of_a_running_flow_wakes_stopped_lanes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    fleet.copiers[0].calls.clear()
    supervisor.command(Command.RESUME)
    await supervisor.step()
    assert fleet.copiers[0].calls == ["resume *"]


async def test_a_new_copier_of_a_paused_flow_is_paused_before_it_is_assigned(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    supervisor.command(Command.PAUSE)
    fleet.copiers[0].life = Vital(state="dead", cause="killed")
    await supervisor.step()
    fleet.copiers[1].life = Vital(state="ready")
    await supervisor.step()
    assert fleet.copiers[1].calls[0] == "pause *"
    assert fleet.copiers[1].calls[1].startswith("assign")


async def test_stop_drains_and_is_final(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    copier = fleet.copiers[0]
    supervisor.command(Command.STOP)
    await supervisor.step()
    await supervisor.step()
    assert copier.calls.count("drain") == 1
    assert not supervisor.is_drained
    assert supervisor.status().phase == "draining"
    assert supervisor.status().copiers[0].state is CopierState.DRAINING
    copier.at[lanes("a", 1)[0]] = (9, 9)
    copier.life = Vital(state="closed", last=copier.snapshot())
    await supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [copier.copier_id]
    assert len(fleet.copiers) == 1
    assert supervisor.status().phase == "stopped"
    assert supervisor.status().flows[0].records == 9
    with pytest.raises(IllegalCommand, match="raymirror run"):
        supervisor.command(Command.RESUME)


async def test_a_drain_leaves_the_desired_state(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    supervisor.drain()
    await supervisor.step()
    fleet.copiers[0].life = Vital(state="closed")
    await supervisor.step()
    assert supervisor.is_drained
    assert supervisor.desired is Desired.RUNNING


async def test_a_copier_that_does_not_drain_is_killed(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    supervisor.command(Command.STOP)
    await supervisor.step()
    clock.now_s += 21
    await supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [fleet.copiers[0].copier_id]
    assert any("did not drain" in event.text for event in supervisor.status().events)


async def test_a_copier_that_has_not_answered_yet_is_not_waited_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 1))
    await supervisor.step()
    supervisor.command(Command.STOP)
    await supervisor.step()
    assert supervisor.is_drained
    assert fleet.retired == [fleet.copiers[0].copier_id]


async def test_lag_is_known_only_when_every_lane_told_it(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    a0, a1 = lanes("a", 2)
    b0 = lanes("b", 1)[0]
    fleet.copiers[0].at = {a0: (5, 10), a1: (10, 10), b0: (-1, -1)}
    await supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes, flow.lanes) == (5, 1, 3)
    fleet.copiers[0].at[b0] = (3, 3)
    fleet.copiers[0].at[a0] = (10, 10)
    await supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes) == (0, 0)


async def test_rates_follow_the_counters(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    lane = lanes("a", 1)[0]
    for second in range(1, 10):
        clock.now_s += 1
        fleet.copiers[0].at[lane] = (second * 1000, 10_000)
        await supervisor.step()
    flow = supervisor.status().flows[0]
    assert flow.records_per_s == pytest.approx(1000)
    assert flow.bytes_per_s == pytest.approx(100_000)


async def test_events_arrive_once_from_both_sides_and_are_bounded(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    created = TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=1)
    fleet.discover(*lanes("a", 1), events=(created,))
    await supervisor.step()
    copier = fleet.copiers[0]
    copier.life = Vital(state="ready")
    copier.events.append(SourceGap(flow=FLOW, lane=TopicPartition("a", 0), first=1, last=9, cause="retention"))
    await supervisor.step()
    await supervisor.step()
    texts = [event.text for event in supervisor.status().events]
    assert len(texts) == 2
    assert texts[0] == created.text()
    assert "source offsets 1 to 9 are gone" in texts[1]
    for number in range(600):
        copier.events.append(TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=number))
    await supervisor.step()
    assert len(supervisor.status().events) == 500


async def test_a_discovery_that_fails_is_said_once_and_copying_goes_on(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], failure="source: no answer")
    await supervisor.step()
    await supervisor.step()
    status = supervisor.status()
    assert status.flows[0].waiting_for == "source: no answer"
    assert [event.text for event in status.events] == ["source: no answer"]
    assert status.phase == "running"
    fleet.metadata_down = True
    await supervisor.step()
    assert "metadata" in supervisor.status().flows[0].waiting_for


async def test_wrong_names_are_refused(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    with pytest.raises(UnknownFlow, match="it has: A->B"):
        supervisor.command(Command.PAUSE, "A->C")
    with pytest.raises(UnknownTopic, match="no topic 'zzz'"):
        supervisor.command(Command.PAUSE, "A->B", ("zzz",))
    assert supervisor.status().flows[0].paused_topics == ()


async def test_a_status_crosses_processes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = await started(fleet, clock)
    status = supervisor.status(lanes=True)
    assert len(status.lanes) == 3
    assert decode_status(encode_status(status)) == status
