"""Frozen snapshots that leave the core: what a lane and a flow have done so far."""

import msgspec

from engine.core.events.events import AnyEvent
from engine.core.reports.latency import Histogram
from engine.core.reports.source_end import end_known
from policies.model import FlowName, LaneName, TopicPartition

IN_QUARANTINE = "in quarantine"
"""How the reason of a lane begins that is left alone because it ends its copiers."""


class LaneProgress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One lane at one moment. Offsets are next offsets; -1 where not known yet.

    `source_end` and what is made of it (`lag_bytes`, `behind_since_ms`) are as of `source_end_age_ms` ago. Ask
    `lag_known` before you take them for now.
    """

    lane: TopicPartition
    target: TopicPartition
    state: str
    reason: str
    source_next: int
    target_next: int
    source_end: int
    records: int
    wire_bytes: int
    in_flight: int
    queued_bytes: int
    resumed_by: str
    reencoded: int
    skipped: int
    set_id: str = ""
    epoch: int = -1
    """Assignment epoch that the lane is held at."""
    source_end_age_ms: int = 0
    """How long ago, at the snapshot, a broker of the source last said where it ends; -1 where none ever has."""
    source_reached: bool = True
    """Whether the source broker that the lane is fetched from can be asked, as far as one knows."""
    lag_bytes: int = -1
    """What lies between position and source's end, in bytes on the wire: lag x measured bytes per source offset."""
    newest_ms: int = -1
    """Newest timestamp in the batch that was copied last."""
    appended_at_ms: int = -1
    """When the target acknowledged the last batch."""
    behind_since_ms: int = -1
    """Since when the source holds what is not copied (`engine/core/reports/lag.py`); -1: it does not."""
    latency_ms: int = 0
    """Sum over all copied records of the time from their timestamp to their acknowledgement."""
    began_ms: int = -1
    """When its copier took the lane up; its counters begin then."""
    committed: bool = True
    """Whether the position of all that is counted as copied is durable and, in transactions, committed."""

    @property
    def end_known(self) -> bool:
        """Whether the source said lately where it ends."""
        return end_known(self.source_end, self.source_end_age_ms, reached=self.source_reached)

    @property
    def lag_known(self) -> bool:
        """Whether both the position and the source's end are known."""
        return self.source_next >= 0 and self.end_known

    @property
    def lag_heard(self) -> bool:
        """Whether the lag is known, or was: the source's end may have been heard too long ago."""
        return self.source_end >= 0 and self.source_next >= 0

    def lag_ms(self, now_ms: int) -> int:
        """Age of the oldest record that is not copied, at an instant of Unix time; 0 without one, -1 unknown."""
        return self.least_lag_ms(now_ms) if self.lag_known else -1

    def least_lag_ms(self, now_ms: int) -> int:
        """Age that the oldest uncopied record has at least: that of what was heard; -1 where nothing ever was."""
        if not self.lag_heard:
            return -1
        return max(0, now_ms - self.behind_since_ms) if self.behind_since_ms >= 0 else 0

    def heard_lag_ms(self, now_ms: int) -> int:
        """Age that the oldest uncopied record had when the source's end was heard last; -1 where it never was."""
        return self.least_lag_ms(now_ms - self.source_end_age_ms)

    @property
    def lag_records(self) -> int:
        """Offsets between the copied position and the source's end; -1 unknown."""
        return self.least_lag_records if self.lag_known else -1

    @property
    def least_lag_records(self) -> int:
        """Offsets between the copied position and the source's end that was heard last; -1 where none ever was."""
        return max(0, self.source_end - self.source_next) if self.lag_heard else -1


def unowned(name: LaneName, set_id: str, epoch: int, reason: str) -> LaneProgress:
    """Describe a lane that no copier reports."""
    return LaneProgress(
        lane=name.source,
        target=name.target,
        state="unowned",
        reason=reason,
        source_next=-1,
        target_next=-1,
        source_end=-1,
        records=0,
        wire_bytes=0,
        in_flight=0,
        queued_bytes=0,
        resumed_by="",
        reencoded=0,
        skipped=0,
        set_id=set_id,
        epoch=epoch,
    )


class TopicCount(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied of one source topic by lanes that are no longer listed."""

    topic: str
    records: int
    wire_bytes: int
    latency_ms: int

    def plus(self, records: int, wire_bytes: int, latency_ms: int) -> "TopicCount":
        """Add what another lane copied."""
        return TopicCount(
            topic=self.topic,
            records=self.records + records,
            wire_bytes=self.wire_bytes + wire_bytes,
            latency_ms=self.latency_ms + latency_ms,
        )


class FlowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes of one flow in one copier, and the events since the last snapshot."""

    flow: FlowName
    at_ms: int
    lanes: tuple[LaneProgress, ...]
    events: tuple[AnyEvent, ...]
    buffer_bytes: int
    set_ids: tuple[str, ...]
    beat: int = 0
    """Passes of the copier's tick loop: one that stands still while snapshots come is a stuck data loop."""
    left: tuple[TopicCount, ...] = ()
    """What lanes had copied here before they left this copier; counters of a copier never fall."""
    append_latency: Histogram = Histogram()
    """Per produce request with an acknowledged batch: from sending to the answer, a quota's wait included."""
    replication_latency: Histogram = Histogram()
    """Per copied record (of a batch: its newest timestamp): from its timestamp to its acknowledgement."""
    record_age: Histogram = Histogram()
    """Per fetched record (of a fetch: the newest timestamp of the partition): from its timestamp to its arrival."""
    append_failures: int = 0
    """Appended batches whose answer was not an acknowledgement."""
    waits_for: str = ""
    """What keeps the whole flow from copying in this copier: a cluster that does not answer. Empty while it copies."""
    is_open: bool = True
    """Whether the copier has connected to both clusters, so that lanes that it is given can be acquired at once."""
    records: int = 0
    """Copied since the copier began, by lanes that have left it too; so with `wire_bytes`."""
    wire_bytes: int = 0
