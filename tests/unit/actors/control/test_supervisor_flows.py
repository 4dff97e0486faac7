"""Several flows in one mirror: what happens to one does not affect the others."""

import msgspec
import pytest

from actors.control.flow_state import FlowPlan, UnknownTopic
from actors.control.ports import CopierVitals, DiscoveryAnswer, RememberedFlow
from actors.control.supervisor import Supervisor
from actors.model.states import Command, Desired
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeCopier, FakeFleet, by_topic, lanes, ports
from tests.unit.actors.mirrors import adopt, advance, started

OTHER = FlowName("B", "C")
TAKEN = "mirrored by another deployment"


@pytest.fixture
def both(fleet: FakeFleet, clock: Clock) -> Supervisor:
    """A mirror of two flows, each with a copier and a topic of its own."""
    supervisor = Supervisor(
        SPEC,
        [FlowPlan(name=flow, fingerprint="r1") for flow in (FLOW, OTHER)],
        ports(fleet, clock),
        by_topic,
    )
    fleet.answers[FLOW] = DiscoveryAnswer(serial=1, lanes=lanes("a", 1), kept=RememberedFlow())
    fleet.answers[OTHER] = DiscoveryAnswer(serial=1, lanes=lanes("b", 1), kept=RememberedFlow())
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = CopierVitals(state="ready")
    advance(supervisor, clock, 3)
    return supervisor


def of(fleet: FakeFleet, flow: FlowName) -> FakeCopier:
    return next(copier for copier in fleet.copiers if copier.flow == flow)


def take(fleet: FakeFleet, flow: FlowName) -> None:
    """Have Metadata say that another mirror has the flow."""
    fleet.answers[flow] = msgspec.structs.replace(fleet.answers[flow], taken=TAKEN)


def test_a_flow_that_another_has_ends_alone(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    take(fleet, FLOW)
    advance(both, clock, 2)
    mine, other = of(fleet, FLOW), of(fleet, OTHER)
    assert (mine.calls[-1], other.calls[-1]) == ("drain", "assign B->C/b @1 x1")
    mine.life = CopierVitals(state="closed")
    # so says a metadata actor that is new
    fleet.answers[FLOW] = msgspec.structs.replace(fleet.answers[FLOW], taken="")
    advance(both, clock, 30)
    status = both.status()
    assert (status.phase, status.refused) == ("running", "")
    assert [copier.flow for copier in status.copiers] == [str(OTHER)], "and nobody is started for it"
    assert [flow.waiting_for for flow in status.flows] == [TAKEN, ""]
    assert [event.text for event in status.events] == [TAKEN], "said once"


def test_a_mirror_of_which_no_flow_is_left_ends(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    take(fleet, FLOW)
    both.command(Command.STOP, str(OTHER))
    advance(both, clock, 2)
    assert [copier.calls[-1] for copier in fleet.copiers] == ["drain", "drain"]
    assert (both.status().phase, both.refused, both.desired) == ("draining", TAKEN, Desired.RUNNING)


def test_a_topic_is_paused_in_the_flows_that_copy_it(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    both.command(Command.PAUSE, topics=("b",))
    advance(both, clock, 2)
    assert of(fleet, OTHER).calls[-1] == "pause b"
    assert not any(call.startswith("pause") for call in of(fleet, FLOW).calls)


def test_a_pause_is_heeded_when_the_copiers_of_its_flow_do_it(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    def heeded() -> list[bool]:
        return [flow.heeded for flow in both.status().flows]

    assert heeded() == [True, True]
    both.command(Command.PAUSE, str(OTHER))
    assert heeded() == [True, False], "not said to it yet"
    of(fleet, OTHER).deaf = True
    advance(both, clock, 2)
    assert heeded() == [True, False], "said, and not heard"
    of(fleet, OTHER).deaf = False
    advance(both, clock, 2)
    assert heeded() == [True, True]
    for command in (Command.PAUSE, Command.RESUME):
        both.command(command, str(FLOW), ("a",))
        assert heeded() == [False, True]
        advance(both, clock, 2)
        assert heeded() == [True, True]


def test_a_topic_that_no_flow_copies_changes_nothing(both: Supervisor, fleet: FakeFleet, clock: Clock) -> None:
    for topics in (("a", "nope"), ("nope",)):
        with pytest.raises(UnknownTopic, match=r"A->B, B->C copies no topic 'nope'"):
            both.command(Command.PAUSE, topics=topics)
    advance(both, clock, 2)
    assert not any(flow.paused_topics for flow in both.status().flows)
    assert not any(call.startswith("pause") for copier in fleet.copiers for call in copier.calls)


def test_an_adopted_copier_that_has_not_answered_yet_is_drained(fleet: FakeFleet, clock: Clock) -> None:
    started(fleet, clock)
    second = adopt(fleet, clock)
    (left,) = fleet.copiers
    left.life = CopierVitals(state="starting")  # as far as this supervisor has seen
    second.drain()
    second.step()
    assert fleet.retired == [], "it holds sets"
    left.life = CopierVitals(state="ready")
    advance(second, clock, 3)
    assert left.calls[-1] == "drain"
    left.life = CopierVitals(state="closed")
    second.step()
    assert second.is_drained


def test_a_watched_file_that_is_refused_is_an_event_of_each_flow(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    supervisor.see_refused("line 5: tasks.max: 'many' is not a number")
    (event,) = (one for one in supervisor.status().events if one.kind == "reload_refused")
    assert "cannot be applied; the mirror continues as before: line 5: tasks.max" in event.text


def test_an_edited_file_is_said_once_per_edit(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    for edited in (False, True, True, False, True):
        supervisor.see_edited(edited=edited)
    texts = [event.text for event in supervisor.status().events]
    assert len(texts) == 2
    assert all("raymirror reload mm2.properties" in text for text in texts)
