"""A failure of a topic is one event until it changes or passes, also over rounds that fail."""

from engine.core.events.events import Mm2TopicFailed, TopicFailed, TopicWarning
from engine.kafka.discovery.discovery_events import DiscoveryEvents
from policies.model import FlowName

FLOW = FlowName("A", "B")


def failed(what: str) -> TopicFailed:
    return TopicFailed(flow=FLOW, topic="t", what=what)


def test_a_failure_is_told_once_until_it_changes_or_passes() -> None:
    events = DiscoveryEvents(FLOW)
    for what in ("full", "full", "away", "full"):
        events.fail("t", what)
    assert events.has_failed("t")
    assert events.take() == (failed("full"), failed("away"), failed("full"))
    events.fail("t", "full")
    assert events.take() == ()
    events.passed("t")
    assert not events.has_failed("t")
    events.fail("t", "full")
    assert events.take() == (failed("full"),)


def test_a_failure_of_another_kind_is_told_once_too() -> None:
    events = DiscoveryEvents(FLOW)
    event = Mm2TopicFailed(flow=FLOW, topic="t", cluster="A", what="denied")
    events.fail_as("t", "denied", event)
    events.fail_as("t", "denied", event)
    assert events.take() == (event,)


def test_events_stay_until_they_are_taken() -> None:
    events = DiscoveryEvents(FLOW)
    warning = TopicWarning(flow=FLOW, topic="t", what="older records")
    events.add(warning)
    events.fail("t", "full")
    assert events.take() == (warning, failed("full"))
    assert events.take() == ()
