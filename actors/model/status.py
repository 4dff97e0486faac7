"""The mirror at one moment, as `raymirror status` shows it: frozen structs that cross processes as msgpack."""

import msgspec

from actors.model.spark_status import SparkStatus
from actors.model.states import CopierState, Desired
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.drill_report import DrillStanding
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import Histogram
from engine.core.reports.progress import LaneProgress
from engine.jobs.proof.state import FlowProof
from engine.wire.native import PURE_PYTHON

EVENTS_KEPT = 500
"""How many events a running mirror keeps, of all flows together; the targets keep older ones."""


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `at_ms` is Unix time; `kind` is the event's name, empty for a sentence about the present moment.

    `set_id` and `epoch`: the partition set that the event is about, and its assignment epoch; empty and -1 if none.
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
    """One copier: its state and its sets. `batches`: its way of a batch, and why if it is pure Python; or empty."""

    copier_id: str
    flow: str
    state: CopierState
    set_ids: tuple[str, ...]
    lanes: int
    buffer_bytes: int
    node: str = ""
    batches: str = ""

    @property
    def copies_in_python(self) -> bool:
        """Return whether the copier has no compiled way of a batch, which costs several times the CPU."""
        return self.batches.startswith(PURE_PYTHON)


class FlowAtEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of a flow when its last copier ended, at `at_ms` (Unix time; -1 if none ended in order).

    `unknown_lanes`: partitions whose lag no copier knew at its end; `lag_records`: the lag of all others.
    """

    at_ms: int
    lag_records: int
    unknown_lanes: int


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One flow, summed over its lanes. Rates are per second over the last few snapshots.

    `unknown_lanes` counts lanes whose lag is unknown: no copier has them, or the source has not reported their end for
    a while (`engine/core/reports/source_end.py`). While it is not 0, the flow's lag is unknown: None. Lower bounds of
    it are in `least_lag_records`, `least_lag_bytes` and `behind_since_ms`.
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
    """Sum over the partitions, each as of the last report of its source end."""
    lag_bytes: int | None = 0
    least_lag_bytes: int = 0
    """Sum over the partitions whose size was measured, each as of the last report of its source end."""
    source_end_age_ms: int = -1
    """Time since the source last reported an end, of the partition with the longest time (among the `silent_lanes` if
    there are any); -1: it never did."""
    silent_lanes: int = 0
    """The `unknown_lanes` whose source has not reported their end for too long."""
    behind_since_ms: int = -1
    """Since when (Unix ms) the source holds records that are not copied, of the partition furthest behind; -1: no such
    record is known."""
    stalled: int = 0
    """Partitions that make no progress although they are behind, or may be; each gives a reason."""
    stall_reason: str = ""
    """The most frequent of these reasons."""
    stalled_for_it: int = 0
    """How many stalled partitions give that reason."""
    held: int = 0
    """Partitions that are behind and move, but more slowly than they could: by a limit of bandwidth or a class."""
    held_reason: str = ""
    """The most frequent of the reasons for that."""
    bound: str = ""
    """What the path of the partition furthest behind carries, if distance is what bounds it."""
    quarantined: dict[str, str] = {}
    """Source partitions that are not copied because they end their copiers, and why."""
    heeded: bool = True
    """Whether every copier follows the last orders; it takes a second or so."""
    append_failures: int = 0
    merged_batches: int = 0
    """Acknowledged batches that were made of several source batches; `merged_from`: of how many."""
    merged_from: int = 0
    left_out: int = 0
    """Records that the target refused and that were left out; `raymirror quarantine list` names them."""
    range_vain_bytes: int = 0
    """Bytes that were fetched in vain because a partition is read in ranges (`engine/flow/ranges`)."""
    append_latency: Histogram = Histogram()
    replication_latency: Histogram = Histogram()
    record_age: Histogram = Histogram()
    loop_stall: Histogram = Histogram()
    groups: GroupsReport | None = None
    """The last round of the consumer groups, None before the first."""
    configs: ConfigReport | None = None
    """The last round of configs and ACLs, None before the first."""
    at_end: FlowAtEnd | None = None
    """Set when the flow has no copier left because it is stopped or its mirror ends; None otherwise."""
    discovered: bool = True
    """Whether the source's topics were discovered at least once since the supervisor started."""
    remembered: bool = True
    """Whether the stored wanted state was read since the supervisor started; until then `desired` is a guess."""
    moved_topics: tuple[str, ...] = ()
    """The `paused_topics` whose producers write to the target now; a resume of the flow leaves them paused."""
    failed_over: bool = False
    """Whether a failover stopped the flow, and it was not resumed since."""
    may_return: bool = False
    """Whether the flow is stopped and its mirror stays, so that a request over HTTP can resume it."""
    deleted: bool = False
    """Whether a request over HTTP has deleted the flow's connector, which has stopped the flow."""
    target_id: str = ""
    """The id of the target cluster; empty while it is not known."""
    drill: DrillStanding | None = None
    """The last drill and the next one; None while nothing is known."""

    def least_lag_ms(self, now_ms: int) -> int:
        """Lower bound of the age of the oldest uncopied record; 0 if no such record is known: its age may be any."""
        return max(0, now_ms - self.behind_since_ms) if self.behind_since_ms >= 0 else 0

    @property
    def is_lag_known(self) -> bool:
        """Whether the lag of all partitions is known; False until the topics are discovered for the first time."""
        return self.lag_records is not None

    @property
    def is_undiscovered(self) -> bool:
        """Whether the flow's partitions are unknown: its topics were never discovered, nor learned from copiers."""
        return not self.discovered and not self.lanes

    @property
    def is_silent(self) -> bool:
        """Whether the lag of some partition is unknown because the source has not reported its end for too long."""
        return self.silent_lanes > 0


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was copied of one source topic since the supervisor started; they never decrease.

    `latency_ms`: sum over the records of the time from their timestamp to their acknowledgement.
    """

    flow: str
    topic: str
    records: int
    wire_bytes: int
    latency_ms: int


class MirrorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The whole mirror. `refused`: why it may not run.

    `phase`: `starting`, `waiting` (no flow has started, because a cluster does not answer or a site has no node;
    `waiting_for` of each flow names it), `running`, `draining` or `stopped`.
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
    """Flows whose wanted state is not stored on the target yet; reported after a command, and at the mirror's end."""
    lanes: tuple[LaneProgress, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    """Present only together with the lanes."""
    spark: SparkStatus = SparkStatus()
    socket: str = ""
    """Path of the socket on which the supervisor answers commands of its own machine; empty if it has none."""
    proofs: dict[str, FlowProof] = {}
    """Continuous proofs by flow name; their partitions are present only together with the lanes."""


def encode_status(status: MirrorStatus) -> bytes:
    return msgspec.msgpack.encode(status)


def decode_status(data: bytes) -> MirrorStatus:
    """Unpack a status; raises msgspec.ValidationError on bytes of another version."""
    return msgspec.msgpack.decode(data, type=MirrorStatus)


def fresh(before: tuple[EventLine, ...], now: tuple[EventLine, ...]) -> tuple[EventLine, ...]:
    """Return the events of a bounded list that were not in the list before."""
    if not before or before[-1] not in now:
        return now
    last = len(now) - 1 - now[::-1].index(before[-1])
    return now[last + 1 :]
