"""The typed events of lanes and topics, one struct for each kind; `AnyEvent` is the union of all events of a mirror.

The same struct becomes a log line, a row of `raymirror status` and a test's assertion. `severity` is `info`, `warning`
or `error` (a lane stopped).
"""

from typing import ClassVar

from engine.core.events.commit_events import CommitEvent
from engine.core.events.config_events import ConfigEvent
from engine.core.events.drift_events import DriftEvent
from engine.core.events.event_base import Event as Event
from engine.core.events.event_base import LaneEvent as LaneEvent
from engine.core.events.group_events import CommitsNotRead as CommitsNotRead
from engine.core.events.group_events import GroupBrokerAway as GroupBrokerAway
from engine.core.events.group_events import GroupClamped as GroupClamped
from engine.core.events.group_events import GroupEvent as GroupEvent
from engine.core.events.group_events import GroupNotSynced as GroupNotSynced
from engine.core.events.group_events import GroupRefused as GroupRefused
from engine.core.events.group_events import GroupWentBack as GroupWentBack
from engine.core.events.many_topics_events import ManyTopics
from engine.core.events.progress_events import ProgressEvent
from engine.core.events.proof_events import CopyDiffers as CopyDiffers
from engine.core.events.recovery_events import WorksAgain
from engine.core.events.refused_events import RecordsLeftOut
from engine.core.events.renewal_events import ClusterChanged as ClusterChanged
from engine.core.events.renewal_events import CopyDeleted as CopyDeleted
from engine.core.events.renewal_events import CopyKept as CopyKept
from engine.core.events.renewal_events import IdentityChanged as IdentityChanged
from engine.core.events.renewal_events import TopicRenewed as TopicRenewed
from engine.core.events.start_events import EventsNotStored as EventsNotStored
from engine.core.events.start_events import Mm2Active as Mm2Active
from engine.core.events.start_events import StartDoubt as StartDoubt
from policies.model import TopicPartition
from policies.words import counted


class Resumed(LaneEvent, frozen=True, kw_only=True, tag="resumed"):
    """A lane found its resume point. `how`: the method; `tail_records`: records on the target after the position."""

    how: str
    source_offset: int
    target_offset: int
    tail_records: int

    def text(self) -> str:
        return (
            f"{self.lane}: resumes at source offset {self.source_offset}, target offset {self.target_offset}"
            f" ({self.how}, {counted(self.tail_records, 'record')} in the tail)"
        )


class CopiedAgain(LaneEvent, frozen=True, kw_only=True, tag="copied_again"):
    """Source offsets `first` to `last` (inclusive) may be on the target twice: MM2's last record is not known."""

    severity: ClassVar[str] = "warning"
    first: int
    last: int

    def text(self) -> str:
        return (
            f"{self.lane}: MM2's last position is before source offset {self.first}, and the records on the target do"
            f" not show how far MM2 copied after that: source offsets {self.first} to {self.last} are copied again and"
            " may be on the target twice"
        )


class SourceGap(LaneEvent, frozen=True, kw_only=True, tag="source_gap"):
    """The source no longer has offsets `first` to `last` (inclusive) that were never copied."""

    severity: ClassVar[str] = "error"
    first: int
    last: int
    cause: str
    goes_on_at: int = -1
    """The source offset at which the lane continues, if the configuration says `continue`; -1: the lane stopped."""

    def text(self) -> str:
        gone = f"{self.lane}: gap: source offsets {self.first} to {self.last} are gone ({self.cause})"
        if self.goes_on_at < 0:
            return f"{gone}; the lane stopped; to continue after the gap, set raymirror.source.gap = continue"
        return f"{gone}; the lane continues at source offset {self.goes_on_at}, as raymirror.source.gap says"


class TargetGap(LaneEvent, frozen=True, kw_only=True, tag="target_gap"):
    """The target's log no longer shows the end of the copy, or ends below the acknowledged offset."""

    severity: ClassVar[str] = "error"
    expected: int
    found: int
    cause: str

    def text(self) -> str:
        return (
            f"{self.lane}: target ends at offset {self.found}, expected {self.expected} ({self.cause});"
            " the lane stopped"
        )


class TargetCut(LaneEvent, frozen=True, kw_only=True, tag="target_cut"):
    """The target lost records that it had acknowledged; the lane copies them again from `source_offset` on."""

    severity: ClassVar[str] = "warning"
    expected: int
    found: int
    source_offset: int

    def text(self) -> str:
        return (
            f"{self.lane}: the target had acknowledged records up to offset {self.expected} and now ends at"
            f" {self.found}: it lost records (an unclean election, a lost disk);"
            f" the lane copies them again from source offset {self.source_offset} on"
        )


