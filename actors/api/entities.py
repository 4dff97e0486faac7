"""The bodies of the answers of `/api/v1`. Fields are added, not renamed.

Times end with `_ms` and are Unix ms; durations end with `_seconds` or, if short, `_ms` in the name of a quantile. A
value that is not known is None, never 0.
"""

import enum
from typing import Any

import msgspec

from actors.model.status import EventLine
from actors.observability.lagging import LagRow
from engine.core.reports.group_report import GroupsReport
from engine.flow.config_sync.audit import AuditRow
from engine.flow.config_sync.planning import SyncPlan
from engine.flow.surveys.dr_preview import DrPreview


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True):
    """A body of `/api/v1`, or a part of one."""


class FlowPhase(enum.StrEnum):
    """What a flow does."""

    RUNNING = "running"
    WAITING = "waiting"
    """It cannot copy yet: `waiting_for` says for what."""
    PAUSED = "paused"
    STOPPED = "stopped"
    FAILED_OVER = "failed_over"
    """It is stopped, because its consumers have moved to the target."""


class Health(enum.StrEnum):
    """Whether somebody should look."""

    OK = "ok"
    ATTENTION = "attention"
    """It works, but not as it should: partitions do not move, the lag is unknown, or it waits for something."""
    TROUBLE = "trouble"
    """Partitions have stopped on an error, the copy differs, or the objective of the flow is missed."""
    OFF = "off"
    """It is paused or stopped because somebody wants that."""


class Caller(ApiStruct, frozen=True, kw_only=True):
    """Who asks, and what they may do: `view`, `operate` or `admin`."""

    user: str
    role: str
    mirror: str


class RpoNow(ApiStruct, frozen=True, kw_only=True):
    """What would be lost if the source were gone now; None: not known. `least_*`: lower bounds that are known."""

    records: int | None
    bytes: int | None
    seconds: float | None
    least_records: int
    least_bytes: int
    least_seconds: float
    as_of_seconds: int | None
    """How old these numbers are at most, rounded up; None: the source has never said where it ends."""


class RpoWorst(ApiStruct, frozen=True, kw_only=True):
    """The highest values since an instant, each by itself; None: no value is known."""

    since_ms: int
    records: int | None
    bytes: int | None
    seconds: float | None


class ProofSummary(ApiStruct, frozen=True, kw_only=True):
    """The continuous proof of a flow: its last round; `at_ms` None: no round has ended."""

    at_ms: int | None
    age_seconds: float | None
    partitions: int
    records: int
    differences: int
    trouble: str


class LatencySummary(ApiStruct, frozen=True, kw_only=True):
    """Quantiles in ms of the last minute, estimated within buckets; None: nothing was measured."""

    p50_ms: float | None = None
    p99_ms: float | None = None


class CopierSummary(ApiStruct, frozen=True, kw_only=True):
    """One copier of a flow. `batches`: `native`, or `pure Python` and why; empty while it is not known."""

    copier: str
    state: str
    partitions: int
    buffer_bytes: int
    node: str
    batches: str


class ClusterSummary(ApiStruct, frozen=True, kw_only=True):
    """One Kafka cluster of the mirror. `id` is empty while it is not known; `source_of`, `target_of`: flows."""

    name: str
    id: str
    bootstrap: tuple[str, ...]
    source_of: tuple[str, ...]
    target_of: tuple[str, ...]


class FlowSummary(ApiStruct, frozen=True, kw_only=True):
    """One flow. `sentence` says in words how it is; `notes`: the lines that `raymirror status` prints about it."""

    flow: str
    source: str
    target: str
    state: FlowPhase
    desired: str
    health: Health
    sentence: str
    notes: tuple[str, ...]
    waiting_for: str
    topics: int
    partitions: int
    states: dict[str, int]
    """Partitions by state, of those that a copier has."""
    unknown: int
    """Partitions whose lag is not known."""
    stalled: int
    """Partitions that do not move although they are behind, or may be."""
    stall_reason: str
    held: int
    """Partitions that are copied more slowly than possible, by a limit of bandwidth or a class."""
    held_reason: str
    failed: int
    """Partitions that have stopped on an error."""
    quarantined: dict[str, str]
    paused_topics: tuple[str, ...]
    moved_topics: tuple[str, ...]
    """The paused topics whose producers write to the target now; a resume of the flow leaves them paused."""
    records: int
    """Copied since the supervisor started; `bytes` likewise, as on the wire."""
    bytes: int
    records_per_second: float
    bytes_per_second: float
    append: LatencySummary
    """Per produce request: from sending to the answer."""
    copied: LatencySummary
    """Per record: from its timestamp to its acknowledgement."""
    left_out: int
    """Records that the target refused and that were left out."""
    copiers: tuple[CopierSummary, ...]
    rpo: RpoNow
    worst_rpo: RpoWorst
    rpo_objective_seconds: float | None
    proof: ProofSummary | None
    """None: continuous proof is off."""
    groups: int | None
    """Consumer groups that are mirrored; None before the first round."""
    groups_failing: int
    groups_not_ready: tuple[str, ...]
    """Why groups would not continue on the target exactly where they are, as of the last round; empty: all would."""
    failed_over: bool
    deleted: bool
    """Whether a request has deleted the flow's connectors, which has stopped it."""


