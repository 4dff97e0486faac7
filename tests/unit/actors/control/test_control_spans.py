"""Spans of moves, takeovers and fleet changes: what takes longer than a step is reported once, at its end."""

from collections.abc import Iterator

import msgspec

from actors.control.control_spans import MOVE, SCALING, TAKEOVER
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from engine.core.reports.progress import FlowProgress, LaneProgress
from tests.unit.actors.fakes import FLOW, Clock, FakeCopier, FakeFleet, Observed, lanes, make
from tests.unit.actors.mirrors import advance


class Told:
    """A mirror of two sets, and what it has told."""

    def __init__(self, fleet: FakeFleet, clock: Clock, copiers: int = 1) -> None:
        observed = Observed()
        self.spans = observed.spans
        self.fleet, self.clock = fleet, clock
        self.supervisor: Supervisor = make(fleet, clock, copiers, observer=observed)
        fleet.discover(*lanes("a", 2), *lanes("b", 1))
        self.go(1)
        self.wake_up()
        self.go(2)

    def go(self, seconds: int) -> None:
        advance(self.supervisor, self.clock, seconds)

    def wake_up(self) -> None:
        """Have every copier that starts answer."""
        for copier in self.fleet.copiers:
            if copier.life.state == "starting":
                copier.life = CopierVitals(state="ready")

    def seen(self) -> list[tuple[str, str, str, str]]:
        return [(span.name, span.about, span.giver, span.taker) for span in self.spans]


def still_acquiring(copier: FakeCopier) -> None:
    def adjust(progress: FlowProgress) -> FlowProgress:
        states = tuple(msgspec.structs.replace(lane, state="acquiring") for lane in progress.lanes)
        return msgspec.structs.replace(progress, lanes=states)

    copier.adjust = adjust


def test_a_calm_mirror_tells_of_nothing(fleet: FakeFleet, clock: Clock) -> None:
    told = Told(fleet, clock)
    told.go(30)
    assert told.spans == []


def test_a_takeover_lasts_from_the_end_of_the_owner_until_the_next_one_copies(fleet: FakeFleet, clock: Clock) -> None:
    told = Told(fleet, clock)
    told.fleet.copiers[0].life = CopierVitals(state="dead", cause="killed")
    told.go(1)
    died_at_s = clock.seconds
    still_acquiring(told.fleet.copiers[1])
    told.go(1)
    told.wake_up()
    told.go(4)
    assert told.spans == [], "it has the sets, and copies nothing yet"
    told.fleet.copiers[1].adjust = lambda progress: progress
    told.go(3)
    assert told.seen() == [
        (TAKEOVER, "A->B/a", "copier-1", "copier-2"),
        (TAKEOVER, "A->B/b", "copier-1", "copier-2"),
    ]
    assert {(span.flow, span.began_s, span.ended_s) for span in told.spans} == {(FLOW, died_at_s, died_at_s + 6)}


class CountedLanes(tuple[LaneProgress, ...]):
    """Counts how often all lanes are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[LaneProgress]:
        CountedLanes.looks += 1
        return super().__iter__()


def looks_of_a_step(fleet: FakeFleet, clock: Clock, sets: int) -> int:
    """Return how often a step looks at all lanes while a copier takes so many sets over."""
    told = Told(fleet, clock)
    fleet.discover(*(lane for number in range(sets) for lane in lanes(f"more{number}", 32)))
    told.go(2)
    fleet.copiers[-1].life = CopierVitals(state="dead", cause="killed")
    told.go(1)
    taker = fleet.copiers[-1]
    still_acquiring(taker)
    acquiring = taker.adjust
    taker.adjust = lambda progress: msgspec.structs.replace(
        acquiring(progress), lanes=CountedLanes(acquiring(progress).lanes)
    )
    told.wake_up()
    told.go(3)
    before = CountedLanes.looks
    told.go(1)
    return CountedLanes.looks - before


def test_a_step_looks_at_the_lanes_as_often_for_many_sets_as_for_one(fleet: FakeFleet, clock: Clock) -> None:
    # A copier of 50,000 partitions had 1,600 sets: its supervisor did nothing else, and renewed no lease.
    few = looks_of_a_step(fleet, clock, 1)
    assert 0 < looks_of_a_step(FakeFleet(clock), clock, 40) <= few


def test_a_move_lasts_from_the_wish_until_the_next_owner_copies(fleet: FakeFleet, clock: Clock) -> None:
    told = Told(fleet, clock)
    told.supervisor.restart(str(FLOW))
    told.fleet.copiers[0].slow_to_let_go = True
    told.go(1)
    told.wake_up()
    told.go(3)
    assert told.spans == []
    told.fleet.copiers[0].slow_to_let_go = False
    told.fleet.copiers[0].sets.clear()
    told.go(3)
    assert told.seen() == [(MOVE, "A->B/a", "copier-1", "copier-2"), (MOVE, "A->B/b", "copier-1", "copier-2")]
    assert all(span.ended_s - span.began_s >= 3 for span in told.spans)


def test_a_set_that_is_gone_meanwhile_is_not_told_of(fleet: FakeFleet, clock: Clock) -> None:
    told = Told(fleet, clock)
    told.fleet.copiers[0].life = CopierVitals(state="dead", cause="killed")
    told.go(1)
    fleet.discover(*lanes("b", 1))
    told.go(1)
    told.wake_up()
    told.go(3)
    assert told.seen() == [(TAKEOVER, "A->B/b", "copier-1", "copier-2")]


def test_a_fleet_that_grows_is_told_of_when_all_are_there(fleet: FakeFleet, clock: Clock) -> None:
    told = Told(fleet, clock)
    (flow,) = told.supervisor._flows.values()
    flow.state.copiers_wanted = 2
    told.go(2)
    assert SCALING not in {span.name for span in told.spans}
    told.wake_up()
    told.go(1)
    assert (SCALING, "2 copiers", "", "") in told.seen()
