"""The event of a subject that works again after an earlier event reported its failure."""

from engine.core.events.event_base import Event

WRITTEN_AGAIN = "raymirror can write to this topic again"


class WorksAgain(Event, frozen=True, kw_only=True, tag="works_again"):
    """A `subject` (a topic, a broker, all groups) works again after a failure; `what`: the news in words."""

    subject: str
    what: str

    @property
    def about(self) -> str:
        """Name the subject, as the event of the failure did."""
        return self.subject

    def text(self) -> str:
        return f"{self.subject}: {self.what}"
