"""Sets whose copiers end: searched, left alone, tried again."""

from actors.ports import Vital
from actors.states import Command
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import advance, started


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
