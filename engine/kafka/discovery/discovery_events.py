"""Holds the events of rounds of discovery, and reports each failure of a topic once."""

from engine.core.events.events import AnyEvent, TopicFailed
from policies.model import FlowName


class DiscoveryEvents:
    """The events since the last round that ended; a round that fails leaves its events for the next one."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._events: list[AnyEvent] = []
        self._failures: dict[str, str] = {}
        """Why topics are not prepared, as last reported."""

    def add(self, *events: AnyEvent) -> None:
        """Add events."""
        self._events += events

    def take(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def has_failed(self, topic: str) -> bool:
        """Whether a failure of the topic was reported and has not passed."""
        return topic in self._failures

    def fail(self, topic: str, what: str) -> None:
        """Report why a topic is not prepared, unless that was the last that was reported of it."""
        self.fail_as(topic, what, TopicFailed(flow=self._flow, topic=topic, what=what))

    def fail_as(self, topic: str, what: str, event: AnyEvent) -> None:
        """Report a failure by an event of another kind, unless `what` was the last that was reported of the topic."""
        if self._failures.get(topic) != what:
            self._failures[topic] = what
            self.add(event)

    def passed(self, topic: str) -> None:
        """Note that a topic is prepared: its next failure is reported, whatever it is."""
        self._failures.pop(topic, None)
