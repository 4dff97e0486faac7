"""The supervisor, step by step, over a fake fleet: copiers start, sets find owners, orders are sent."""

import msgspec

from actors.cli.running.background import has_begun
from actors.control.ports import CopierVitals, DiscoveryAnswer
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import advance, started


def test_copiers_start_while_topics_are_looked_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    assert len(fleet.copiers) == 1
    assert supervisor.status().flows[0].waiting_for == "the first discovery of topics"
    fleet.copiers[0].life = CopierVitals(state="ready")
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
    fleet.copiers[0].life = CopierVitals(state="ready")
    supervisor.step()
    assert fleet.copiers[0].calls == [], "it has started, and reports a moment later"
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
        clock.seconds += 1
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
    first.life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    second = fleet.copiers[1]
    assert fleet.retired == [first.copier_id]
    assert second.copier_id != first.copier_id
    second.life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert second.calls == ["assign A->B/a @3 x2", "assign A->B/b @4 x1"]
    status = supervisor.status()
    assert status.flows[0].records == 70, "what the dead one had counted is kept"
    assert any("killed" in event.text and event.severity == "error" for event in status.events)


def test_a_copier_that_cannot_live_is_started_ever_slower(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    starts = []
    for _ in range(60):
        fleet.copiers[-1].life = CopierVitals(state="dead", cause="no target")
        supervisor.step()
        starts.append(len(fleet.copiers))
        clock.seconds += 1
    assert starts[0] == 2, "the first replacement comes at once"
    assert starts[-1] <= 8
    clock.seconds += 31
    supervisor.step()
    assert len(fleet.copiers) == starts[-1] + 1, "but it never gives up"


def test_an_assignment_that_was_not_heard_is_said_again(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    copier = fleet.copiers[0]
    copier.life = CopierVitals(state="ready")
    copier.deaf = True
    supervisor.step()
    assert copier.calls == []
    assert "deaf" in supervisor.status().flows[0].waiting_for
    copier.deaf = False
    advance(supervisor, clock, 2)
    assert copier.calls == ["assign A->B/a @1 x2"]
    assert supervisor.status().flows[0].waiting_for == ""


def test_a_discovery_that_fails_is_said_once_and_copying_goes_on(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], failure="source: no answer")
    supervisor.step()
    supervisor.step()
    status = supervisor.status()
    assert status.flows[0].waiting_for == "source: no answer"
    assert [event.text for event in status.events] == ["source: no answer"]
    assert status.phase == "running"


def test_a_topic_that_is_gone_is_said(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.discover(*lanes("b", 1))
    advance(supervisor, clock, 3)
    assert sorted(lane.source.topic for group in fleet.copiers[0].sets.values() for lane in group.lanes) == ["b"]
    (event,) = [event for event in supervisor.status().events if "gone from the source" in event.text]
    assert (event.severity, event.about) == ("error", "a")


def test_another_deployment_of_the_same_flow_ends_this_one(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], taken="mirrored by another deployment")
    supervisor.step()
    supervisor.step()
    assert fleet.copiers[0].calls[-1] == "drain"
    assert supervisor.refused == "mirrored by another deployment"


def test_a_flow_that_may_be_another_s_gets_no_further_lease_before_that_is_known(
    fleet: FakeFleet, clock: Clock
) -> None:
    """A mirror that was cut off, or frozen, comes back: a failover may have taken its flow meanwhile."""
    supervisor = started(fleet, clock)
    (copier,) = fleet.copiers
    for unrenewed_s, unsure in ((19.0, False), (21.0, True), (0.5, False)):
        fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], unrenewed_s=unrenewed_s)
        advance(supervisor, clock, 2)
        assert copier.orders.unsure == unsure
        assert fleet.copiers == [copier], "nobody takes it for lost"


def test_a_flow_that_was_taken_meanwhile_is_not_drained(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    answer = msgspec.structs.replace(fleet.answers[FLOW], unrenewed_s=40.0, taken="failed over by host-2")
    fleet.answers[FLOW] = answer
    advance(supervisor, clock, 1)
    assert "drain" not in fleet.copiers[0].calls
    assert supervisor.is_drained
    assert supervisor.refused == "failed over by host-2"


def test_a_mirror_whose_clusters_are_away_waits_and_says_so(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    fleet.answers[FLOW] = DiscoveryAnswer(serial=0, failure="cluster 'A': cannot connect: refused")
    advance(supervisor, clock, 3)
    status = supervisor.status()
    assert (status.phase, status.flows[0].waiting_for) == ("waiting", "cluster 'A': cannot connect: refused")
    assert status.flows[0].is_undiscovered
    fleet.discover(*lanes("a", 2))
    advance(supervisor, clock, 3)
    assert supervisor.status().phase == "running"
    assert not supervisor.status().flows[0].is_undiscovered
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], failure="source: no answer")
    advance(supervisor, clock, 3)
    assert supervisor.status().phase == "running", "it has begun"


def test_a_flow_that_waits_for_a_sign_of_life_of_its_former_owner_has_not_begun(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    awaited = "a sign of life of mirror 'm', up to 30 s"
    fleet.answers[FLOW] = DiscoveryAnswer(serial=0, awaited=awaited, kept=None)
    supervisor.step()
    status = supervisor.status()
    assert (status.phase, status.flows[0].waiting_for) == ("starting", awaited)
    assert not has_begun(status), "`run --detach` must not say that it runs: its owner may live"


def test_a_mirror_that_has_discovered_nothing_yet_is_still_starting(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert supervisor.status().phase == "starting"
    fleet.discover()
    advance(supervisor, clock, 2)
    assert supervisor.status().phase == "running", "it knows that there is no topic"