class ForeignWriter(LaneEvent, frozen=True, kw_only=True, tag="foreign_writer"):
    """Another producer wrote target offsets `first` to `last` (inclusive).

    `gaps`: the number of offset ranges between raymirror's records since the last such event. `first` and `last` are
    the first range with records of another producer; raymirror did not inspect the ranges after it.
    """

    severity: ClassVar[str] = "error"
    target: TopicPartition
    first: int
    last: int
    stopped: bool
    gaps: int = 1

    def text(self) -> str:
        then = (
            "the lane stopped; to append after them, set raymirror.foreign.writer=continue"
            if self.stopped
            else "the lane continues after them"
        )
        more = f", {self.gaps} such ranges since the last event" if self.gaps > 1 else ""
        where = f"target {self.target} offsets {self.first} to {self.last}"
        return f"{self.lane}: {where} come from another writer{more}; {then}"


class TargetEaten(LaneEvent, frozen=True, kw_only=True, tag="target_eaten"):
    """The target's log start has passed the position: the target's retention deletes faster than the lane copies."""

    severity: ClassVar[str] = "warning"
    target: TopicPartition
    log_start: int
    target_next: int

    def text(self) -> str:
        return (
            f"{self.lane}: target {self.target} now starts at offset {self.log_start}, at or after the end of the copy"
            f" ({self.target_next}): the copied records are older than its retention, so it deletes them on arrival"
        )


class RecordRefused(LaneEvent, frozen=True, kw_only=True, tag="record_refused"):
    """The target refused a batch; `source_offset`: the first refused record, as exactly as the broker names it."""

    severity: ClassVar[str] = "error"
    source_offset: int
    error_code: int
    reason: str

    def text(self) -> str:
        return (
            f"{self.lane}: the target refused the record at source offset {self.source_offset}"
            f" (error {self.error_code}: {self.reason}); the lane waits; fix the target topic's config or the record"
        )


class PositionRefused(LaneEvent, frozen=True, kw_only=True, tag="position_refused"):
    """The target refused the lane's position. Without a position the lane could not resume exactly, so it stops."""

    severity: ClassVar[str] = "error"
    error_code: int
    reason: str

    def text(self) -> str:
        return (
            f"{self.lane}: the target refused its position (error {self.error_code}: {self.reason}); the lane stopped;"
            " check the Write permission and max.message.bytes of the offsets topic"
        )


class LaneRefused(LaneEvent, frozen=True, kw_only=True, tag="lane_refused"):
    """A cluster refused a request that the lane needs."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.lane}: {self.what}; the lane stopped"


class AccessDenied(LaneEvent, frozen=True, kw_only=True, tag="access_denied"):
    """A cluster denies a request that the lane needs. The lane waits and retries; `LaneReleased` ends the wait."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.lane}: {self.what}; the lane waits and retries until the request is allowed"


class CorruptSource(LaneEvent, frozen=True, kw_only=True, tag="corrupt_source"):
    """A source batch violates Kafka's format; nothing of the batch was written."""

    severity: ClassVar[str] = "error"
    source_offset: int
    what: str

    def text(self) -> str:
        return f"{self.lane}: source offset {self.source_offset}: {self.what}; the lane stopped, nothing was written"


class BatchRefused(LaneEvent, frozen=True, kw_only=True, tag="batch_refused"):
    """A source batch must be re-encoded and decompresses to more than the limit; nothing of the batch was written."""

    severity: ClassVar[str] = "error"
    source_offset: int
    limit_bytes: int
    what: str

    def text(self) -> str:
        return (
            f"{self.lane}: the batch at source offset {self.source_offset} has to be re-encoded, {self.what}; the"
            " lane stopped; the batch was not written. If the batch is valid, set raymirror.batch.inflated.bytes,"
            f" now {self.limit_bytes} bytes, to more than the total size of its records, and resume the topic"
        )


class OwnershipLost(LaneEvent, frozen=True, kw_only=True, tag="ownership_lost"):
    """Another owner has the lane: its assignment epoch is higher, or it fences this copier again and again."""

    severity: ClassVar[str] = "error"
    assignment_epoch: int
    other_epoch: int
    other_deployment: str

    def text(self) -> str:
        return (
            f"{self.lane}: owned at assignment epoch {self.other_epoch} by deployment {self.other_deployment!r},"
            f" this copier has epoch {self.assignment_epoch}; this copier gave up the lane"
        )


