"""Describes every table that raymirror stores below `<storage>/tables`. Imports no pyarrow."""

from engine.jobs.tables.columns import Column, TableSpec

_BUCKETS = "by bucket of engine/core/reports/latency.py (bounds 0.5 ms to a day), they add up over copiers and time"

LAG = TableSpec(
    name="lag",
    meaning=(
        "How far each partition was behind: one row per flow, partition and window of 30 s; and one row per flow,"
        " copier and window, with an empty topic"
    ),
    partition="hour",
    by="hour",
    span="window_start_ms",
    stretch_ms=300_000,
    rule=("A window that is still growing has several rows until compaction; the row with the most samples counts"),
    once=(
        "QUALIFY row_number() OVER (PARTITION BY flow, topic, partition, copier_key, window_start_ms"
        " ORDER BY samples DESC, last_ms DESC) = 1"
    ),
    columns=(
        Column("hour", "text", "", "UTC hour in which the window begins, e.g. 2026-05-01T12"),
        Column("flow", "text", "", "the flow, source->target"),
        Column("topic", "text", "", "the topic on the source; empty in a copier's row"),
        Column("partition", "int", "", "the partition; -1 in a copier's row"),
        Column("copier_key", "text", "", "the copier in a copier's row; empty in a partition's row"),
        Column("window_start_ms", "long", "Unix ms", "when the window begins"),
        Column("window_end_ms", "long", "Unix ms", "when the window ends"),
        Column("samples", "long", "samples", "from how many samples the row was made"),
        Column("first_ms", "long", "Unix ms", "time of the first sample"),
        Column("last_ms", "long", "Unix ms", "time of the last sample"),
        Column("copier", "text", "", "the copier that wrote the last sample"),
        Column("state", "text", "", "what the partition's copy did at the last sample; empty in a copier's row"),
        Column("position", "long", "offset", "next offset of the source to copy, at the last sample; NULL: unknown"),
        Column("source_end", "long", "offset", "next offset of the source's log, at the last sample; NULL: unknown"),
        Column("lag_records", "long", "records", "not copied yet at the last sample; NULL: unknown"),
        Column("lag_bytes", "long", "bytes", "not copied yet at the last sample, estimated; NULL: unknown"),
        Column("lag_ms", "long", "ms", "age of the oldest record not copied yet, at the last sample; NULL: unknown"),
        Column("newest_ms", "long", "Unix ms", "timestamp of the newest record that was copied; NULL: unknown"),
        Column("lag_records_min", "long", "records", "least lag_records of the samples that knew it"),
        Column("lag_records_max", "long", "records", "most lag_records of the samples that knew it"),
        Column("lag_bytes_min", "long", "bytes", "least lag_bytes of the samples that knew it"),
        Column("lag_bytes_max", "long", "bytes", "most lag_bytes of the samples that knew it"),
        Column("lag_ms_min", "long", "ms", "least lag_ms of the samples that knew it"),
        Column("lag_ms_max", "long", "ms", "most lag_ms of the samples that knew it"),
        Column("trend", "double", "records/s", "by how much the lag grows each second; NULL: fewer than two samples"),
        Column("drain_s", "double", "s", "seconds until the lag is 0 at that trend; NULL: it does not shrink"),
        Column("stalled_ms", "long", "ms", "how long the partition was behind and made no progress"),
        Column("stall_reason", "text", "", "why it made no progress; empty: it did"),
        Column("records", "long", "records", "copied in the window"),
        Column("wire_bytes", "long", "bytes", "copied in the window, as sent (compressed)"),
        Column("records_per_s", "double", "records/s", "copied per second of the samples; NULL: their span is 0"),
        Column("bytes_per_s", "double", "bytes/s", "copied per second of the samples; NULL: their span is 0"),
        Column("latency_mean_ms", "double", "ms", "mean time from a record's timestamp to its copy; NULL: no record"),
        Column("append_failures", "long", "requests", "produce requests that failed; NULL in a partition's row"),
        Column("dropped", "long", "samples", "samples that the copier had to drop since its start; NULL: no copier"),
        Column("append_ms_counts", "longs", "requests", f"durations of produce requests, {_BUCKETS}; NULL: none"),
        Column("copied_ms_counts", "longs", "records", f"times from timestamp to copy, {_BUCKETS}; NULL: none"),
        Column("fetched_ms_counts", "longs", "records", f"times from timestamp to arrival, {_BUCKETS}; NULL: none"),
    ),
)

