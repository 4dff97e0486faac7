"""Sets whose copiers end: isolated, quarantined, tried again."""

from actors.control.flow_state import plan_sets
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from actors.model.events import SetQuarantined
from actors.model.states import Command
from policies.model import LaneName
from tests.unit.actors.fakes import Clock, FakeCopier, FakeFleet, lanes, make
from tests.unit.actors.mirrors import advance, started


def test_a_set_that_ends_its_copiers_is_quarantined_alone(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock, copiers=3)
    fleet.discover(*(lane for topic in "abcdef" for lane in lanes(topic, 1)))
    supervisor.step()
    for _ in range(200):
        clock.seconds += 1
        for copier in fleet.copiers:
            if copier.life.state == "starting":
                copier.life = CopierVitals(state="ready")
            if "A->B/d" in copier.sets and copier.life.state == "ready":
                copier.life = CopierVitals(state="dead", cause="poison")
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
    dead.life = CopierVitals(state="dead", cause="killed")
    supervisor.step()
    assert sorted(survivor.sets) == ["A->B/a", "A->B/b"]
    fleet.copiers[-1].life = CopierVitals(state="ready")
    advance(supervisor, clock, 10)
    assert sorted(survivor.sets) == ["A->B/a"], "it resumes, and would pause twice; the other one may move"
    assert [call for call in survivor.calls if "A->B/a" in call] == ["assign A->B/a @3 x2"]


class Poison:
    """A partition that ends every copier that has it, a second after it came."""

    def __init__(self, fleet: FakeFleet, clock: Clock, lane: LaneName) -> None:
        self.fleet, self.clock, self.lane = fleet, clock, lane
        self.mended = False

    def seconds(self, supervisor: Supervisor, count: int) -> None:
        for _ in range(count):
            self.clock.seconds += 1
            for copier in self.fleet.copiers:
                if copier.life.state == "starting":
                    copier.life = CopierVitals(state="ready")
                elif copier.orders.drain and copier.life.state == "ready":
                    copier.life = CopierVitals(state="closed", last=copier.snapshot())
                elif not self.mended and copier.life.state == "ready" and self.lane in lanes_of(copier):
                    copier.life = CopierVitals(state="dead", cause="poison")
            supervisor.step()

    def held(self) -> list[str]:
        living = [copier for copier in self.fleet.copiers if copier.life.state == "ready"]
        return sorted(str(lane) for copier in living for lane in lanes_of(copier))


def lanes_of(copier: FakeCopier) -> list[LaneName]:
    return [lane for group in copier.sets.values() for lane in group.lanes]


def test_a_set_that_ends_its_copiers_is_narrowed_down_to_one_partition(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock, copiers=2)
    everything = [lane for topic in "abc" for lane in lanes(topic, 6)]
    fleet.discover(*everything)
    poison = Poison(fleet, clock, lanes("c", 6)[4])
    poison.seconds(supervisor, 150)
    assert list(supervisor.status().flows[0].quarantined) == ["c-4"]
    assert "poison" in supervisor.status().flows[0].quarantined["c-4"]
    others = sorted(str(lane) for lane in everything if lane != poison.lane)
    assert poison.held() == others, "the others of its set go on"
    told = [event for event in fleet.told if isinstance(event, SetQuarantined)]
    assert [event.partitions for event in told] == [("c-4",)]
    assert "raymirror restart A->B" in told[0].text()
    (listed,) = [lane for lane in supervisor.status(lanes=True).lanes if lane.state == "unowned"]
    assert listed.reason.startswith("in quarantine: ")
    ended = len(fleet.retired)
    poison.seconds(supervisor, 60)
    assert len(fleet.retired) == ended, "nobody ends any more"
    poison.mended = True
    supervisor.restart("A->B")
    poison.seconds(supervisor, 150)
    assert poison.held() == sorted(map(str, everything)), "tried because the operator said so"
    assert supervisor.status().flows[0].quarantined == {}


def test_a_new_mirror_knows_what_an_earlier_one_left_alone(fleet: FakeFleet, clock: Clock) -> None:
    everything = [lane for topic in "abc" for lane in lanes(topic, 6)]
    supervisor = make(fleet, clock, copiers=2, plan=plan_sets)
    fleet.discover(*everything)
    poison = Poison(fleet, clock, lanes("c", 6)[4])
    poison.seconds(supervisor, 150)
    kept = fleet.kept[-1]
    assert [state.lanes for set_id, state in kept.sets.items() if set_id in kept.quarantine] == [(poison.lane,)]
    later = FakeFleet(clock)
    later.discover(*everything, *lanes("d", 3), kept=kept)
    after = Poison(later, clock, poison.lane)
    second = make(later, clock, copiers=2, plan=plan_sets)
    after.seconds(second, 60)
    others = sorted(str(lane) for lane in [*everything, *lanes("d", 3)] if lane != poison.lane)
    assert (after.held(), later.retired) == (others, []), "nobody had to end again to know it"
    assert list(second.status().flows[0].quarantined) == ["c-4"]
    assert all(
        group.epoch > max(state.epoch for state in kept.sets.values()) for group in later.copiers[0].sets.values()
    )
    after.mended = True
    after.seconds(second, 700)
    assert poison.lane in [lane for copier in later.copiers for lane in lanes_of(copier)], "tried again after a while"
    assert (later.kept[-1].quarantine, second.status().flows[0].quarantined) == ({}, {})


def test_five_quick_kills_for_different_causes_quarantine_nobody(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock, copiers=1)
    fleet.discover(*lanes("a", 6))
    nothing = Poison(fleet, clock, lanes("z", 1)[0])
    nothing.seconds(supervisor, 10)
    for kill in range(5):
        busy = [copier for copier in fleet.copiers if copier.life.state == "ready" and copier.sets]
        busy[0].life = CopierVitals(
            state="dead", cause=("killed", "its lease ran out 8.1 s ago", "it stood still")[kill % 3]
        )
        nothing.seconds(supervisor, 20)
        assert supervisor.status().flows[0].quarantined == {}
    nothing.seconds(supervisor, 120)
    assert nothing.held() == sorted(map(str, lanes("a", 6)))
