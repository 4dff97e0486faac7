"""Spark on a bucket: checkpoint, Parquet and commits of a stream, while the store is slow and while it is away."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine.base.clock import wall_ms
from engine.jobs.runtime.storage_access import access_of
from engine.jobs.runtime.storage_files import open_storage
from tests.harness.eventually import wait_until
from tests.harness.s3_server import BUCKET, SECRET, s3_server
from tests.harness.spark import local_spark
from tests.harness.store_path import StorePath, store_path

pytestmark = [
    pytest.mark.local,
    pytest.mark.full,
    # PySpark leaves the sockets that it reads results from to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]

ROOT = f"s3a://{BUCKET}/mirror"
TABLE, CHECKPOINT = f"{ROOT}/numbers", f"{ROOT}/checkpoints/numbers"
SCHEMA = pa.schema([("value", pa.int64())])
WRITER, ROWS = "numbers", 10
DELAY_S, AWAY_S, DEADLINE_S = 0.02, 8.0, 900.0
FIRST, LAST = 1, 5
"""The batch after which the store goes away, and the one with which the test ends."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorePath]:
    """A store behind a network that the test may make slow or cut; the environment names it."""
    (tmp_path / "s3").mkdir()
    with s3_server(tmp_path / "s3") as server, store_path(server.port) as made:
        for name, value in server.environment(port=made.port).items():
            monkeypatch.setenv(name, value)
        yield made


def store(told: DataFrame, batch: int) -> None:
    """Write a batch into a folder of this attempt, then commit its files, unless it was committed already."""
    handle = DeltaTable(TABLE, storage_options=access_of(TABLE))
    if committed(handle) >= batch:
        return
    folder = f"batch-{batch}-{uuid4().hex[:8]}"
    told.select("value").coalesce(1).write.parquet(f"{TABLE}/{folder}")
    files, path = open_storage(f"{TABLE}/{folder}")
    written = [one for one in files.get_file_info(fs.FileSelector(path)) if one.extension == "parquet"]
    adds = [AddAction(f"{folder}/{one.base_name}", one.size or 0, {}, wall_ms(), True, "{}") for one in written]
    properties = CommitProperties(app_transactions=[Transaction(WRITER, batch)])
    handle.create_write_transaction(adds, "append", SCHEMA, commit_properties=properties)


def committed(handle: DeltaTable) -> int:
    """Return the last batch that counts, -1 before the first."""
    version = handle.transaction_version(WRITER)
    return -1 if version is None else version


class Stream:
    """The query, started again from its checkpoint whenever it has ended: as the mirror does with its jobs."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._query = spark, self._started(spark)

    @staticmethod
    def _started(spark: SparkSession) -> StreamingQuery:
        """Start the query, which has a state: executors keep that in the store too."""
        numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        writer = numbers.dropDuplicates(["value"]).writeStream.option("checkpointLocation", CHECKPOINT)
        return writer.trigger(processingTime="1 second").foreachBatch(store).start()

    def until(self, batch: int) -> None:
        """Return when a batch counts."""
        wait_until(lambda: self._committed() >= batch, f"batch {batch} counts", DEADLINE_S)

    def _committed(self) -> int:
        if not self._query.isActive:
            self._query = self._started(self._spark)
        return committed(DeltaTable(TABLE, storage_options=access_of(TABLE)))

    def end(self) -> None:
        self._query.stop()


def test_a_store_that_is_slow_and_away_loses_and_doubles_nothing(path: StorePath, tmp_path: Path) -> None:
    DeltaTable.create(TABLE, SCHEMA, storage_options=access_of(TABLE))
    path.slow(DELAY_S)
    with local_spark(tmp_path, storage=ROOT) as spark:
        assert not [value for _, value in spark.sparkContext.getConf().getAll() if SECRET in value]
        stream = Stream(spark)
        try:
            stream.until(FIRST)
            path.go_away()
            threading.Event().wait(AWAY_S)  # so long the store is away
            path.come_back()
            stream.until(LAST)
        finally:
            stream.end()
        handle = DeltaTable(TABLE, storage_options=access_of(TABLE))
        files = [f"{TABLE}/{name}" for name in pa.table(handle.get_add_actions(flatten=True))["path"].to_pylist()]
        seen_by_spark = Counter(row["value"] for row in spark.read.parquet(*files).collect())
    rows = Counter(handle.to_pyarrow_table()["value"].to_pylist())
    assert len(files) > LAST
    assert rows == Counter(range(len(files) * ROWS)), "each number of each batch, once"
    assert seen_by_spark == rows
