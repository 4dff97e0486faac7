"""The supervisor's events: it keeps the last ones for the status, logs, stores and counts each."""

from collections import deque

from actors.control.ports import Ports
from actors.logging.logs import log_event
from actors.model.status import EVENTS_KEPT, EventLine
from engine.core.events.events import Event


class EventJournal:
    """The events of all flows of a mirror, the oldest first."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self.lines: deque[EventLine] = deque(maxlen=EVENTS_KEPT)

    def note(self, *events: Event) -> None:
        """Note events of the supervisor itself."""
        for event in events:
            log_event(event)
        self.note_logged(*events)

    def note_logged(self, *events: Event) -> None:
        """Note events of copiers, which log their own, with set and epoch."""
        for event in events:
            line = EventLine(
                at_ms=self._ports.clock.wall_ms(),
                severity=event.severity,
                flow=str(event.flow),
                text=event.text(),
                about=event.about,
                kind=str(type(event).__struct_config__.tag),
            )
            self.lines.append(line)
            self._ports.metadata.store_event(event)
            self._ports.observer.count(line)
