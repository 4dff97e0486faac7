"""raymirror's own keys of the whole mirror: metrics, storage, Spark, proofs."""

from policies.keys.read_key import ReadKey

TITLE = "The mirror"
ROWS = (
    ReadKey(
        "raymirror.unsupported",
        "top",
        "refuse",
        (
            "`warn`: continue without unsupported settings that matter, and in spite of keys that look mistyped,"
            " with a warning for each ([keys that are not read](#keys-that-are-not-read))"
        ),
    ),
    ReadKey(
        "raymirror.reload",
        "top",
        "command",
        (
            "`watch`: an edited file is applied without a command, exactly as by `raymirror reload`"
            " ([docs/reload.md](../docs/reload.md#a-file-that-is-watched))"
        ),
        "MM2 reads its file at a start only",
    ),
    ReadKey("raymirror.deployment.id", "top", "none", "distinguishes two mirrors of one configuration"),
    ReadKey(
        "raymirror.metrics.port",
        "top",
        "0",
        "`/metrics` (Prometheus), `/healthz`, `/readyz` of the mirror, on the node of its supervisor; 0: no port",
        "MM2 has JMX",
    ),
    ReadKey(
        "raymirror.metrics.bind",
        "top",
        "127.0.0.1",
        "the address of that port; `0.0.0.0` for scrapes from other machines",
    ),
    ReadKey(
        "raymirror.metrics.per.partition",
        "top",
        "false",
        "lag and counters by partition, not by topic",
        "MM2: always",
    ),
    ReadKey(
        "raymirror.metrics.max.series",
        "top",
        "20000",
        (
            "most series of one metric. If partitions need more, the metric is reported by topic; if topics need"
            " more, by flow. A warning in the log says so"
        ),
    ),
    ReadKey(
        "raymirror.storage",
        "top",
        "none",
        (
            "a folder (`file:/...`) or bucket (`s3a://...`, `gs://...`) that every node sees, for the audit trail"
            " of topics, configs and ACLs and the data of Spark's jobs. Endpoint, region and credentials of a"
            " bucket come from the environment and files that every S3 client reads"
            " ([docs/object-storage.md](../docs/object-storage.md)); `gs:` is untried"
        ),
    ),
    ReadKey(
        "raymirror.audit.retention.days",
        "top",
        "365",
        (
            "older days of the audit trail and of the history of configs are removed when something is written to them;"
            " 0: never"
        ),
    ),
    ReadKey(
        "raymirror.dr.fence.command",
        "top",
        "none",
        (
            "a command that keeps producers from the source of a switchover, where no ACL can: it is called with"
            " `close` or `open`, the flow and the operation's id, and with the topics on standard input (docs/dr.md)"
        ),
    ),
    ReadKey(
        "raymirror.move.command",
        "top",
        "none",
        (
            "a command that `raymirror move` calls before and after a group or the producers of topics move, with names"
            " and addresses in its environment, and the topics on standard input (docs/dr.md)"
        ),
    ),
    ReadKey(
        "raymirror.otlp.endpoint",
        "top",
        "none",
        (
            "OTLP over HTTP, e.g. `http://collector:4318`: metrics go to `/v1/metrics`, traces to `/v1/traces`; put"
            " credentials into the environment (`OTEL_EXPORTER_OTLP_HEADERS`)"
        ),
    ),
    ReadKey("raymirror.otlp.interval.ms", "top", "15000", "how often metrics are sent to that endpoint"),
    ReadKey(
        "raymirror.spark",
        "top",
        "off",
        (
            "`on`: raymirror starts Spark on its Ray cluster at its start, or, with `raymirror.config.sync.on ="
            " actor`, when a job first needs it (1.5 GiB of memory when idle, more while it proves copies). Off by"
            " default, because users of MM2 have no Spark and need none: copying, offsets, groups, configs and"
            " ACLs, current lag, scaling and alerts work without it"
        ),
    ),
    ReadKey(
        "raymirror.spark.executors",
        "top",
        "1",
        (
            "most Spark executors (processes). One runs all the time; the others run while a proof of 5,000,000 source"
            " offsets or more, or a round of configs of 20,000 topics or more, can use them"
        ),
    ),
    ReadKey(
        "raymirror.spark.executors.idle.seconds",
        "top",
        "60",
        "how long the others stay after the last such job; 0: all run all the time",
    ),
    ReadKey(
        "raymirror.spark.executor.cores",
        "top",
        "2, or 1 if `raymirror.spark.executors` is set",
        (
            "tasks that one executor runs at a time, and Ray CPUs that it takes; of two, a proof leaves one to the"
            " jobs that always run"
        ),
    ),
    ReadKey(
        "raymirror.spark.executor.memory.bytes",
        "top",
        "1073741824",
        "heap of one executor, and Ray memory that it takes",
    ),
    ReadKey(
        "raymirror.spark.jars",
        "top",
        "none",
        (
            "more jars for Spark, as paths on the node of its host. `raymirror setup s3` brings those for `s3a:`,"
            " unless a `hadoop-aws` jar is named here; raymirror has none for `gs:`"
        ),
    ),
    ReadKey(
        "raymirror.proof",
        "top",
        "off",
        (
            "`on`: Spark proves copied records all the time ([docs/proof.md](../docs/proof.md)); needs"
            " `raymirror.spark = on` and a `raymirror.storage`"
        ),
    ),
    ReadKey(
        "raymirror.proof.interval.seconds",
        "top",
        "300",
        "how often; a record is proven one to two intervals after it was copied",
    ),
    ReadKey(
        "raymirror.storage.shared",
        "top",
        "false",
        "whether every node sees the folder of a `file:` storage; if not, Spark runs on the head node only",
    ),
)
