"""Events about progress samples, and about the lag that is computed from them."""

from typing import ClassVar

from engine.core.events.event_base import Event


class SamplesNotWritten(Event, frozen=True, kw_only=True, tag="samples_not_written"):
    """A copier's progress samples do not reach their topic: the history has a hole, copying continues."""

    severity: ClassVar[str] = "warning"
    topic: str
    why: str

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: progress samples are not written ({self.why}): the history of lag has a hole from now on;"
            " copying goes on"
        )


class RpoBreached(Event, frozen=True, kw_only=True, tag="rpo_breached"):
    """A topic is further behind than its objective allows: `seconds` behind in the window that begins at `since_ms`."""

    severity: ClassVar[str] = "warning"
    topic: str
    seconds: float
    objective_s: float
    since_ms: int

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: {self.seconds:.1f} s of records would be lost if the source were lost now;"
            f" the objective is {self.objective_s:g} s"
        )


class RpoKept(Event, frozen=True, kw_only=True, tag="rpo_kept"):
    """A topic is within its objective again; `seconds`: how long it was not; `worst_s`: its largest lag meanwhile."""

    topic: str
    seconds: float
    worst_s: float
    objective_s: float

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: within its objective of {self.objective_s:g} s again, after {self.seconds:.0f} s;"
            f" at worst it was {self.worst_s:.1f} s behind"
        )


class LagCheckpointLost(Event, frozen=True, kw_only=True, tag="lag_checkpoint_lost"):
    """The query that computes the lag history has lost its checkpoint: it starts again at the begin of the topic.

    `what`: what happened to the checkpoint; it is gone, or can no longer be used.
    """

    severity: ClassVar[str] = "warning"
    checkpoint: str
    topic: str
    what: str

    @property
    def about(self) -> str:
        """Name the topic that is read again."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.checkpoint}: the checkpoint of the history of lag {self.what}: windows are made again of what"
            f" {self.topic} still has; none is lost or doubled by that"
        )


ProgressEvent = SamplesNotWritten | RpoBreached | RpoKept | LagCheckpointLost
