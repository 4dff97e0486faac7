"""The typed events of a mirror: one struct for each thing that can happen to a lane or a topic.

An event is a value: the same struct is a log line, a row of `raymirror status` and a test's assertion. `severity`
says who should read it: `info`, `warning`, or `error` (a lane stopped).
"""

from typing import ClassVar

from engine.core.events.commit_events import CommitEvent
from engine.core.events.config_events import ConfigEvent
from engine.core.events.event_base import Event as Event
from engine.core.events.event_base import LaneEvent as LaneEvent
from engine.core.events.group_events import CommitsNotRead as CommitsNotRead
from engine.core.events.group_events import GroupBrokerAway as GroupBrokerAway
from engine.core.events.group_events import GroupClamped as GroupClamped
from engine.core.events.group_events import GroupEvent as GroupEvent
from engine.core.events.group_events import GroupNotSynced as GroupNotSynced
from engine.core.events.group_events import GroupRefused as GroupRefused
from engine.core.events.group_events import GroupWentBack as GroupWentBack
from engine.core.events.progress_events import ProgressEvent
from engine.core.events.proof_events import CopyDiffers as CopyDiffers
from engine.core.events.recovery_events import WorksAgain
from engine.core.events.renewal_events import ClusterChanged as ClusterChanged
from engine.core.events.renewal_events import CopyDeleted as CopyDeleted
from engine.core.events.renewal_events import CopyKept as CopyKept
from engine.core.events.renewal_events import IdentityChanged as IdentityChanged
from engine.core.events.renewal_events import TopicRenewed as TopicRenewed
from engine.core.events.start_events import Mm2Active as Mm2Active
from engine.core.events.start_events import StartDoubt as StartDoubt
from policies.model import TopicPartition
from policies.words import counted


class Resumed(LaneEvent, frozen=True, kw_only=True, tag="resumed"):
    """A lane found where to resume: by which method (`how`), and the length of the tail that no position counted."""

    how: str
    source_offset: int
    target_offset: int
    tail_records: int

    def text(self) -> str:
        return (
            f"{self.lane}: at source offset {self.source_offset}, target offset {self.target_offset}"
            f" ({self.how}, {counted(self.tail_records, 'record')} in the tail)"
        )


class CopiedAgain(LaneEvent, frozen=True, kw_only=True, tag="copied_again"):
    """Source offsets `first` to `last` (inclusive) may be on the target twice: nobody knows what MM2 copied last."""

    severity: ClassVar[str] = "warning"
    first: int
    last: int

    def text(self) -> str:
        return (
            f"{self.lane}: MM2's last position is before source offset {self.first}, and what it copied behind that"
            f" cannot be told from the records on the target: source offsets {self.first} to {self.last} are copied"
            " again and may be there twice"
        )


class SourceGap(LaneEvent, frozen=True, kw_only=True, tag="source_gap"):
    """The source no longer has offsets `first` to `last` (inclusive) that were never copied."""

    severity: ClassVar[str] = "error"
    first: int
    last: int
    cause: str
    goes_on_at: int = -1
    """The next source offset that is copied, if the configuration says `continue`; -1: the lane stopped."""

    def text(self) -> str:
        gone = f"{self.lane}: gap: source offsets {self.first} to {self.last} are gone ({self.cause})"
        if self.goes_on_at < 0:
            return f"{gone}; the lane stopped; raymirror.source.gap = continue would go on all the same"
        return f"{gone}; copying goes on at source offset {self.goes_on_at}, as raymirror.source.gap says"


class TargetGap(LaneEvent, frozen=True, kw_only=True, tag="target_gap"):
    """The target no longer shows where the copy ended, or ends below what it had acknowledged."""

    severity: ClassVar[str] = "error"
    expected: int
    found: int
    cause: str

    def text(self) -> str:
        return f"{self.lane}: target ends at {self.found}, expected {self.expected} ({self.cause}); the lane stopped"


class TargetCut(LaneEvent, frozen=True, kw_only=True, tag="target_cut"):
    """The target lost records that it had acknowledged; they are copied again from `source_offset` on."""

    severity: ClassVar[str] = "warning"
    expected: int
    found: int
    source_offset: int

    def text(self) -> str:
        return (
            f"{self.lane}: the target had acknowledged up to offset {self.expected} and ends at {self.found}: it lost"
            " records (an unclean election, a lost disk);"
            f" they are copied again from source offset {self.source_offset} on"
        )


class ForeignWriter(LaneEvent, frozen=True, kw_only=True, tag="foreign_writer"):
    """Somebody else wrote target offsets `first` to `last` (inclusive).

    `gaps`: stretches of offsets between our records since the last such event. `first` and `last` name the first
    stretch that holds records of others; the stretches after it were not inspected.
    """

    severity: ClassVar[str] = "error"
    target: TopicPartition
    first: int
    last: int
    stopped: bool
    gaps: int = 1

    def text(self) -> str:
        then = (
            "the lane stopped; set raymirror.foreign.writer=continue to append behind them"
            if self.stopped
            else "copying goes on behind them"
        )
        more = f", {self.gaps} such places since the last event" if self.gaps > 1 else ""
        where = f"target {self.target} offsets {self.first} to {self.last}"
        return f"{self.lane}: {where} come from another writer{more}; {then}"


