"""Events of progress samples and of the lag that raymirror computes from them."""

from typing import ClassVar

from engine.core.events.event_base import Event


class SamplesNotWritten(Event, frozen=True, kw_only=True, tag="samples_not_written"):
    """A copier's progress samples do not reach their topic: the lag history has a gap, copying continues."""

    severity: ClassVar[str] = "warning"
    topic: str
    why: str

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: raymirror cannot write progress samples ({self.why}): the lag history has a gap from now"
            " on; copying continues"
        )


class RpoBreached(Event, frozen=True, kw_only=True, tag="rpo_breached"):
    """A topic is further behind than its objective allows: by `seconds` in the window that starts at `since_ms`."""

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
            f"{self.topic}: if the source were lost now, {self.seconds:.1f} s of records would be lost;"
            f" the objective is {self.objective_s:g} s"
        )


class RpoKept(Event, frozen=True, kw_only=True, tag="rpo_kept"):
    """A topic is within its objective again after `seconds`; `worst_s`: its largest lag in that time."""

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
            f"{self.topic}: within its objective of {self.objective_s:g} s again, after {self.seconds:.0f} s outside;"
            f" its largest lag was {self.worst_s:.1f} s"
        )


class LagCheckpointLost(Event, frozen=True, kw_only=True, tag="lag_checkpoint_lost"):
    """The query that computes the lag history lost its checkpoint and restarts at the earliest offset of the topic.

    `what`: the state of the checkpoint: it is missing, or no longer usable.
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
            f"{self.checkpoint}: the checkpoint of the lag history {self.what}: raymirror computes the windows again"
            f" from the samples that {self.topic} still has; no window is lost or doubled"
        )


class LagClocksDiffer(Event, frozen=True, kw_only=True, tag="lag_clocks_differ"):
    """Clocks behind the lag history differ by `seconds`.

    `broker_ahead`: the broker that leads the progress topic is so far ahead of the Spark host. Otherwise: the clocks of
    copiers and of that broker differ by up to so much.
    """

    severity: ClassVar[str] = "warning"
    topic: str
    seconds: float
    broker_ahead: bool

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        if self.broker_ahead:
            return (
                f"{self.topic}: the clock of the broker that leads it is {self.seconds:.0f} s ahead of the Spark"
                " host's: windows of the lag history have that time, and once another broker leads the topic, samples"
                " may be too late for the history and be left out; synchronise the clocks of the target's brokers"
            )
        return (
            f"{self.topic}: the clocks of copiers and of the broker that leads it differ by up to {self.seconds:.0f} s:"
            " the lag history uses the broker's time for their samples; synchronise the clocks"
        )


class LagSamplesLate(Event, frozen=True, kw_only=True, tag="lag_samples_late"):
    """Samples were left out of the lag history: their time was more than `seconds` before that of the newest one.

    `rows`: one for each partition in a sample, and one for its copier, since the last such event.
    """

    severity: ClassVar[str] = "warning"
    topic: str
    rows: int
    seconds: float

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: {self.rows} rows of samples are missing in the lag history, because their time is more than"
            f" {self.seconds:g} s before that of the newest sample; most likely the clock of a broker that led the"
            " topic was ahead: synchronise the clocks of the target's brokers; copying continues"
        )


class OldTablesFound(Event, frozen=True, kw_only=True, tag="old_tables_found"):
    """An earlier version stored results at `place` that are not in the tables: they wait for `tables convert`."""

    severity: ClassVar[str] = "warning"
    place: str
    what: str
    storage: str

    @property
    def about(self) -> str:
        """Name the place."""
        return self.place

    def text(self) -> str:
        return (
            f"{self.place}: {self.what} of an earlier version is not in the tables yet, so commands show only what was"
            f" stored since; `raymirror tables convert --storage {self.storage}` adds it while the mirror runs"
        )


ProgressEvent = (
    SamplesNotWritten | RpoBreached | RpoKept | LagCheckpointLost | LagClocksDiffer | LagSamplesLate | OldTablesFound
)
