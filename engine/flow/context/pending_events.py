"""Stores the events of one copier until the next snapshot takes them."""

from collections import deque

from engine.core.events.events import AnyEvent

_MOST = 10_000
"""Most events stored; the oldest are dropped if no snapshot takes them."""


class PendingEvents:
    """Events in the order they were reported."""

    def __init__(self) -> None:
        self._events: deque[AnyEvent] = deque(maxlen=_MOST)

    def report(self, event: AnyEvent) -> None:
        """Add an event: the next snapshot has it."""
        self._events.append(event)

    def take_all(self) -> tuple[AnyEvent, ...]:
        """Hand over the events since the last call, each once."""
        events = tuple(self._events)
        self._events.clear()
        return events
