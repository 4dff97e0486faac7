"""The event for something that works again after an earlier event reported its failure."""

from engine.core.events.event_base import Event

WRITTEN_AGAIN = "records are written there again"


class WorksAgain(Event, frozen=True, kw_only=True, tag="works_again"):
    """A `subject` (a topic, a broker, all groups) works again after an event reported its failure; `what`: in words."""

    subject: str
    what: str

    @property
    def about(self) -> str:
        """Name the subject, as the event of the failure did."""
        return self.subject

    def text(self) -> str:
        return f"{self.subject}: {self.what}"