class ProducerChanged(LaneEvent, frozen=True, kw_only=True, tag="producer_changed"):
    """The lane's transactional id had expired. A new producer id fences no stale owner, so the lane waited it out."""

    severity: ClassVar[str] = "warning"
    expected: int
    found: int

    def text(self) -> str:
        return (
            f"{self.lane}: producer id {self.expected} had expired; the lane continues with producer id {self.found},"
            " after checking that no stale owner still writes"
        )


class UnfencedOwnership(LaneEvent, frozen=True, kw_only=True, tag="unfenced_ownership"):
    """The target denies transactional ids or has none: it does not refuse a stale owner; raymirror detects it."""

    severity: ClassVar[str] = "warning"
    reason: str

    def text(self) -> str:
        return (
            f"{self.lane}: no transactional id ({self.reason}): raymirror detects stale owners, but the target does"
            " not refuse their writes"
        )


class HeldByTransaction(LaneEvent, frozen=True, kw_only=True, tag="held_by_transaction"):
    """The lane waits at the last stable offset for an open source transaction."""

    severity: ClassVar[str] = "warning"
    last_stable_offset: int
    high_watermark: int
    producer_id: int
    age_s: float

    def text(self) -> str:
        return (
            f"{self.lane}: waits at offset {self.last_stable_offset} of {self.high_watermark} for the open transaction"
            f" of producer {self.producer_id}, {self.age_s:.0f} s old"
        )


class LaneReleased(LaneEvent, frozen=True, kw_only=True, tag="lane_released"):
    """A lane that was held or had stopped continues."""

    def text(self) -> str:
        return f"{self.lane}: copying continues"


class TopicEvent(Event, frozen=True, kw_only=True):
    """An event of one source topic."""

    topic: str

    @property
    def about(self) -> str:
        """Name the topic."""
        return self.topic


class TopicCreated(TopicEvent, frozen=True, kw_only=True, tag="topic_created"):
    """A target topic was created, or got more partitions; `before` is the old number of partitions."""

    target: str
    partitions: int
    before: int = 0

    def text(self) -> str:
        return f"{self.topic}: target topic {self.target} now has {counted(self.partitions, 'partition')}"


class TopicWarning(TopicEvent, frozen=True, kw_only=True, tag="topic_warning"):
    """Source and target topic differ in a way that changes the copied data."""

    severity: ClassVar[str] = "warning"
    what: str

    def text(self) -> str:
        return f"{self.topic}: {self.what}"


class Mm2TopicFailed(TopicEvent, frozen=True, kw_only=True, tag="mm2_topic_failed"):
    """Records for MM2's readers cannot be written on `cluster`; copying does not need them."""

    severity: ClassVar[str] = "warning"
    cluster: str
    what: str

    def text(self) -> str:
        cause = f"raymirror cannot write to this topic on cluster {self.cluster!r}: {self.what}"
        return f"{self.topic}: {cause}; copying does not need that topic"


class TopicFailed(TopicEvent, frozen=True, kw_only=True, tag="topic_failed"):
    """A topic could not be prepared on the target; copying of the other topics continues."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.topic}: {self.what}"


AnyEvent = (
    Resumed
    | CopiedAgain
    | SourceGap
    | TargetGap
    | TargetCut
    | ForeignWriter
    | RecordRefused
    | RecordsLeftOut
    | TargetEaten
    | PositionRefused
    | LaneRefused
    | AccessDenied
    | CorruptSource
    | BatchRefused
    | IdentityChanged
    | TopicRenewed
    | CopyDeleted
    | CopyKept
    | ClusterChanged
    | OwnershipLost
    | ProducerChanged
    | UnfencedOwnership
    | HeldByTransaction
    | LaneReleased
    | TopicCreated
    | TopicWarning
    | TopicFailed
    | ManyTopics
    | Mm2Active
    | StartDoubt
    | EventsNotStored
    | GroupNotSynced
    | GroupWentBack
    | GroupBrokerAway
    | GroupClamped
    | GroupRefused
    | CommitsNotRead
    | Mm2TopicFailed
    | CommitEvent
    | ConfigEvent
    | DriftEvent
    | ProgressEvent
    | CopyDiffers
    | WorksAgain
)
