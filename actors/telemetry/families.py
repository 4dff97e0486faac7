"""The table of metrics: every name, kind, unit and label that a mirror exports. docs/metrics.md explains them.

The unit is in the name (for Prometheus) and in `unit` (UCUM, for OTLP).
"""

import enum

import msgspec


class MetricKind(enum.StrEnum):
    """The type of a metric, as Prometheus names it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. If `labels` end with topic and partition, a series may leave out the last, or both."""

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    help: str


GAUGE, COUNTER, HISTOGRAM = MetricKind
_families: list[Family] = []


def _of_mirror(name: str, kind: MetricKind, unit: str, help_text: str, *labels: str) -> Family:
    """Add a metric to the table; it is exported in the order of the table."""
    _families.append(Family(name=f"raymirror_{name}", kind=kind, unit=unit, labels=labels, help=help_text))
    return _families[-1]


def _by_flow(name: str, kind: MetricKind, unit: str, help_text: str, *labels: str) -> Family:
    return _of_mirror(name, kind, unit, help_text, "flow", *labels)


def _by_lane(name: str, kind: MetricKind, unit: str, help_text: str) -> Family:
    return _by_flow(name, kind, unit, help_text, "topic", "partition")


LAG_RECORDS = _by_lane(
    "lag_records", GAUGE, "{record}", "Source offsets between what is copied and the source's end, summed."
)
LAG_BYTES = _by_lane(
    "lag_bytes", GAUGE, "By", "Estimated bytes on the wire of what is not copied: lag x measured bytes per offset."
)
LAG_SECONDS = _by_lane("lag_seconds", GAUGE, "s", "Age of the oldest record that is not copied; the worst partition.")
LAG_LAST_KNOWN = _by_lane(
    "lag_last_known_seconds",
    GAUGE,
    "s",
    "Age of the oldest uncopied record when the source last reported its end offset; the worst partition.",
)
LAG_LAST_KNOWN_AGE = _by_lane(
    "lag_last_known_age_seconds", GAUGE, "s", "Time since the source last reported its end offset; the longest one."
)
UNPROVEN_RECORDS = _by_lane(
    "unproven_records", GAUGE, "{record}", "Source offsets between what is copied and what is proven, summed."
)
RECORDS = _by_lane("records_total", COUNTER, "{record}", "Records that the target acknowledged.")
RECORD_BYTES = _by_lane("record_bytes_total", COUNTER, "By", "Bytes of acknowledged batches, as on the wire.")
DELAY = _by_lane(
    "replication_delay_seconds_total",
    COUNTER,
    "s",
    "Seconds from a record's timestamp to its acknowledgement, summed over all records copied.",
)
GROUPS = _by_flow("groups", GAUGE, "{group}", "Consumer groups that are mirrored.")
GROUP_OFFSETS = _by_flow(
    "group_offsets", GAUGE, "{partition}", "Committed offsets that have a translation on the target.", "how"
)
GROUP_OFFSETS_WITHHELD = _by_flow(
    "group_offsets_withheld", GAUGE, "{partition}", "Committed offsets without a translation yet.", "why"
)
GROUP_OFFSETS_AHEAD = _by_flow(
    "group_offsets_ahead", GAUGE, "{partition}", "Group offsets further on the target than on the source; left there."
)
GROUPS_ACTIVE = _by_flow(
    "groups_active_on_target", GAUGE, "{group}", "Groups with members on the target, so raymirror does not commit."
)
GROUPS_FAILED = _by_flow(
    "groups_failed", GAUGE, "{group}", "Groups that could not be read on the source or committed for."
)
GROUPS_AGE = _by_flow("groups_age_seconds", GAUGE, "s", "Time since the groups were last read.")
GROUPS_ON_COMMIT = _by_flow(
    "groups_on_commit", GAUGE, "1", "1 if raymirror reads commits as they happen, 0 if it polls groups."
)
CHECKPOINTS = _by_flow("checkpoints_total", COUNTER, "{checkpoint}", "Checkpoints that the target acknowledged.")
GROUP_COMMITS = _by_flow("group_commits_total", COUNTER, "{partition}", "Offsets committed on the target.")
CHECKPOINT_LATENCY = _by_flow(
    "checkpoint_latency_seconds",
    HISTOGRAM,
    "s",
    "From the start of the round of groups that found a checkpoint to its acknowledgement.",
)
GROUP_COMMIT_LATENCY = _by_flow(
    "group_commit_latency_seconds",
    HISTOGRAM,
    "s",
    "From a group's commit on the source to its checkpoints and commits on the target, if commits are read.",
)
OFFSET_MAP_BYTES = _by_flow("offset_map_bytes", GAUGE, "By", "Exact offset maps in memory, for translating groups.")
DRILL_AGE = _by_flow(
    "drill_age_seconds", GAUGE, "s", "Time since the last drill began; if none is known, since the mirror started."
)
DRILL_INTERVAL = _by_flow("drill_interval_seconds", GAUGE, "s", "From one scheduled drill to the next; 0: none.")
DRILL_PASSED = _by_flow("drill_passed", GAUGE, "1", "1 if the last drill found nothing that would hurt, 0 otherwise.")
DRILL_FINDINGS = _by_flow(
    "drill_findings", GAUGE, "{finding}", "What would have hurt in a failover, as the last drill found it."
)
DRILL_RTO = _by_flow(
    "drill_rto_seconds", GAUGE, "s", "Recovery time that the last drill measured; no series if it did not finish."
)
DRILL_LOST_RECORDS = _by_flow(
    "drill_lost_records",
    GAUGE,
    "{record}",
    "Records that a failover would have lost when the last drill began; no series if it is not known.",
)
DRILL_LOST_SECONDS = _by_flow(
    "drill_lost_seconds", GAUGE, "s", "Age of the oldest of these records; no series if it is not known."
)
DRILL_LEFT = _by_flow(
    "drill_left_behind", GAUGE, "{thing}", "Kinds of things on the target that the last drill could not take away."
)
REPLICATION_LATENCY = _by_flow(
    "replication_latency_seconds", HISTOGRAM, "s", "From a record's timestamp to its acknowledgement by the target."
)
RECORD_AGE = _by_flow("record_age_seconds", HISTOGRAM, "s", "From a record's timestamp to its arrival from the source.")
LOOP_STALL = _by_flow(
    "loop_stall_seconds",
    HISTOGRAM,
    "s",
    "How late the event loops of copiers ran callbacks that were due, sampled while records arrive.",
)
APPEND_LATENCY = _by_flow(
    "append_latency_seconds", HISTOGRAM, "s", "From sending a produce request to its acknowledgement."
)
APPEND_FAILURES = _by_flow("append_failures_total", COUNTER, "{batch}", "Batches that were sent and not acknowledged.")
MERGED_BATCHES = _by_flow(
    "merged_batches_total", COUNTER, "{batch}", "Acknowledged batches that were made of several small source batches."
)
MERGED_FROM = _by_flow("merged_source_batches_total", COUNTER, "{batch}", "Source batches in merged batches.")
LEFT_OUT = _by_flow(
    "left_out_records_total", COUNTER, "{record}", "Records that the target refused and that were left out of the copy."
)
RANGE_VAIN_BYTES = _by_flow(
    "range_vain_bytes_total", COUNTER, "By", "Bytes fetched in vain because a partition is read in ranges of offsets."
)
PARTITIONS = _by_flow("partitions", GAUGE, "{partition}", "Partitions by state of their lane.", "state")
STALLED = _by_flow(
    "stalled_partitions",
    GAUGE,
    "{partition}",
    "Partitions that should copy and make no progress; `raymirror lag` says why.",
)
UNKNOWN_LAG = _by_flow("unknown_lag_partitions", GAUGE, "{partition}", "Partitions whose lag is unknown now.")
PROOF_DIFFERENCES = _by_flow(
    "proof_differences", GAUGE, "{record}", "Known differences between copies and their sources."
)
PROOF_AGE = _by_flow("proof_age_seconds", GAUGE, "s", "Time since the last complete round of the proof of copy.")
TOPICS = _by_flow("topics", GAUGE, "{topic}", "Topics that the flow copies.")
RUNNING = _by_flow("flow_running", GAUGE, "1", "1 if the flow should run, 0 if it is paused or stopped.")
COPIERS = _by_flow("copiers", GAUGE, "{copier}", "Copier processes by state.", "state")
COPIER_PARTITIONS = _by_flow("copier_partitions", GAUGE, "{partition}", "Partitions that a copier owns.", "copier")
COPIER_BUFFER_BYTES = _by_flow("copier_buffer_bytes", GAUGE, "By", "Receive buffers that a copier holds now.", "copier")
COPIER_NATIVE = _by_flow(
    "copier_native", GAUGE, "1", "1 if a copier uses the native module, 0 if it copies in pure Python.", "copier"
)
EVENTS = _by_flow("events_total", COUNTER, "{event}", "Events by severity.", "severity")
INFO = _of_mirror("info", GAUGE, "1", "Always 1; the labels name the mirror.", "mirror", "version")
UP_SECONDS = _of_mirror("up_seconds", GAUGE, "s", "Time since the supervisor started.")
LEFT_OUT_SERIES = _of_mirror(
    "left_out_series",
    GAUGE,
    "{series}",
    "Series that were reported in coarser detail, because raymirror.metrics.max.series allows no more.",
    "metric",
)
EXPORT_FAILURES = _of_mirror("export_failures_total", COUNTER, "{export}", "Exports to the OTLP collector that failed.")

FAMILIES = tuple(_families)
LANE_FAMILIES = tuple(family for family in FAMILIES if family.labels == ("flow", "topic", "partition"))
