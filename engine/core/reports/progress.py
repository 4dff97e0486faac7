"""Frozen snapshots of the progress of lanes and flows."""

import msgspec

from engine.core.events.events import AnyEvent
from engine.core.reports.latency import Histogram
from engine.core.reports.source_end import end_known
from policies.model import FlowName, LaneName, TopicPartition
from policies.placement.bandwidth_shares import BandwidthUse

UNOWNED = "unowned"
"""The state of a lane that no copier has."""
PAUSED = "paused"
"""The state of a lane that an operator has paused."""
IN_QUARANTINE = "in quarantine"
"""The first words of the reason of a quarantined lane, which is not copied because it ends its copiers."""


class LaneProgress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One lane at one moment. Offsets are next offsets; -1: not known yet. Times are Unix ms; -1: never.

    `source_end` and the fields computed from it (`lag_bytes`, `behind_since_ms`) are as of `source_end_age_ms` ago.
    They describe the present only if `lag_known` is true.
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
    """The assignment epoch of the lane."""
    source_end_age_ms: int = 0
    """The time in ms, at the snapshot, since a source broker last reported the end of the partition; -1: never."""
    source_reached: bool = True
    """Whether the source broker that the lane is fetched from is reachable, as far as known."""
    lag_bytes: int = -1
    """The bytes on the wire from the position to the source's end: lag x measured bytes per source offset."""
    newest_ms: int = -1
    """The newest timestamp in the last copied batch."""
    appended_at_ms: int = -1
    """When the target acknowledged the last batch."""
    behind_since_ms: int = -1
    """Since when the source has uncopied records (`engine/core/reports/lag.py`); -1: it has none."""
    latency_ms: int = 0
    """The sum over all copied records of the time in ms from their timestamp to their acknowledgement."""
    began_ms: int = -1
    """When this copier took the lane; the lane's counters start at that time."""
    committed: bool = True
    """Whether the position of all records counted as copied is durable and, in transactions, committed."""
    held: str = ""
    """Why a lane that is behind is copied more slowly than it could be: a limit or a class; empty if it is not."""
    bound: str = ""
    """What the path of a lane that moves carries, if distance is what bounds it (`engine/flow/io/far_paths.py`)."""

    @property
    def facts(self) -> tuple[object, ...]:
        """What a change of is news; the other fields change with these, or with time alone."""
        return (
            self.lane,
            self.state,
            self.reason,
            self.source_next,
            self.source_end,
            self.source_reached,
            self.in_flight,
            self.committed,
            self.held,
            self.set_id,
            self.epoch,
        )

    @property
    def end_known(self) -> bool:
        """Whether the source has reported its end recently."""
        return end_known(self.source_end, self.source_end_age_ms, reached=self.source_reached)

    @property
    def lag_known(self) -> bool:
        """Whether both the position and the source's end are known."""
        return self.source_next >= 0 and self.end_known

    @property
    def lag_heard(self) -> bool:
        """Whether the lag is known or was known: the source's last report may be too old."""
        return self.source_end >= 0 and self.source_next >= 0

    def lag_ms(self, now_ms: int) -> int:
        """Return the age in ms of the oldest uncopied record at `now_ms` (Unix time); 0: there is none; -1: unknown."""
        return self.least_lag_ms(now_ms) if self.lag_known else -1

    def least_lag_ms(self, now_ms: int) -> int:
        """Return the least age in ms of the oldest uncopied record by the source's last report; -1: no report ever."""
        if not self.lag_heard:
            return -1
        return max(0, now_ms - self.behind_since_ms) if self.behind_since_ms >= 0 else 0

    def heard_lag_ms(self, now_ms: int) -> int:
        """Return the age in ms of the oldest uncopied record at the source's last report; -1: no report ever."""
        return self.least_lag_ms(now_ms - self.source_end_age_ms)

    @property
    def lag_records(self) -> int:
        """The number of offsets from the position to the source's end; -1: unknown."""
        return self.least_lag_records if self.lag_known else -1

    @property
    def least_lag_records(self) -> int:
        """The number of offsets from the position to the source's last reported end; -1: no report ever."""
        return max(0, self.source_end - self.source_next) if self.lag_heard else -1


def unowned(name: LaneName, set_id: str, epoch: int, reason: str) -> LaneProgress:
    """Describe a lane that no copier reports."""
    return LaneProgress(
        lane=name.source,
        target=name.target,
        state=UNOWNED,
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
    """The totals of one source topic, copied by lanes that have left the copier."""

    topic: str
    records: int
    wire_bytes: int
    latency_ms: int

    def plus(self, records: int, wire_bytes: int, latency_ms: int) -> "TopicCount":
        """Return the totals with those of another lane added."""
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
    """The number of passes of the copier's tick loop; if it does not grow from snapshot to snapshot, the loop hangs."""
    left: tuple[TopicCount, ...] = ()
    """The totals of lanes that have left this copier; so the counters of a copier never fall."""
    append_latency: Histogram = Histogram()
    """Per produce request with an acknowledged batch: from sending to the answer, including a quota's wait."""
    replication_latency: Histogram = Histogram()
    """Per copied record (of a batch: its newest timestamp): from its timestamp to its acknowledgement."""
    record_age: Histogram = Histogram()
    """Per fetched record (of a fetch: the newest timestamp of the partition): from its timestamp to its arrival."""
    loop_stall: Histogram = Histogram()
    """Per sample while records arrive: how late the copier's event loop ran a callback that was due."""
    append_failures: int = 0
    """The number of batches whose answer was not an acknowledgement."""
    merged_batches: int = 0
    """The number of acknowledged batches that were made of several source batches; `merged_from`: of how many."""
    merged_from: int = 0
    left_out: int = 0
    """The number of records that the target refused and that were left out (`raymirror.refused`)."""
    range_vain_bytes: int = 0
    """Bytes of sources that were fetched in vain because a partition is read in ranges."""
    waits_for: str = ""
    """Why the whole flow does not copy in this copier: a cluster that does not answer. Empty while it copies."""
    is_open: bool = True
    """Whether the copier is connected to both clusters, so that it can acquire new lanes at once."""
    records: int = 0
    """Records copied since the copier started, including lanes that have left it; `wire_bytes` likewise."""
    wire_bytes: int = 0
    bandwidth: dict[str, BandwidthUse] = {}
    """What the copier fetches under each limit, by the limit's pattern."""

    @property
    def totals(self) -> tuple[object, ...]:
        """What a change of is news, besides changes of lanes."""
        return (
            len(self.lanes),
            self.records,
            self.wire_bytes,
            self.append_failures,
            self.left_out,
            self.set_ids,
            self.waits_for,
            self.is_open,
        )
