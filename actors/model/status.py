"""The mirror at one moment, as `raymirror status` shows it: frozen structs that cross processes as msgpack."""

import msgspec

from actors.model.spark_status import SparkStatus
from actors.model.states import CopierState, Desired
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import Histogram
from engine.core.reports.progress import LaneProgress
from engine.jobs.proof.state import FlowProof

EVENTS_KEPT = 500
"""Of all flows, by a running mirror; its targets keep the others."""


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened. `at_ms` is Unix time; `kind` is the event's name, empty for a sentence of the moment.

    `set_id` and `epoch` say of which partition set, and which ownership of it, where the event is of one.
    """

    at_ms: int
    severity: str
    flow: str
    text: str
    about: str = ""
    kind: str = ""
    set_id: str = ""
    epoch: int = -1


class CopierStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One copier: how far it is, what it owns."""

    copier_id: str
    flow: str
    state: CopierState
    set_ids: tuple[str, ...]
    lanes: int
    buffer_bytes: int
    node: str = ""


class FlowAtEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How far a flow was when its last copier ended, at `at_ms` (Unix time; -1 where none ended in order).

    `unknown_lanes`: partitions whose lag no copier could tell at its end; `lag_records`: of all the others.
    """

    at_ms: int
    lag_records: int
    unknown_lanes: int


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One flow, summed over its lanes. Rates are per second over the last few snapshots.

    `unknown_lanes` counts lanes whose lag nobody knows: no copier has them, or the source has not said for a while
    where they end (`engine/core/reports/source_end.py`). While it is not 0, the flow's lag is unknown: None. What is
    known of it is in `least_lag_records`, `least_lag_bytes` and `behind_since_ms`: it is at least that much.
    """

    flow: str
    desired: Desired
    paused_topics: tuple[str, ...]
    topics: int
    lanes: int
    unknown_lanes: int
    lane_states: dict[str, int]
    lag_records: int | None
    records: int
    wire_bytes: int
    records_per_s: float
    bytes_per_s: float
    errors: int
    waiting_for: str
    least_lag_records: int = 0
    """Sum over the partitions, each as of when its source's end was heard last."""
    lag_bytes: int | None = 0
    least_lag_bytes: int = 0
    """Sum over the partitions whose size was measured, each as of when its source's end was heard last."""
    source_end_age_ms: int = -1
    """How long ago the source said where it ends, of the partition where that is longest, among `silent_lanes` where
    there are any; -1: it never did."""
    silent_lanes: int = 0
    """Of the `unknown_lanes`, those whose source said for too long nothing of where they end."""
    behind_since_ms: int = -1
    """Since when (Unix time) the source holds what is not copied, for the partition furthest behind; -1: nothing that
    is known."""
    stalled: int = 0
    """Partitions that do not move, though they are behind or nobody can tell; each gives a reason."""
    stall_reason: str = ""
    """The reason that most of those give."""
    stalled_for_it: int = 0
    """How many of them give it."""
    quarantined: dict[str, str] = {}
    """Source partitions that are left alone because they end their copiers, and why."""
    heeded: bool = True
    """Whether every copier does what was asked for last; a second or so passes between."""
    append_failures: int = 0
    append_latency: Histogram = Histogram()
    replication_latency: Histogram = Histogram()
    record_age: Histogram = Histogram()
    groups: GroupsReport | None = None
    """The last round of the consumer groups, None before the first."""
    configs: ConfigReport | None = None
    """The last round of configs and ACLs, None before the first."""
    at_end: FlowAtEnd | None = None
    """Of a flow that is over, or whose mirror ends, and that has no copier left; None otherwise."""
    discovered: bool = True
    """Whether the source's topics were discovered at least once since the supervisor began."""
    failed_over: bool = False
    """Whether a failover stopped it, and nobody has resumed it since."""

    def least_lag_ms(self, now_ms: int) -> int:
        """Age that the oldest uncopied record has at least; 0 where none is known of, and it may have any age."""
        return max(0, now_ms - self.behind_since_ms) if self.behind_since_ms >= 0 else 0

    @property
    def is_lag_known(self) -> bool:
        """Whether the lag of all partitions is known; never before the topics were discovered for the first time."""
        return self.lag_records is not None

    @property
    def is_undiscovered(self) -> bool:
        """Whether nobody knows which partitions the flow copies: its topics were never discovered, nor taken over."""
        return not self.discovered and not self.lanes

    @property
    def is_silent(self) -> bool:
        """Whether the lag of some partition is unknown because the source has not said for too long where it ends."""
        return self.silent_lanes > 0


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied of one source topic since the supervisor began; counters never fall.

    `latency_ms`: sum over the records of the time from their timestamp to their acknowledgement.
    """

    flow: str
    topic: str
    records: int
    wire_bytes: int
    latency_ms: int


class MirrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole mirror. `refused`: why it may not run.

    `phase`: `starting`, `waiting` (no flow has begun, because a cluster does not answer: `waiting_for` of its flows
    says which), `running`, `draining` or `stopped`.
    """

    namespace: str
    version: str
    config_path: str
    config_digest: str
    desired: Desired
    phase: str
    at_ms: int
    up_s: float
    flows: tuple[FlowStatus, ...]
    copiers: tuple[CopierStatus, ...]
    events: tuple[EventLine, ...]
    instance_id: str = ""
    refused: str = ""
    unremembered: tuple[str, ...] = ()
    """Flows of which what is wanted is not written to their target yet: told after a command, and at the end."""
    lanes: tuple[LaneProgress, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    """Given together with the lanes."""
    spark: SparkStatus = SparkStatus()
    socket: str = ""
    """Where the supervisor answers commands of its own machine; empty where nowhere."""
    proofs: dict[str, FlowProof] = {}
    """Of the flows that are proven all the time, by name; their partitions are given together with the lanes."""


def encode_status(status: MirrorStatus) -> bytes:
    return msgspec.msgpack.encode(status)


def decode_status(data: bytes) -> MirrorStatus:
    """Unpack a status; raises msgspec.ValidationError on bytes of another version."""
    return msgspec.msgpack.decode(data, type=MirrorStatus)
