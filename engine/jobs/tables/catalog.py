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
    rule=(
        "A window that is still growing has several rows until compaction; the row with the most samples counts:"
        " QUALIFY row_number() OVER (PARTITION BY flow, topic, partition, copier_key, window_start_ms"
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

TABLES = (LAG,)
"""Every table, in the order in which people read about them."""
