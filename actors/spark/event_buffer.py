"""Buffers the events of Spark's jobs for the supervisor: numbered, so that a lost answer can be given again."""

import threading
from collections import deque

from engine.core.events.event_base import Event

KEPT = 500
"""Most events that are kept for a supervisor that does not ask; it asks twice a second."""


class EventBuffer:
    """Events in the order in which jobs reported them; `count` says how many there were ever."""

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
        """Return how many events there were ever, and those after the first `number`, as far as they are kept."""
        with self._lock:
            events = tuple(self._events)
            return self.count, events[max(0, number - (self.count - len(events))) :]