AUDIT = TableSpec(
    name="audit",
    meaning=(
        "The audit trail: one row for each change of a copy that raymirror tried, and for each difference that it left"
    ),
    partition="day",
    by="day",
    span="at_ms",
    stretch_ms=86_400_000,
    columns=(
        Column("day", "text", "", "UTC day of at_ms, e.g. 2026-05-01"),
        Column("at_ms", "long", "Unix ms", "when the round or the command began that tried the change"),
        Column("run", "text", "", "that round or command: its rows have the same text"),
        Column("flow", "text", "", "the flow, source->target"),
        Column("who", "text", "", "the mirror and its host, or a user, the host and the command"),
        Column("topic", "text", "", "the topic on the source; of an ACL, the name of its resource there"),
        Column("target", "text", "", "its copy on the target; empty if the topic has none"),
        Column(
            "change",
            "text",
            "",
            "create_topic, grow_topic, prepare_topic, set_config, drop_config, add_acl, replay_record, drop_record;"
            " conflict: a difference that raymirror does not fix",
        ),
        Column(
            "name",
            "text",
            "",
            "what was changed: a config, `partitions`, an operation, a record; empty: the topic itself",
        ),
        Column("before", "text", "", "the value before; empty: none, or the default"),
        Column("after", "text", "", "the value after; empty: the default"),
        Column("why", "text", "", "why raymirror changed it"),
        Column("outcome", "text", "", "done, failed, or left (a conflict)"),
        Column("detail", "text", "", "the broker's error if it failed, the difference if it was left, else empty"),
    ),
)
_CONFIG = (
    Column("flow", "text", "", "the flow, source->target"),
    Column("topic", "text", "", "the topic on the source"),
    Column("target", "text", "", "its copy on the target"),
    Column("key", "text", "", "the config, e.g. retention.ms"),
)
CONFIGS = TableSpec(
    name="configs",
    meaning=(
        "The configs of topics on both sides: one row for each value, when raymirror first saw it. The last row before"
        " a time has the value at that time. Topics have rows for what is set for them, clusters for their defaults"
    ),
    partition="day",
    by="day",
    span="at_ms",
    stretch_ms=86_400_000,
    columns=(
        Column("day", "text", "", "UTC day of at_ms, e.g. 2026-05-01"),
        Column("at_ms", "long", "Unix ms", "when raymirror saw the value first, or set it"),
        Column("after_ms", "long", "Unix ms", "when the value before was seen last; NULL: nothing was known before"),
        *_CONFIG[:1],
        Column("side", "text", "", "source or copy; empty in a mark: nothing else has changed up to at_ms"),
        Column("topic", "text", "", "the topic on the source; empty: a default of the cluster"),
        Column("target", "text", "", "its copy on the target; empty: a default of the cluster"),
        Column("key", "text", "", "the config, e.g. retention.ms; empty: the topic itself, or a mark"),
        Column("before", "text", "", "the value before; NULL: none, or a default"),
        Column("value", "text", "", "the value; NULL: none, or Kafka does not give it, because it is sensitive"),
        Column(
            "origin",
            "text",
            "",
            "topic: set for it; none: not any more; defaults: cluster and broker (dynamic), file (of a broker), kafka;"
            " the topic itself: exists (nothing is set for it), gone (deleted, or not copied any more); mark",
        ),
        Column("set_by", "text", "", "raymirror; empty: not known, Kafka does not record it"),
        Column("snapshot", "flag", "", "not a change: found when the history began, or stored once more after 30 days"),
    ),
)
CONFIG_CHANGES = TableSpec(
    name="config_changes",
    meaning=(
        "What changed on the source: one row for each config of a topic that got another value, and when it reached the"
        " copy"
    ),
    partition="day",
    by="day",
    span="seen_ms",
    stretch_ms=86_400_000,
    rule="A change that reaches the copy later has several rows; the one that was updated last counts",
    once="QUALIFY row_number() OVER (PARTITION BY flow, topic, key, seen_ms ORDER BY updated_ms DESC) = 1",
    repeats=True,
    columns=(
        Column("day", "text", "", "UTC day of seen_ms, e.g. 2026-05-01"),
        Column("seen_ms", "long", "Unix ms", "when raymirror saw the change"),
        Column("after_ms", "long", "Unix ms", "when it saw the value before last: the change was made between the two"),
        Column("updated_ms", "long", "Unix ms", "when this row was made"),
        *_CONFIG,
        Column("old", "text", "", "the value before; NULL: it was not set for the topic"),
        Column("new", "text", "", "the value; NULL: it is not set for the topic any more"),
        Column(
            "outcome",
            "text",
            "",
            "copied; waits, failed, conflict: not yet; left: a rule says so; changed_again or topic_gone: it never was",
        ),
        Column("applied_ms", "long", "Unix ms", "when it reached the copy, or was seen there; NULL: it did not"),
        Column("latency_ms", "long", "ms", "from seen_ms to applied_ms; NULL: it did not reach the copy"),
        Column("set_by", "text", "", "raymirror, which set it; empty: the copy already had it, or it did not reach it"),
        Column("why", "text", "", "why it is not on the copy; else empty"),
    ),
)
DRIFT = TableSpec(
    name="drift",
    meaning=(
        "What somebody changed on the copies: one row for each config of a copy that got another value than it should"
        " have, not by raymirror"
    ),
    partition="day",
    by="day",
    span="seen_ms",
    stretch_ms=86_400_000,
    rule="A drift that ends later has several rows; the one that was updated last counts",
    once="QUALIFY row_number() OVER (PARTITION BY flow, topic, key, seen_ms ORDER BY updated_ms DESC) = 1",
    repeats=True,
    columns=(
        Column("day", "text", "", "UTC day of seen_ms, e.g. 2026-05-01"),
        Column("seen_ms", "long", "Unix ms", "when raymirror saw it"),
        Column("after_ms", "long", "Unix ms", "when it saw the value before last: it was changed between the two"),
        Column("updated_ms", "long", "Unix ms", "when this row was made"),
        *_CONFIG,
        Column("expected", "text", "", "what it should be: by the source, else the value before; NULL: not set"),
        Column("before", "text", "", "the value before; NULL: it was not set for the copy"),
        Column("found", "text", "", "the value that was found; NULL: it was not set for the copy any more"),
        Column(
            "outcome",
            "text",
            "",
            "set_right; left, conflict, failed, waits: it still stands; equal_again: somebody or the source made it"
            " right; changed_again: the next row has it; topic_gone",
        ),
        Column("settled_ms", "long", "Unix ms", "when it was set right or ended otherwise; NULL: it still stands"),
        Column("set_by", "text", "", "raymirror, if it was set right; who made the drift is not known"),
        Column("why", "text", "", "why it stands; else empty"),
    ),
)
_RUN = (
    Column("day", "text", "", "UTC day of began_ms, e.g. 2026-05-01"),
    Column("began_ms", "long", "Unix ms", "when the proof began"),
    Column("flow", "text", "", "the flow, source->target"),
    Column("run", "text", "", "the proof: its rows have the same text"),
    Column("topic", "text", "", "the topic on the source"),
    Column("partition", "int", "", "the partition"),
)
PROOF_LANES = TableSpec(
    name="proof_lanes",
    meaning=(
        "What proofs read and proved: one row per proof and partition; consecutive proofs of a day that found a"
        " partition whole become one row, that of the last of them"
    ),
    partition="day",
    by="day",
    span="began_ms",
    stretch_ms=86_400_000,
    columns=(
        *_RUN,
        Column("target_topic", "text", "", "its copy on the target"),
        Column("source_id", "text", "", "the id of the topic on the source; empty: unknown"),
        Column("target_id", "text", "", "the id of the copy; empty: unknown"),
        Column("generation", "long", "", "the generation of the offset map: it grows with each owner; -1: no map"),
        Column("source_from", "long", "offset", "first source offset that was read; -1: none"),
        Column("source_to", "long", "offset", "the source offset behind the last one that was read"),
        Column("target_from", "long", "offset", "first target offset that was read; -1: none"),
        Column("target_to", "long", "offset", "the target offset behind the last one that was read"),
        Column("proven_from", "long", "offset", "first source offset that is proven, by this proof and earlier ones"),
        Column("proven_to", "long", "offset", "the source offset behind the last one that is proven; -1: none"),
        Column("records", "long", "records", "records of the source that were compared"),
        Column("payload_bytes", "long", "bytes", "keys and values of these records"),
        Column("without_record", "long", "offsets", "source offsets without a readable record: markers, aborted, gone"),
        Column("not_comparable", "long", "records", "records that compaction or retention removed on one side"),
        Column(
            "left_out", "long", "records", "records that the target refused and that were left out; NULL: not counted"
        ),
        Column("replayed", "long", "records", "records of the copy that were such records; NULL: not counted"),
        Column("unmapped", "long", "offsets", "source offsets below the map, which raymirror did not copy"),
        Column("differences", "long", "records", "differences; proof_differences names the first 10,000 of a proof"),
        Column("verdict", "text", "", "whole, differs or unproven"),
        Column("note", "text", "", "why it is unproven, or what was left out; else empty"),
    ),
)
PROOF_DIFFERENCES = TableSpec(
    name="proof_differences",
    meaning="The differences that proofs found: one row per proof and record",
    partition="day",
    by="day",
    span="began_ms",
    stretch_ms=86_400_000,
    columns=(
        *_RUN,
        Column("source_offset", "long", "offset", "the record on the source; -1: an extra record of the target"),
        Column("target_topic", "text", "", "the copy on the target"),
        Column("target_offset", "long", "offset", "the record on the target, or where it belongs"),
        Column("kind", "text", "", "missing, extra, altered, reordered, shifted or gone: see docs/proof.md"),
        Column("what", "text", "", "which parts of an altered record differ, or how many are gone behind the first"),
    ),
)

TABLES = (LAG, AUDIT, CONFIGS, CONFIG_CHANGES, DRIFT, PROOF_LANES, PROOF_DIFFERENCES)
"""Every table, in the order in which people read about them."""
