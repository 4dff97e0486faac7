"""The streaming query of the history of lag: from a flow's progress samples to windows, on storage and on a topic.

    raymirror-progress.A.internal -> decode -> windows -> <storage>/tables/lag        every window, exactly once
                                                       -> raymirror-lag.A.internal    each lane's newest, at least once

A batch writes the windows that it added to, as complete as they are then (output mode `update`). So a reader sees a
window before it ends, and takes the most complete row of each. A lost checkpoint costs nothing: the query starts at the
start of the progress topic, and writes the same windows again.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from engine.base.clock import now_s, wall_ms
from engine.base.errors import MirrorError
from engine.config.storage import Storage
from engine.core.events.event_base import Event
from engine.core.reports.progress_sample import lag_topic, progress_topic
from engine.jobs.lag.batches import Batches, QueryBatches
from engine.jobs.lag.clocks import ClockWatch
from engine.jobs.lag.options import LagOptions, LagReport, checkpoint_uri, lag_table_uri
from engine.jobs.lag.rest import COLUMNS, rest_s
from engine.jobs.lag.rpo import RpoJudge, TopicWindow
from engine.jobs.lag.samples import decode
from engine.jobs.lag.windows import windows
from engine.jobs.runtime.idle_wait import IdleWait
from engine.jobs.runtime.session import PLAIN_FILES
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import DataFile, arrow_schema
from engine.jobs.tables.log import Batch
from engine.jobs.tables.reading import EVER
from engine.jobs.tables.table import Table

FORMAT_VERSION = 1
"""Format version of the values on the lag topic."""
_POLL_S = 2.0
"""Seconds between two checks whether the query has ended by itself; `stop` takes effect at once."""
_MARK = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
_RESTS = pa.schema([arrow_schema(LAG).field(name) for name in COLUMNS])
_UNTOLD = ("append_ms_counts", "copied_ms_counts", "fetched_ms_counts", "flow", "topic", "partition", "copier_key")


class LagQueryFailed(MirrorError):
    """The query ended by itself, after `batches` batches."""

    def __init__(self, flow: str, why: str, batches: int) -> None:
        super().__init__(flow, why, batches)
        self.flow, self.why, self.batches = flow, why, batches

    def __str__(self) -> str:
        return f"{self.flow}: the query that writes the history of lag ended: {self.why}"


class LagSink:
    """Takes the windows of each batch: `foreachBatch` of the query. `table` exists.

    `names` gives each batch its transaction. Without `idle` the sink never waits after a batch. `failure`: why the last
    batch failed, in words; Spark's own error of a query begins with pages of its calls.
    """

    def __init__(
        self,
        options: LagOptions,
        table: Table,
        target_options: Mapping[str, str],
        tell: Callable[[Event], None],
        names: Batches,
        idle: IdleWait | None = None,
    ) -> None:
        self.batches = 0
        self.failure = ""
        self._options, self._table, self._target_options = options, table, dict(target_options)
        self._idle = idle
        self._tell, self._names = tell, names
        self._judge = RpoJudge(options.flow, options.rpo_s, options.window_s)

    def __call__(self, told: DataFrame, batch: int) -> None:
        """Store a batch, publish it, judge it, then rest. If this raises, Spark runs the batch again.

        Spark also runs a batch again if the host is killed during the rest. Then the sink finds the commit, stores
        nothing twice, and does not rest, because the files may have been compacted. Raises OtherBatch if the commit is
        of other offsets: a stale host made it. Spark then runs the batch again with the offsets that the checkpoint has
        now; if they still differ, the job begins anew, and so computes the windows of both again.
        """
        told.persist()
        files = None
        try:
            transaction = self._names.batch(batch)
            if not self._table.has(transaction):
                # Only letters and digits: a path in a Delta log is percent-encoded.
                files = self.store(told, transaction, f"batch-{batch:012d}-{uuid4().hex}")
            if self._target_options:
                self.publish(told)
            self.judge(told)
        except MirrorError as error:
            self.failure = str(error)
            raise
        finally:
            told.unpersist()
        self.batches += 1
        if self._idle is not None and files is not None:
            self._idle.wait(self.rest_s(files))

    def rest_s(self, files: Sequence[DataFile]) -> float:
        """Return the seconds to rest after a commit of files. Raises OSError."""
        told = [self._table.files.read(file, _RESTS, EVER) for file in files]
        return rest_s(self._options, pa.concat_tables(told), wall_ms()) if told else 0.0

    def store(self, told: DataFrame, batch: Batch, folder: str) -> tuple[DataFile, ...] | None:
        """Write windows into a new folder of this attempt, then commit its files; return them.

        None: another process has committed the batch meanwhile. Raises StaleCommit if it is further, and FilesLost if
        the host slept between the two steps and the files are gone.
        """
        hour = f.date_format(f.timestamp_millis(LAG.span), "yyyy-MM-dd'T'HH").alias(LAG.partition)
        columns = [column.name for column in LAG.columns if column.name != LAG.partition]
        stored = told.select(*columns, hour).coalesce(1).write.partitionBy(LAG.partition).option("compression", "zstd")
        stored = stored.option(_MARK, "false")  # the commit marks it as complete
        if self._table.uri.startswith("file:"):
            stored = stored.options(**PLAIN_FILES)
        stored.parquet(f"{self._table.uri}/{folder}")
        return self._table.adopt(folder, batch, told.isEmpty)

    def publish(self, told: DataFrame) -> None:
        """Write the newest window of each lane to the lag topic."""
        newest(told).withColumn("topic", f.lit(lag_topic(self._options.flow.source))).write.format("kafka").options(
            **self._target_options
        ).save()

    def judge(self, told: DataFrame) -> None:
        """Report topics that fall further behind than the objective, and those that no longer are."""
        if not self._options.rpo_s:
            return
        found = told.where("topic != '' and lag_ms_max is not null").groupBy("topic", "window_start_ms")
        rows = found.agg(f.max("lag_ms_max").alias("lag_ms")).collect()
        judged = (
            TopicWindow(topic=one["topic"], start_ms=one["window_start_ms"], lag_ms=one["lag_ms"]) for one in rows
        )
        for event in self._judge.judge(judged):
            self._tell(event)


def newest(told: DataFrame) -> DataFrame:
    """Return records (`key`, `value`, as JSON) of the newest window of every lane, without unknown fields."""
    key = f.to_json(f.struct("flow", "topic", "partition"))
    fields = [f.col(name) for name in told.columns if name not in _UNTOLD]
    value = f.to_json(f.struct(f.lit(FORMAT_VERSION).alias("format"), *fields))
    lanes = told.where("topic != ''").select(key.alias("key"), "window_start_ms", value.alias("value"))
    return lanes.groupBy("key").agg(f.max_by("value", "window_start_ms").alias("value"))


def start(
    spark: SparkSession,
    options: LagOptions,
    storage: Storage,
    target_options: Mapping[str, str],
    tell: Callable[[Event], None],
    idle: IdleWait | None = None,
) -> tuple[StreamingQuery, LagSink]:
    """Start the query; `target_options` are Spark's for the target cluster (`kafka.bootstrap.servers` and the like).

    `idle`: call its `end` before you stop the query, or the stop waits for the idle wait; None: the query never idles.
    """
    records = (
        spark.readStream.format("kafka")
        .options(**target_options)
        .option("subscribe", progress_topic(options.flow.source))
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")  # records deleted by retention leave a hole; the history continues
        .option("maxOffsetsPerTrigger", str(options.most_records))
        .load()
    )
    rows = decode(records, tolerance_s=options.watermark_s).where(f.col("flow") == str(options.flow))
    found = windows(rows, window_s=options.window_s, watermark_s=options.watermark_s)
    place = checkpoint_uri(storage, options.flow)
    table = Table(lag_table_uri(storage), LAG)
    table.create()
    names = QueryBatches(options.flow, place)
    sink = LagSink(options, table, target_options, tell, names, idle)
    writer = found.writeStream.outputMode("update").option("checkpointLocation", place)
    query = writer.trigger(processingTime=f"{options.every_s:g} seconds").foreachBatch(sink).start()
    names.started(query)
    return query, sink


def keep_going(
    spark: SparkSession,
    options: LagOptions,
    storage: Storage,
    target_options: Mapping[str, str],
    tell: Callable[[Event], None],
    stop: threading.Event,
    idle: IdleWait,
) -> LagReport:
    """Run the query until `stop` is set, then end it. Raises LagQueryFailed if it ended by itself."""
    query, sink = start(spark, options, storage, target_options, tell, idle)
    clocks = ClockWatch(options)
    try:
        while not stop.wait(_POLL_S):
            for event in clocks.look(query, now_s()):
                tell(event)
            if not query.isActive:
                raise LagQueryFailed(str(options.flow), sink.failure or _why(query), sink.batches)
        return report_of(query, sink)
    finally:
        idle.end()
        query.stop()


def report_of(query: StreamingQuery, sink: LagSink) -> LagReport:
    """Return the counts of the query."""
    recent = query.recentProgress
    state = [one for step in recent for one in step["stateOperators"]]
    return LagReport(
        batches=sink.batches,
        rows=sum(one["numRowsUpdated"] for one in state),
        late=sum(one["numRowsDroppedByWatermark"] for one in state),
        batch_s=recent[-1]["batchDuration"] / 1000 if recent else 0.0,
    )


def _why(query: StreamingQuery) -> str:
    failure: StreamingQueryException | None = query.exception()
    return "it was stopped" if failure is None else str(failure).splitlines()[0]
