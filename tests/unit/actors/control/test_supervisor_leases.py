"""Copiers that are silent, lost or stuck, and sets that wait until no old owner can write any more."""

import msgspec

from actors.control.ports import CopierVitals
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import adopt, advance, started


def test_a_silent_copier_keeps_its_sets_until_its_lease_has_run_out(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    silent, other = fleet.copiers
    silent.deaf = True
    clock.seconds += 6.4
    supervisor.step()
    assert sorted(other.sets) == ["A->B/b"], "it may still write"
    assert silent.hushed, "its lease is not renewed any more"
    clock.seconds += 0.8
    supervisor.step()
    supervisor.step()
    assert sorted(other.sets) == ["A->B/a", "A->B/b"]
    assert other.sets["A->B/a"].epoch == 3
    assert silent.copier_id in fleet.retired
    assert any("its lease ran out" in event.text for event in supervisor.status().events)


def test_a_copier_on_a_lost_node_keeps_its_sets_until_its_lease_has_run_out(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    lost, other = fleet.copiers
    lost.life = CopierVitals(state="lost", cause="its node")
    supervisor.step()
    assert sorted(other.sets) == ["A->B/b"], "nobody knows whether its process has ended"
    advance(supervisor, clock, 8)
    assert sorted(other.sets) == ["A->B/a", "A->B/b"]


def test_a_copier_with_a_stuck_data_loop_is_told_from_an_idle_one(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock, copiers=2)
    stuck, idle = fleet.copiers
    stuck.frozen_loop = True
    for _ in range(12):
        clock.seconds += 1
        supervisor.step()
    assert fleet.retired == [stuck.copier_id]
    assert sorted(idle.sets) == ["A->B/a", "A->B/b"]
    assert any("made no progress" in event.text for event in supervisor.status().events)


def test_a_set_moves_only_when_it_was_let_go(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    old = fleet.copiers[0]
    old.slow_to_let_go = True
    supervisor = adopt(fleet, clock, fingerprint="r2")
    for _ in range(2):
        supervisor.step()
    fresh = fleet.copiers[1]
    fresh.life = CopierVitals(state="ready")
    for _ in range(5):
        supervisor.step()
    assert fresh.sets == {}
    old.sets.clear()
    for _ in range(3):
        supervisor.step()
    assert sorted(fresh.sets) == ["A->B/a", "A->B/b"]


def test_a_set_moves_only_to_a_copier_that_has_connected_to_both_clusters(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    supervisor = adopt(fleet, clock, fingerprint="r2")
    for _ in range(2):
        supervisor.step()
    old, fresh = fleet.copiers
    fresh.adjust = lambda progress: msgspec.structs.replace(progress, is_open=False)
    fresh.life = CopierVitals(state="ready")
    for _ in range(5):
        supervisor.step()
    assert sorted(old.sets) == ["A->B/a", "A->B/b"]
    assert fresh.sets == {}
    fresh.adjust = lambda progress: progress
    for _ in range(5):
        supervisor.step()
    assert sorted(fresh.sets) == ["A->B/a", "A->B/b"]


def test_sets_go_to_no_copier_that_reaches_no_cluster_while_another_can_take_them(
    fleet: FakeFleet, clock: Clock
) -> None:
    supervisor = started(fleet, clock, copiers=2)
    first, second = fleet.copiers
    first.life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    third = fleet.copiers[2]
    third.adjust = lambda progress: msgspec.structs.replace(progress, is_open=False)
    third.life = CopierVitals(state="ready")
    advance(supervisor, clock, 20)
    assert sorted(second.sets) == ["A->B/a", "A->B/b"]
    assert third.sets == {}
    third.adjust = lambda progress: progress
    advance(supervisor, clock, 20)
    assert len(third.sets) == 1, "it gets its share when it can take it"


def test_a_copier_that_waits_long_for_a_node_is_spoken_to_when_it_comes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    advance(supervisor, clock, 200)
    (late,) = fleet.copiers
    assert not late.hushed, "it has no lease that is to run out"
    late.life = CopierVitals(state="ready")
    advance(supervisor, clock, 3)
    assert late.sets.keys() == {"A->B/a"}
    advance(supervisor, clock, 20)
    assert fleet.retired == []


def test_a_copier_whose_node_is_lost_before_it_answered_is_replaced_at_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="lost", cause="its node")
    advance(supervisor, clock, 2)
    first, second = fleet.copiers
    assert fleet.retired == [first.copier_id]
    second.life = CopierVitals(state="ready")
    advance(supervisor, clock, 2)
    assert second.sets.keys() == {"A->B/a"}
