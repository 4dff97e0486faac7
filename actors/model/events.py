"""Typed events of the supervisor about copiers, sets and flows; the engine has others."""

import typing
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import msgspec

from actors.model.spark_status import SparkNews
from actors.model.states import way_back_text
from engine.core.events.events import AnyEvent, Event
from policies.model import FlowName
from policies.words import counted


class CopierEvent(Event, frozen=True, kw_only=True):
    """An event of one copier."""

    copier: str

    @property
    def about(self) -> str:
        return self.copier


class CopierEnded(CopierEvent, frozen=True, kw_only=True, tag="copier_ended"):
    """A copier ended without being asked to; `then`: what the supervisor does about it."""

    severity: ClassVar[str] = "error"
    cause: str
    then: str

    def text(self) -> str:
        return f"{self.copier} ended: {self.cause}; {self.then}"


class CopierDrainedBadly(CopierEvent, frozen=True, kw_only=True, tag="copier_drained_badly"):
    """A copier ended while it drained, or took too long; the next owner resumes from the log."""

    severity: ClassVar[str] = "warning"
    what: str

    def text(self) -> str:
        return f"{self.copier} {self.what}"


class CopierReplaced(CopierEvent, frozen=True, kw_only=True, tag="copier_replaced"):
    """A copier hands its sets over to a new one."""

    why: str

    def text(self) -> str:
        return f"{self.copier} hands its partitions over to a new one: {self.why}"


class FlowGone(CopierEvent, frozen=True, kw_only=True, tag="flow_gone"):
    """A copier was ended because the configuration does not have its flow any more."""

    severity: ClassVar[str] = "warning"

    def text(self) -> str:
        return f"{self.copier} ended: the mirror has no such flow any more"


class SetEvent(Event, frozen=True, kw_only=True):
    """An event of one partition set."""

    set_id: str

    @property
    def about(self) -> str:
        return self.set_id


class SetMoved(SetEvent, frozen=True, kw_only=True, tag="set_moved"):
    """A set has moved from one copier to another."""

    giver: str
    taker: str

    def text(self) -> str:
        return f"{self.set_id} moved from {self.giver} to {self.taker}"


class SetQuarantined(SetEvent, frozen=True, kw_only=True, tag="set_quarantined"):
    """A set whose copiers ended several times is put in quarantine; the other sets of its flow are still copied."""

    severity: ClassVar[str] = "error"
    why: str
    partitions: tuple[str, ...] = ()

    def text(self) -> str:
        what = f"{', '.join(self.partitions)} ({self.set_id})" if self.partitions else self.set_id
        return f"{what} is in quarantine: {self.why}; to try it again now: raymirror restart {self.flow}"


class TopicGone(Event, frozen=True, kw_only=True, tag="topic_gone"):
    """A topic that was copied is no longer on the source, or no longer matches the flow's patterns."""

    severity: ClassVar[str] = "error"
    topic: str
    partitions: int

    @property
    def about(self) -> str:
        return self.topic

    def text(self) -> str:
        return (
            f"{self.topic}: gone from the source, or from the flow's patterns: {counted(self.partitions, 'partition')}"
            " not copied any more; the copy stays on the target"
        )


class Scaled(Event, frozen=True, kw_only=True, tag="scaled"):
    """The wanted number of copiers has changed, or cannot be reached."""

    copiers: int
    reason: str

    def text(self) -> str:
        return f"copiers: {self.copiers} ({self.reason})"


class FailoverOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a failover. `records`: source offsets not copied, -1: unknown. `groups`: all groups; `unequal`:
    groups whose offsets differ from the source. `partitions`: all; `undrained`: partitions that are not drained.
    `heartbeats`: partitions of heartbeats that are not drained; no other number counts them. `tombstones`: compacted
    copies whose `delete.retention.ms` was raised, with the earlier value; None: they had no value of their own.
    `renamed`: copies have other names than their topics. `left_out`: records that the target refused, and nobody has
    replayed or dropped; no other number counts them; -1: unknown.
    """

    records: int
    groups: int
    unequal: int
    partitions: int = 0
    undrained: int = 0
    heartbeats: int = 0
    tombstones: dict[str, str | None] = {}
    renamed: bool = False
    left_out: int = 0
    switched: bool = False
    """Whether a switchover stopped the flow, with nothing left to copy; then nothing was counted here."""


class PausedOrResumed(Event, frozen=True, kw_only=True, tag="paused_or_resumed"):
    """An operator paused or resumed a flow, or some of its topics.

    `moved`: topics that stay paused when the flow is resumed, because their producers write to the target now.
    """

    command: str
    topics: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    def text(self) -> str:
        names = ", ".join(self.topics) or "the flow"
        if self.command == "pause-moved":
            return f"producers of {names} move to the target: these topics stay paused"
        if self.command == "release-moved":
            return f"producers of {names} write to the source again: these topics are copied again"
        if self.command == "pause":
            return f"an operator paused {names}"
        but = f"; {', '.join(self.moved)} stays paused, because producers have moved" if self.moved else ""
        return f"an operator resumed {names}{but}"


class FailedOver(Event, frozen=True, kw_only=True, tag="failed_over"):
    """A flow was stopped by a failover."""

    severity: ClassVar[str] = "warning"
    outcome: FailoverOutcome
    mirror_goes_on: bool | None = None
    """Whether the mirror continues with other flows; None: not recorded."""

    def text(self) -> str:
        if self.outcome.switched:
            return "a switchover stopped the flow for good; nothing is left to copy, and the target serves"
        records, groups, unequal = self.outcome.records, self.outcome.groups, self.outcome.unequal
        left = "an unknown number of records" if records < 0 else counted(records, "record")
        if self.outcome.undrained:
            left += f" in {self.outcome.undrained} of {counted(self.outcome.partitions, 'partition')}"
        beats = ", heartbeats not counted" if self.outcome.heartbeats else ""
        copied = f"with {left} not copied" if records or self.outcome.undrained else "and every record is copied"
        if left_out := self.outcome.left_out:
            refused = counted(left_out, "record") if left_out > 0 else "an unknown number of records"
            copied += f", besides {refused} that the target refused"
        equal = f"consumer groups exactly as on the source: {groups - unequal:,} of {groups:,}"
        kept = ", ".join(f"{topic} ({before or 'none'})" for topic, before in self.outcome.tombstones.items())
        raised = f"; delete.retention.ms was raised (before, in ms): {kept}" if kept else ""
        return (
            f"failed over: the flow is stopped {copied}{beats}; {equal}{raised};"
            f" {way_back_text(str(self.flow), renamed=self.outcome.renamed)}; to copy in the old direction again:"
            f" {self._advice()}"
        )

    def _advice(self) -> str:
        run = f"raymirror run CONFIG --forget-failover '{self.flow}'"
        resume = f"raymirror resume '{self.flow}' --forget-failover"
        if self.mirror_goes_on is None:
            return f"{resume} if the mirror still runs, else {run}"
        return f"{resume}, or {run} once the mirror has ended" if self.mirror_goes_on else run


class FailoverForgotten(Event, frozen=True, kw_only=True, tag="failover_forgotten"):
    """An operator has confirmed that a flow that was failed over may be copied again."""

    severity: ClassVar[str] = "warning"

    def text(self) -> str:
        return "its failover is forgotten on request: what applications wrote to the target is not copied back"


class ConfigEdited(Event, frozen=True, kw_only=True, tag="config_edited"):
    """The configuration file has changed since the mirror read it: at its start, or at the last reload."""

    severity: ClassVar[str] = "warning"
    path: str

    def text(self) -> str:
        return (
            f"{self.path} was edited: the mirror continues with the settings that it runs with (it reads only"
            f" passwords from the edited file); to apply the new settings: raymirror reload {self.path}"
        )


class ReloadRefused(Event, frozen=True, kw_only=True, tag="reload_refused"):
    """A watched configuration file was edited, and cannot be applied: nothing was changed."""

    severity: ClassVar[str] = "warning"
    path: str
    why: str

    def text(self) -> str:
        return f"{self.path} was edited, and cannot be applied; the mirror continues as before: {self.why}"


class Reloaded(Event, frozen=True, kw_only=True, tag="reloaded"):
    """A reload applied a changed configuration; `change`: what it did to this flow."""

    path: str
    change: str
    keys: tuple[str, ...] = ()

    def text(self) -> str:
        what = f" ({', '.join(self.keys)})" if self.keys else ""
        return f"{self.path} was applied by a reload: the flow is {self.change}{what}"


class SparkStarted(Event, frozen=True, kw_only=True, tag="spark_started"):
    """Spark is ready for the first time."""

    def text(self) -> str:
        return "Spark is ready"


class SparkFailed(Event, frozen=True, kw_only=True, tag="spark_failed"):
    """Spark has ended, or cannot be started; copying continues without it."""

    severity: ClassVar[str] = "warning"
    reason: str

    def text(self) -> str:
        return f"Spark is down: {self.reason}; copying continues without it"


class SparkRecovered(Event, frozen=True, kw_only=True, tag="spark_recovered"):
    """Spark is ready again."""

    def text(self) -> str:
        return "Spark is ready again"


class FlowTroubled(Event, frozen=True, kw_only=True, tag="flow_troubled"):
    """Discovery or the stored state of a flow fails, or another mirror has the flow."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return self.what


class FlowWaits(Event, frozen=True, kw_only=True, tag="flow_waits"):
    """A flow waits before it starts: its previous owner did not end in order and may still be alive."""

    what: str

    def text(self) -> str:
        return f"waiting for {self.what}"


class FlowRecovered(Event, frozen=True, kw_only=True, tag="flow_recovered"):
    """The trouble that `FlowTroubled` reported is over, after so many seconds."""

    what: str
    seconds: float

    def text(self) -> str:
        return f"topics can be discovered again, after {self.seconds:.0f} s; the last failure was: {self.what}"


def spark_event(flow: FlowName, news: SparkNews) -> Event:
    if news.kind == "failed":
        return SparkFailed(flow=flow, reason=news.reason)
    return SparkStarted(flow=flow) if news.kind == "started" else SparkRecovered(flow=flow)


KINDS: tuple[type[Event], ...] = (
    CopierEnded,
    CopierDrainedBadly,
    CopierReplaced,
    FlowGone,
    SetMoved,
    SetQuarantined,
    TopicGone,
    Scaled,
    FlowTroubled,
    FlowWaits,
    FlowRecovered,
    PausedOrResumed,
    FailedOver,
    FailoverForgotten,
    ConfigEdited,
    ReloadRefused,
    Reloaded,
    SparkStarted,
    SparkFailed,
    SparkRecovered,
)

_known: list[Any] = [*typing.get_args(AnyEvent), *KINDS]
_decoder = msgspec.msgpack.Decoder(tuple[reduce(or_, _known), ...])  # type: ignore[misc] # a union made of the tables


def pack(events: tuple[Event, ...]) -> bytes:
    """Pack events, to send them between processes."""
    return msgspec.msgpack.encode(events)


def unpack(data: bytes) -> tuple[Event, ...]:
    """Unpack what `pack` packed. Raises msgspec.ValidationError."""
    return typing.cast("tuple[Event, ...]", _decoder.decode(data))
