"""A view for output that is no terminal: the demo's own steps, and events that are warnings or errors."""

from typing import TextIO

from actors.model.status import EventLine, MirrorStatus, fresh


class StepsView:
    """Shows few lines. Flows move all the time, and that partitions begin is no news in a demo."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._seen: tuple[EventLine, ...] = ()

    def show(self, status: MirrorStatus) -> None:
        """Print each event once, unless it is good news."""
        for event in fresh(self._seen, status.events):
            if event.severity != "info":
                self.say(f"{event.severity}: {event.flow}: {event.text}")
        self._seen = status.events

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)
