"""Frozen snapshots that leave the core: what a lane and a flow have done so far."""

import msgspec

from engine.core.events import AnyEvent
from policies.model import FlowName, TopicPartition


class LaneProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One lane at one moment. Offsets are next offsets; -1 where not known yet."""

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

    @property
    def lag_records(self) -> int:
        """Offsets between the copied position and the source's end; 0 while the end is not known."""
        return max(0, self.source_end - self.source_next) if self.source_end >= 0 and self.source_next >= 0 else 0


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
