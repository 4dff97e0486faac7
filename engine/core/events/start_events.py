"""Events of a flow's start, and of its own topics."""

from typing import ClassVar

from engine.core.events.event_base import Event


class Mm2Active(Event, frozen=True, kw_only=True, tag="mm2_active"):
    """MM2's consumer group on the target has members while raymirror starts the flow."""

    severity: ClassVar[str] = "warning"
    group: str

    @property
    def about(self) -> str:
        """Name the group."""
        return self.group

    def text(self) -> str:
        return (
            f"{self.group}: MM2's group has members on {self.flow.target}: if MM2 copies this flow too, records arrive"
            " twice; stop MM2 or this flow"
        )


class StartDoubt(Event, frozen=True, kw_only=True, tag="start_doubt"):
    """A warning about a flow that was checked late: one of its clusters was unreachable when the mirror started."""

    severity: ClassVar[str] = "warning"
    what: str

    @property
    def about(self) -> str:
        """Return the warning itself, so that two warnings differ."""
        return self.what

    def text(self) -> str:
        return self.what


class EventsNotStored(Event, frozen=True, kw_only=True, tag="events_not_stored"):
    """The target refuses the events of a flow, or their topic: only the status and the logs have them."""

    severity: ClassVar[str] = "error"
    topic: str
    why: str

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return f"{self.topic}: events are not stored: {self.why}"