class TargetEaten(LaneEvent, frozen=True, kw_only=True, tag="target_eaten"):
    """The target's log start has passed the position: the target's retention deletes faster than we copy."""

    severity: ClassVar[str] = "warning"
    target: TopicPartition
    log_start: int
    target_next: int

    def text(self) -> str:
        return (
            f"{self.lane}: target {self.target} now starts at offset {self.log_start}, at or behind the end of the copy"
            f" ({self.target_next}): its retention deletes records older than it keeps as they arrive"
        )


class RecordRefused(LaneEvent, frozen=True, kw_only=True, tag="record_refused"):
    """The target refused a batch; `source_offset` is the first refused record, as exactly as the broker named it."""

    severity: ClassVar[str] = "error"
    source_offset: int
    error_code: int
    reason: str

    def text(self) -> str:
        return (
            f"{self.lane}: the target refused the record at source offset {self.source_offset}"
            f" (error {self.error_code}: {self.reason}); the lane waits, mend the target topic's config or the record"
        )


class PositionRefused(LaneEvent, frozen=True, kw_only=True, tag="position_refused"):
    """The target refused the lane's position. Without a position the lane cannot resume exactly, so it stops."""

    severity: ClassVar[str] = "error"
    error_code: int
    reason: str

    def text(self) -> str:
        return (
            f"{self.lane}: the target refused its position (error {self.error_code}: {self.reason}); the lane stopped,"
            " check Write permission and max.message.bytes of the offsets topic"
        )


class LaneRefused(LaneEvent, frozen=True, kw_only=True, tag="lane_refused"):
    """A cluster refused a request that the lane cannot do without."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.lane}: {self.what}; the lane stopped"


class AccessDenied(LaneEvent, frozen=True, kw_only=True, tag="access_denied"):
    """A cluster does not allow what the lane needs. The lane waits and asks again; `LaneReleased` ends the wait."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.lane}: {self.what}; the lane waits, and asks again until it is allowed"


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
            f"{self.lane}: the batch at source offset {self.source_offset} has to be written anew, {self.what}; the"
            " lane stopped, nothing of it was written. If the batch is sound, set raymirror.batch.inflated.bytes,"
            f" now {self.limit_bytes}, to more than its records have together, and resume the topic"
        )


class OwnershipLost(LaneEvent, frozen=True, kw_only=True, tag="ownership_lost"):
    """Another owner has the lane: one with a higher assignment epoch, or one that fences us again and again."""

    severity: ClassVar[str] = "error"
    assignment_epoch: int
    other_epoch: int
    other_deployment: str

    def text(self) -> str:
        return (
            f"{self.lane}: owned at assignment epoch {self.other_epoch} by deployment {self.other_deployment!r},"
            f" we hold {self.assignment_epoch}; the lane stood down"
        )


class ProducerChanged(LaneEvent, frozen=True, kw_only=True, tag="producer_changed"):
    """The lane's transactional id had expired. A new producer id fences nobody, so the lane waited out the old one."""

    severity: ClassVar[str] = "warning"
    expected: int
    found: int

    def text(self) -> str:
        return f"{self.lane}: producer id {self.expected} had expired, took over as {self.found} by detection"


class UnfencedOwnership(LaneEvent, frozen=True, kw_only=True, tag="unfenced_ownership"):
    """The target does not let us use transactional ids: a stale owner is detected, but not refused."""

    severity: ClassVar[str] = "warning"
    reason: str

    def text(self) -> str:
        return f"{self.lane}: no transactional id ({self.reason}): stale owners are detected, not refused"


class HeldByTransaction(LaneEvent, frozen=True, kw_only=True, tag="held_by_transaction"):
    """The lane waits at the last stable offset for an open source transaction."""

    severity: ClassVar[str] = "warning"
    last_stable_offset: int
    high_watermark: int
    producer_id: int
    age_s: float

    def text(self) -> str:
        return (
            f"{self.lane}: waits at {self.last_stable_offset} of {self.high_watermark} for the open transaction of"
            f" producer {self.producer_id}, {self.age_s:.0f} s old"
        )


class LaneReleased(LaneEvent, frozen=True, kw_only=True, tag="lane_released"):
    """A lane that was held or had stopped continues."""

    def text(self) -> str:
        return f"{self.lane}: goes on"


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
    """Source and target topic differ in a way that will show in the data."""

    severity: ClassVar[str] = "warning"
    what: str

    def text(self) -> str:
        return f"{self.topic}: {self.what}"


class Mm2TopicFailed(TopicEvent, frozen=True, kw_only=True, tag="mm2_topic_failed"):
    """Records for MM2's readers cannot be written on cluster `cluster`; copying does not need them."""

    severity: ClassVar[str] = "warning"
    cluster: str
    what: str

    def text(self) -> str:
        cause = f"nothing is written there on cluster {self.cluster!r}: {self.what}"
        return f"{self.topic}: {cause}; copying does not need that topic"


class TopicFailed(TopicEvent, frozen=True, kw_only=True, tag="topic_failed"):
    """A topic could not be prepared on the target; the other topics are copied all the same."""

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
    | Mm2Active
    | StartDoubt
    | GroupNotSynced
    | GroupWentBack
    | GroupBrokerAway
    | GroupClamped
    | GroupRefused
    | CommitsNotRead
    | Mm2TopicFailed
    | CommitEvent
    | ConfigEvent
    | ProgressEvent
    | CopyDiffers
    | WorksAgain
)