class MirrorSummary(ApiStruct, frozen=True, kw_only=True):
    """The mirror, without its flows: they are `flows` of `MirrorPage`."""

    mirror: str
    instance: str
    """Changes with each start of the mirror."""
    version: str
    phase: str
    """`starting`, `waiting`, `running`, `draining` or `stopped`."""
    desired: str
    at_ms: int
    up_seconds: float
    health: Health
    sentence: str
    config_path: str
    config_digest: str
    copiers: int
    rpo: RpoNow
    """Records and bytes of all flows together; seconds of the flow that is furthest behind."""
    worst_rpo: RpoWorst
    """Of the flows: the highest of each."""
    proven_ms: int | None
    """When the oldest of the flows' last rounds of proof ended; None: some flow has none."""
    spark: str
    """State of Spark: `off`, `idle`, `starting`, `ready`, `restarting` or `refused`."""
    spark_reason: str
    unremembered: tuple[str, ...]
    """Flows whose wanted state is not stored on the target yet."""


class MirrorPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/mirror`, and the snapshot of the stream."""

    mirror: MirrorSummary
    clusters: tuple[ClusterSummary, ...]
    flows: tuple[FlowSummary, ...]


class TopicSummary(ApiStruct, frozen=True, kw_only=True):
    """One source topic. Lags are sums, seconds those of the partition furthest behind; None: not known."""

    topic: str
    target_topic: str
    partitions: int
    states: dict[str, int]
    paused: bool
    unknown: int
    stalled: int
    why: str
    """The most frequent reason of partitions that do not move, or are slow."""
    lag_records: int | None
    lag_bytes: int | None
    lag_seconds: float | None
    least_records: int
    least_seconds: float
    records: int
    bytes: int


class TopicPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/topics`: `total` topics match; `topics` are those from `offset` on."""

    flow: str
    at_ms: int
    total: int
    offset: int
    limit: int
    topics: tuple[TopicSummary, ...]
    not_discovered: str
    """What the flow waits for, if its topics are not known yet; else empty."""


class PartitionPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/partitions`: `total` partitions match; `states` counts all that match but for `state`."""

    flow: str
    at_ms: int
    total: int
    offset: int
    limit: int
    states: dict[str, int]
    partitions: tuple[LagRow, ...]
    not_discovered: str


class GroupsPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/groups`: what the last round of the running mirror knows; `report` None: none has ended.

    `ready`: whether every offset was translated exactly and nothing failed; `why_not`: what speaks against it.
    """

    flow: str
    at_ms: int
    ready: bool
    why_not: tuple[str, ...]
    sentence: str
    latency: LatencySummary
    """Per checkpoint, since the flow's groups are mirrored: from the round that found it to its acknowledgement."""
    report: GroupsReport | None


class EventPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/events`, oldest first; the mirror keeps those since `from_ms`, the targets have older ones."""

    from_ms: int
    total: int
    events: tuple[EventLine, ...]


class FlowSeries(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/series`: columns of equal length, oldest first; None: not known at that instant."""

    flow: str
    every_seconds: float
    at_ms: tuple[int, ...]
    lag_records: tuple[int | None, ...]
    lag_bytes: tuple[int | None, ...]
    lag_seconds: tuple[float | None, ...]
    records_per_second: tuple[float, ...]
    bytes_per_second: tuple[float, ...]
    append_p50_ms: tuple[float | None, ...]
    append_p99_ms: tuple[float | None, ...]
    copied_p50_ms: tuple[float | None, ...]
    copied_p99_ms: tuple[float | None, ...]


