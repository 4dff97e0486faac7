"""What jobs tell of, on its way from their threads to the supervisor: numbered, so that an answer may be lost."""

import threading
from collections import deque

from engine.core.event_base import Event

KEPT = 500
"""So many events are kept for a supervisor that does not ask; it asks twice a second."""


class Noted:
    """Events in the order in which they were told; `count` says how many there were ever."""

    def __init__(self) -> None:
        self.count = 0
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Take an event, in any thread."""
        with self._lock:
            self._events.append(event)
            self.count += 1

    def after(self, number: int) -> tuple[int, tuple[Event, ...]]:
        """Give what came after the first `number`, as far as it is kept, and how many there are now."""
        with self._lock:
            events = tuple(self._events)
            return self.count, events[max(0, number - (self.count - len(events))) :]
