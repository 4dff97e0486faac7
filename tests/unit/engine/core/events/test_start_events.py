"""Events at the start of a flow."""

from engine.core.events.start_events import EventsNotStored, Mm2Active, StartDoubt
from policies.model import FlowName

FLOW = FlowName("A", "B")


def test_an_active_mm2_is_named_with_its_cluster() -> None:
    event = Mm2Active(flow=FLOW, group="A-mm2")
    assert (event.severity, event.about) == ("warning", "A-mm2")
    assert event.text().startswith("A-mm2: MM2's group has members on B: ")


def test_doubts_are_told_one_by_one() -> None:
    one, other = (StartDoubt(flow=FLOW, what=what) for what in ("small disks", "no such topic"))
    assert one.about != other.about
    assert (one.severity, one.text()) == ("warning", "small disks")


def test_events_that_are_not_stored_name_their_topic() -> None:
    event = EventsNotStored(flow=FLOW, topic="e", why="no right")
    assert (event.severity, event.about, event.text()) == ("error", "e", "e: events are not stored: no right")
