"""What is said when something works again that an event said had failed."""

from engine.core.event_base import Event

WRITTEN_AGAIN = "records are written there again"


class WorksAgain(Event, frozen=True, kw_only=True, tag="works_again"):
    """`subject` (a topic, a broker, all groups) had an event that it failed; `what` works again."""

    subject: str
    what: str

    @property
    def about(self) -> str:
        """Name the subject, as the event of the failure did."""
        return self.subject

    def text(self) -> str:
        return f"{self.subject}: {self.what}"