class SeriesPoint(ApiStruct, frozen=True, kw_only=True):
    """One instant of a flow's series: what the stream sends every 5 s."""

    flow: str
    at_ms: int
    lag_records: int | None
    lag_bytes: int | None
    lag_seconds: float | None
    records_per_second: float
    bytes_per_second: float
    append_p50_ms: float | None
    append_p99_ms: float | None
    copied_p50_ms: float | None
    copied_p99_ms: float | None


class StreamEnd(ApiStruct, frozen=True, kw_only=True):
    """The last message of a stream that the server ends, and whether to connect again."""

    why: str
    again: bool


class AuditPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/audit`, newest first; `kept` says where, and is empty if no trail is kept."""

    kept: str
    total: int
    rows: tuple[AuditRow, ...]


class ProofPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/proofs`: the last round of the continuous proof, and partitions that differ, first."""

    flow: str
    at_ms: int
    proof: ProofSummary | None
    total: int
    offset: int
    limit: int
    partitions: tuple["ProvenPartition", ...]


class ProvenPartition(ApiStruct, frozen=True, kw_only=True):
    """The source offsets [proven_from, proven_to) are whole on the target; None: nothing is proven, `note` says why."""

    topic: str
    partition: int
    proven_from: int | None
    proven_to: int | None
    unproven: int | None
    """Copied records that are not proven yet, in offsets."""
    differences: int
    first: str
    """The first difference of the last round with any, in words."""
    note: str


class LossTotal(ApiStruct, frozen=True, kw_only=True):
    """What a failover would lose over all topics; `exact`: False, the numbers are projected.

    `unknown_partitions`: about which nothing is known, so that the loss is at least what is counted; `seconds` is None
    then, and if the source does not answer.
    """

    records: int
    bytes: int
    seconds: float | None
    exact: bool
    unknown_partitions: int


class FailoverPreview(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/failover-preview`: what a failover would lose now; `preview`: as of `raymirror dr preview`.

    `whole`: nothing would be lost; `equal`: every group would be placed exactly. `took_seconds`: how long it was read.
    """

    flow: str
    at_ms: int
    took_seconds: float
    sentence: str
    whole: bool
    equal: bool
    loss: LossTotal
    groups: int
    groups_not_exact: tuple[str, ...]
    preview: DrPreview


class FilePlan(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/plan`: what a reload of the file on disk would change in the running mirror."""

    config_path: str
    running: str
    """sha256 of the running file."""
    new: str
    """sha256 of the file on disk."""
    edited: bool
    changes: tuple["FileChange", ...]
    refused: tuple[str, ...]
    """Why it cannot be applied while the mirror runs."""
    error: str
    """Why the file on disk cannot be read; then there are no changes."""


class FileChange(ApiStruct, frozen=True, kw_only=True):
    """A flow (`key` empty) or a key that differs. Values are as in the file, or hidden if one may hold a password."""

    flow: str
    change: str
    """`added`, `removed`, `changed` or `untouched`."""
    key: str
    running: str
    new: str
    takes_effect: str


class SyncPlanPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/plan`: what `raymirror plan` says about topics, configs and ACLs of one flow."""

    flow: str
    took_seconds: float
    changes: int
    plan: SyncPlan


class HistoryPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/history`: what `raymirror lag --history --json` says about one flow."""

    flow: str
    kept: str
    summary: dict[str, Any] | None
    """None: nothing is kept, because there is no storage."""


class FlowSettings(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/settings`: its settings as of a connector, without those that may hold a password."""

    flow: str
    settings: dict[str, str]


class SettingChanges(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `PATCH /api/v1/flows/F/settings`: new values by name; None removes a setting."""

    changes: dict[str, str | None]


class SomeTopics(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of pause and resume of a flow; no topics: the whole flow."""

    topics: tuple[str, ...] = ()


class SomeCopiers(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of restart of a flow; no copiers: all of them, one by one."""

    copiers: tuple[str, ...] = ()


class PlanToApply(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of reload: the `new` of the plan that was looked at; a file that was edited since is refused (409)."""

    new: str


class Accepted(ApiStruct, frozen=True, kw_only=True):
    """A command was given; the state that follows comes with the next answers."""

    command: str
    flow: str | None
    topics: tuple[str, ...] = ()
    moved_topics: tuple[str, ...] = ()
    """Of a resume: topics that stay paused, because their producers write to the target now."""
