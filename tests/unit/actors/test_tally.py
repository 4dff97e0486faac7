"""What a flow's tally says of lanes nobody holds, of time behind, and of counters over copiers."""

from actors.ports import Vital
from actors.supervisor import Supervisor
from actors.tally import Tally
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make


def started(fleet: FakeFleet, clock: Clock) -> Supervisor:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2), *lanes("b", 1))
    supervisor.step()
    fleet.copiers[0].life = Vital(state="ready")
    turn(supervisor, clock)
    return supervisor


def turn(supervisor: Supervisor, clock: Clock) -> None:
    for _ in range(3):
        clock.now_s += 1
        supervisor.step()


def tally(supervisor: Supervisor) -> Tally:
    return supervisor._tallies[FLOW]


def test_a_lane_that_nobody_has_taken_is_listed_with_the_reason(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    fleet.discover(*lanes("a", 2))
    supervisor.step()
    listed = list(tally(supervisor).lanes())
    assert [(lane.lane.partition, lane.state, lane.lag_known) for lane in listed] == [
        (0, "unowned", False),
        (1, "unowned", False),
    ]
    assert all(lane.reason for lane in listed)
    assert listed[0].set_id == "A->B/a"
    assert tally(supervisor).status().stalled == 2


def test_lanes_that_are_held_are_listed_once(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    assert sorted(str(lane.lane) for lane in tally(supervisor).lanes()) == ["a-0", "a-1", "b-0"]
    assert {lane.state for lane in tally(supervisor).lanes()} == {"copying"}
    assert tally(supervisor).status().stalled == 0


def test_counters_by_topic_outlive_a_copier(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    fleet.copiers[0].at = {a0: (5, 5), a1: (7, 7)}
    turn(supervisor, clock)
    assert {one.topic: one.records for one in tally(supervisor).topics()} == {"a": 12, "b": 0}
    fleet.copiers[0].life = Vital(state="dead", cause="killed")
    supervisor.step()
    assert {one.topic: (one.records, one.wire_bytes) for one in tally(supervisor).topics()} == {
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
    assert {one.topic: one.records for one in tally(second).topics()} == {"a": 0, "b": 0}
    fleet.copiers[0].at = {a0: (5, 5), a1: (3, 3)}
    turn(second, clock)
    assert {one.topic: one.records for one in tally(second).topics()} == {"a": 3, "b": 0}
    assert (tally(second).counts().records, second.status().flows[0].records) == (3, 3)
    assert second.status().flows[0].lag_ms(0) == 0
    fleet.copiers[0].life = Vital(state="dead", cause="killed")
    second.step()
    assert second.status().flows[0].records == 3, "also when it is gone"
