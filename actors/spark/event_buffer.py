"""Buffers the events of Spark's jobs for the supervisor: numbered, so that a lost answer can be sent again."""

import threading
from collections import deque

from engine.core.events.event_base import Event

KEPT = 500
"""Events in the buffer at most, if the supervisor does not fetch them; it does so twice a second."""


class EventBuffer:
    """Events in the order in which jobs reported them; `count`: how many were reported so far."""

    def __init__(self) -> None:
        self.count = 0
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Add an event, in any thread."""
        with self._lock:
            self._events.append(event)
            self.count += 1

    def after(self, number: int) -> tuple[int, tuple[Event, ...]]:
        """Return how many events were reported so far, and those after the first `number` that are still buffered."""
        with self._lock:
            events = tuple(self._events)
            return self.count, events[max(0, number - (self.count - len(events))) :]
