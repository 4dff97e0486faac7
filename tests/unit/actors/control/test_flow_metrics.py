"""A flow's metrics: lanes without an owner, time behind, counters over copiers."""

import msgspec

from actors.control.flow_metrics import NO_COPIER, FlowMetrics
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from actors.model.states import Command
from actors.model.status import FlowAtEnd, FlowStatus
from engine.core.reports.progress import FlowProgress
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make


def started(fleet: FakeFleet, clock: Clock) -> Supervisor:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2), *lanes("b", 1))
    supervisor.step()
    fleet.copiers[0].life = CopierVitals(state="ready")
    turn(supervisor, clock)
    return supervisor


def turn(supervisor: Supervisor, clock: Clock) -> None:
    for _ in range(3):
        clock.seconds += 1
        supervisor.step()


def metrics(supervisor: Supervisor) -> FlowMetrics:
    return supervisor._flows[FLOW].metrics


def test_a_lane_that_nobody_has_taken_is_listed_with_the_reason(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    listed = list(metrics(supervisor).lanes())
    assert [(lane.lane.partition, lane.state, lane.lag_known) for lane in listed] == [
        (0, "unowned", False),
        (1, "unowned", False),
    ]
    assert all(lane.reason for lane in listed)
    assert listed[0].set_id == "A->B/a"
    assert metrics(supervisor).status().stalled == 2


def test_lanes_that_are_held_are_listed_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    assert sorted(str(lane.lane) for lane in metrics(supervisor).lanes()) == ["a-0", "a-1", "b-0"]
    assert {lane.state for lane in metrics(supervisor).lanes()} == {"copying"}
    assert metrics(supervisor).status().stalled == 0


def test_the_reason_of_most_lanes_that_do_not_move_is_told_with_their_number(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)

    def stuck(progress: FlowProgress) -> FlowProgress:
        reasons = iter(["drains", *(f"no leader for source partition {lane.lane}" for lane in progress.lanes[1:])])
        lanes = tuple(msgspec.structs.replace(lane, reason=next(reasons)) for lane in progress.lanes)
        return msgspec.structs.replace(progress, lanes=lanes)

    def told() -> tuple[int, str, int]:
        seen = metrics(supervisor).status()
        return seen.stalled, seen.stall_reason, seen.stalled_for_it

    assert told() == (0, "", 0)
    fleet.copiers[0].adjust = stuck
    supervisor.step()
    assert told() == (3, "no leader for source partition", 2)
    fleet.discover(*lanes("a", 2), *lanes("b", 1), *lanes("c", 7))
    supervisor.step()
    assert told() == (10, NO_COPIER, 7)


def test_lanes_that_move_more_slowly_than_they_could_are_counted_apart(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)

    def slow(progress: FlowProgress) -> FlowProgress:
        reasons = iter(["a", "b", "b"])
        lanes = [msgspec.structs.replace(lane, held=next(reasons)) for lane in progress.lanes]
        return msgspec.structs.replace(progress, lanes=(msgspec.structs.replace(lanes[0], reason="drains"), *lanes[1:]))

    assert (metrics(supervisor).status().held, metrics(supervisor).status().held_reason) == (0, "")
    fleet.copiers[0].adjust = slow
    supervisor.step()
    seen = metrics(supervisor).status()
    assert (seen.stalled, seen.held, seen.held_reason) == (1, 2, "b")


def test_the_path_of_the_lane_furthest_behind_is_told_unless_it_is_held(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)

    def bounded(progress: FlowProgress) -> FlowProgress:
        told = iter([("far", 1000, ""), ("held", 7000, "raymirror.bandwidth.bytes"), ("", 5000, "")])
        lanes = tuple(
            msgspec.structs.replace(lane, bound=bound, lag_bytes=behind, held=held)
            for lane, (bound, behind, held) in zip(progress.lanes, told, strict=True)
        )
        return msgspec.structs.replace(progress, lanes=lanes)

    assert metrics(supervisor).status().bound == ""
    fleet.copiers[0].adjust = bounded
    supervisor.step()
    assert metrics(supervisor).status().bound == "far"


def end(fleet: FakeFleet, supervisor: Supervisor, clock: Clock, **changes: object) -> FlowStatus:
    """Let the copier of a flow that is being ended go in order; some lanes are told as they were not before."""
    copier = fleet.copiers[0]
    last = copier.snapshot()
    lanes = (msgspec.structs.replace(last.lanes[0], **changes), *last.lanes[1:])
    last = msgspec.structs.replace(last, lanes=lanes, at_ms=1_700_000_000_000)
    copier.life = CopierVitals(state="closed", last=last)
    turn(supervisor, clock)
    return supervisor.status().flows[0]


def test_a_mirror_that_ended_in_order_says_what_was_known_at_its_end(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    fleet.copiers[0].at = {a0: (5, 5), a1: (7, 9)}
    turn(supervisor, clock)
    supervisor.command(Command.STOP)
    assert supervisor.status().flows[0].at_end is None, "it still drains"
    found = end(fleet, supervisor, clock, state="failed")
    assert found.at_end == FlowAtEnd(at_ms=1_700_000_000_000, lag_records=2, unknown_lanes=0)
    assert (found.errors, found.records_per_s, found.bytes_per_s, found.waiting_for) == (1, 0.0, 0.0, "")
    assert {lane.reason for lane in metrics(supervisor).lanes()} == {"the mirror ends"}
    assert supervisor.status().phase == "stopped"


def test_a_lag_that_a_copier_could_not_tell_at_its_end_is_unknown(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.drain()
    turn(supervisor, clock)
    assert end(fleet, supervisor, clock, source_end_age_ms=60_000).at_end == FlowAtEnd(
        at_ms=1_700_000_000_000, lag_records=0, unknown_lanes=1
    )
    killed = FakeFleet(clock)
    supervisor = started(killed, clock)
    supervisor.drain()
    turn(supervisor, clock)
    killed.copiers[0].life = CopierVitals(state="dead", cause="killed")
    turn(supervisor, clock)
    assert supervisor.status().flows[0].at_end == FlowAtEnd(at_ms=-1, lag_records=0, unknown_lanes=3)


def test_counters_by_topic_outlive_a_copier(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    fleet.copiers[0].at = {a0: (5, 5), a1: (7, 7)}
    turn(supervisor, clock)
    assert {one.topic: one.records for one in metrics(supervisor).topics()} == {"a": 12, "b": 0}
    fleet.copiers[0].life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    assert {one.topic: (one.records, one.wire_bytes) for one in metrics(supervisor).topics()} == {
        "a": (12, 1200),
        "b": (0, 0),
    }


def test_what_adopted_copiers_had_copied_before_is_not_counted_again(fleet: FakeFleet, clock: Clock) -> None:
    first = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    fleet.copiers[0].at = {a0: (5, 5)}
    turn(first, clock)
    after = FakeFleet(clock)
    after.left = [fleet.copiers[0]]
    after.discover(*lanes("a", 2), *lanes("b", 1))
    second = make(after, clock)
    turn(second, clock)
    assert {one.topic: one.records for one in metrics(second).topics()} == {"a": 0, "b": 0}
    fleet.copiers[0].at = {a0: (5, 5), a1: (3, 3)}
    turn(second, clock)
    assert {one.topic: one.records for one in metrics(second).topics()} == {"a": 3, "b": 0}
    assert (metrics(second).counts().records, second.status().flows[0].records) == (3, 3)
    assert second.status().flows[0].least_lag_ms(0) == 0
    fleet.copiers[0].life = CopierVitals(state="dead", cause="killed")
    second.step()
    assert second.status().flows[0].records == 3, "also when it is gone"
