"""Windows of lag on a local Spark, against a simulated mirror whose lag is known at every second."""

import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from engine.base.clock import wall_ms
from engine.core.events.event_base import Event
from engine.jobs.lag.clocks import BatchClocks, batch_clocks
from engine.jobs.lag.history import History
from engine.jobs.lag.options import LagOptions
from engine.jobs.lag.query import LagSink, newest
from engine.jobs.lag.samples import ROWS, decode
from engine.jobs.lag.windows import windows
from engine.jobs.runtime.idle_wait import IdleWait
from engine.jobs.tables.errors import OtherBatch
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from policies.model import FlowName
from tests.harness.samples import Truth, told

# PySpark leaves the sockets that it reads results from to the garbage collector.
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

START_MS = 1_800_000_000_000
FLOW = FlowName("A", "B")
RECORDS = t.StructType([t.StructField("value", t.BinaryType()), t.StructField("timestamp", t.TimestampType())])
PRODUCED = (10,) * 60 + (0,) * 60
COPIED = (10,) * 20 + (0,) * 20 + (5,) * 40 + (20,) * 10 + (0,) * 30
"""Even for 20 s, standing still for 20 s, half as fast for 20 s and after, at last what is left."""


def truth(partition: int = 0, *, times: int = 1, topic: str = "t") -> Truth:
    return Truth(
        topic=topic,
        partition=partition,
        start_ms=START_MS,
        produced=tuple(times * one for one in PRODUCED),
        copied=tuple(times * one for one in COPIED),
        still=frozenset(range(25, 41)),
    )


def records(spark: SparkSession, told: Iterable[tuple[int, bytes]]) -> DataFrame:
    rows = [(value, datetime.fromtimestamp(at_ms / 1000, UTC)) for at_ms, value in told]
    return spark.createDataFrame(rows, RECORDS)


def summed(spark: SparkSession, told: Iterable[tuple[int, bytes]], window_s: float = 30) -> DataFrame:
    return windows(decode(records(spark, told), tolerance_s=15), window_s=window_s, watermark_s=15)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> Iterator[DataFrame]:
    """The windows of one lane from first to last."""
    found = summed(spark, told([truth()], every_s=5)).persist()
    yield found
    found.unpersist()


def lanes(found: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in found.where("topic != ''").collect()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["window_start_ms"]))


def test_every_window_tells_the_lag_that_was(whole: DataFrame) -> None:
    every_s, lane = 5, truth()
    rows = lanes(whole)
    assert [row["window_start_ms"] for row in rows] == [START_MS + 30_000 * n for n in range(5)]
    for number, row in enumerate(rows):
        # samples at the end of seconds 5, 10, ...: those that lie within the window
        seconds = [s for s in range(every_s, 121, every_s) if 30 * number <= s < 30 * (number + 1)]
        assert (row["samples"], row["last_ms"]) == (len(seconds), START_MS + 1000 * seconds[-1])
        assert (row["lag_records_min"], row["lag_records_max"]) == (
            min(map(lane.lag, seconds)),
            max(map(lane.lag, seconds)),
        )
        assert (row["lag_records"], row["lag_bytes"]) == (lane.lag(seconds[-1]), 100 * lane.lag(seconds[-1]))
        assert (row["lag_ms"], row["lag_ms_max"]) == (lane.lag_ms(seconds[-1]), max(map(lane.lag_ms, seconds)))
        # what happens between two samples is not seen: the truth is never further than that away
        within = range(30 * number + 1, min(121, 30 * (number + 1))) or [120]
        assert max(map(lane.lag, within)) - row["lag_records_max"] <= 10 * every_s
        assert max(map(lane.lag_ms, within)) - row["lag_ms_max"] <= 1000 * every_s


def test_rates_trend_and_drain_follow_from_it(whole: DataFrame) -> None:
    rows = lanes(whole)
    assert sum(row["records"] for row in rows) == sum(COPIED)
    assert sum(row["wire_bytes"] for row in rows) == 100 * sum(COPIED)
    for number, row in enumerate(rows):
        seconds = [s for s in range(5, 121, 5) if 30 * number <= s < 30 * (number + 1)]
        copied = sum(COPIED[seconds[0] - 5 : seconds[-1]])
        assert row["records_per_s"] == pytest.approx(copied / (seconds[-1] - seconds[0] + 5))
        assert row["latency_mean_ms"] == (7.0 if copied else None)
        if len(seconds) < 2:
            continue  # one sample has no trend
        slope = statistics.linear_regression(seconds, [truth().lag(s) for s in seconds]).slope
        assert row["trend"] == pytest.approx(slope)
        drains = row["lag_records"] / -slope if slope < 0 else None
        assert row["drain_s"] == (
            0.0 if row["lag_records"] == 0 else drains if drains is None else pytest.approx(drains)
        )
    assert (rows[4]["lag_records"], rows[4]["drain_s"], rows[1]["drain_s"]) == (0, 0.0, None)


def test_a_stall_has_its_length_and_reason(whole: DataFrame) -> None:
    rows = lanes(whole)
    assert [(row["stalled_ms"], row["stall_reason"] != "") for row in rows] == [
        (5000, True),
        (15_000, True),
        (0, False),
        (0, False),
        (0, False),
    ]


def test_copiers_have_windows_of_their_own(spark: SparkSession) -> None:
    mine = told([truth()], every_s=5, copier="copier-1")
    other = told([truth(1)], every_s=5, copier="copier-2")
    rows = summed(spark, [*mine, *other], window_s=60).where("topic = ''").collect()
    assert {row["copier_key"] for row in rows} == {"copier-1", "copier-2"}
    for row in rows:
        at = (row["window_start_ms"] - START_MS) // 1000
        seconds = [s for s in range(5, 121, 5) if at <= s < at + 60]
        copied = sum(COPIED[max(0, seconds[0] - 5) : seconds[-1]])
        assert (row["records"], row["dropped"], row["partition"]) == (copied, 2, -1)
        assert row["append_ms_counts"][0] == sum(seconds)
        assert (row["copied_ms_counts"] or [0] * 3)[2] == copied
        assert row["fetched_ms_counts"] is None


def test_a_lane_that_another_copier_takes_up_goes_on_in_its_window(spark: SparkSession) -> None:
    all_told = list(told([truth()], every_s=5))
    other = list(told([truth()], every_s=5, copier="copier-2"))
    rows = lanes(summed(spark, [*all_told[:3], *other[3:6]]))
    assert [(row["samples"], row["copier"]) for row in rows] == [(5, "copier-2"), (1, "copier-2")]


@pytest.mark.parametrize(("unknown", "source_end"), [("position", 50), ("source_end", None)])
def test_what_nobody_knows_is_null_and_what_is_no_sample_is_left_out(
    spark: SparkSession, unknown: str, source_end: int | None
) -> None:
    (at_ms, raw), *_ = told([truth()], every_s=5)
    sample = msgspec.json.decode(raw)
    for name in (unknown, "lag_ms", "lag_bytes"):
        sample["lanes"][0].pop(name)
    later, empty = sample | {"format": 3}, sample | {"lanes": []}
    values = [msgspec.json.encode(one) for one in (sample, later, empty)] + [b"", b"no sample", b"{}", b'{"format":1}']
    found = decode(records(spark, [(at_ms, value) for value in values]), tolerance_s=15)
    assert found.schema == ROWS or [field.dataType for field in found.schema] == [field.dataType for field in ROWS]
    rows = [row for row in found.collect() if row["topic"]]
    assert [(row["lag_records"], row["lag_ms"], row["source_end"]) for row in rows] == [(None, None, source_end)]
    (window,) = lanes(windows(found, window_s=30, watermark_s=15))
    assert (window["lag_records"], window["lag_records_max"], window["trend"], window["drain_s"]) == (None,) * 4


def test_a_clock_that_is_wrong_is_not_believed(spark: SparkSession) -> None:
    seen_ms = {9_000: 9_000, -9_000: -9_000, 3_600_000: 0, -3_600_000: 0}
    firsts = [next(told([truth()], every_s=5, copier=str(off_ms), clock_off_ms=off_ms)) for off_ms in seen_ms]
    found = decode(records(spark, firsts), tolerance_s=15).select("copier", "at_ms").distinct().collect()
    assert {int(row["copier"]): row["at_ms"] - START_MS - 5000 for row in found} == seen_ms


def test_the_newest_of_each_lane_is_told_with_its_window(whole: DataFrame) -> None:
    (found,) = newest(whole).collect()
    assert msgspec.json.decode(found["key"]) == {"flow": "A->B", "topic": "t", "partition": 0}
    value = msgspec.json.decode(found["value"])
    assert (value["format"], value["window_start_ms"], value["lag_records"]) == (1, START_MS + 120_000, 0)
    assert "append_ms_counts" not in value


def test_a_query_reports_how_far_clocks_are_apart(spark: SparkSession, tmp_path: Path) -> None:
    ahead_ms = wall_ms() + 600_000  # the broker's time
    samples = [(ahead_ms, value) for _, value in told([truth()], every_s=5)]
    folder, checkpoint = str(tmp_path / "samples"), str(tmp_path / "checkpoint")

    def stream(rows: list[tuple[int, bytes]]) -> list[BatchClocks]:
        records(spark, rows).write.mode("append").parquet(folder)
        found = decode(spark.readStream.schema(RECORDS).parquet(folder), tolerance_s=15)
        writer = windows(found, window_s=30, watermark_s=15).writeStream.outputMode("update")
        query = writer.option("checkpointLocation", checkpoint).format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        return [batch_clocks(one) for one in query.recentProgress]

    first = stream(samples)
    assert (sum(one.off for one in first), max(one.newest_ms for one in first)) == (len(samples), ahead_ms)
    assert sum(one.late for one in first) == 0
    assert min(one.newest_ms - one.began_ms for one in first if one.newest_ms) > 15_000, "the broker is ahead"
    stream(samples)  # Spark counts as late what was late for the batch before
    again = stream([(ahead_ms - 300_000, value) for _, value in told([truth()], every_s=5)])
    assert sum(one.late for one in again) > 0, "the next leader's samples are late"


class Host:
    """A sink with a history in a folder, as the query of one checkpoint has it."""

    def __init__(
        self,
        folder: Path,
        generation: str = "g",
        rpo_s: float = 0.0,
        idle: IdleWait | None = None,
        offsets: str = "offsets",
    ) -> None:
        self.events: list[Event] = []
        self.history = History(f"file:{folder}/lag")
        self.history.table.create()
        options = LagOptions(flow=FLOW, rpo_s=rpo_s)
        self._generation, self._offsets = generation, offsets
        self.sink = LagSink(options, self.history.table, {}, self.events.append, self, idle)

    def batch(self, number: int) -> Batch:
        return Batch(f"lag A->B {self._generation}", number, "lag A->B", self._offsets)

    def read(self) -> list[tuple[int, int, int]]:
        found = []
        for table in self.history.windows(START_MS - 3_600_000, START_MS + 3_600_000):
            for one in table.to_pylist():
                if one["topic"]:
                    found.append(((one["window_start_ms"] - START_MS) // 1000, one["partition"], one["samples"]))
        return found


EXPECTED = [(0, 0, 5), (30, 0, 6), (60, 0, 6), (90, 0, 6), (120, 0, 1)]


def test_a_batch_that_comes_again_or_was_half_written_doubles_and_loses_nothing(
    whole: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path)
    host.sink(whole.where(f"window_start_ms < {START_MS + 60_000}"), 0)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # its files are written, the commit is not
        patch.setattr(Table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            host.sink(whole, 1)
    assert len(host.read()) == 2
    again = Host(tmp_path)
    again.sink(whole, 1)
    assert again.read() == EXPECTED
    Host(tmp_path).sink(whole, 1)  # killed after its commit, before the query had noted it
    assert again.read() == EXPECTED
    Host(tmp_path, "a checkpoint that was lost").sink(whole, 0)
    assert again.read() == EXPECTED


def test_a_batch_that_a_stale_host_made_of_other_offsets_is_refused(
    whole: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = whole.where(f"window_start_ms < {START_MS + 60_000}")
    Host(tmp_path, offsets="up to 7").sink(some, 0)
    new = Host(tmp_path, offsets="up to 9")
    with pytest.raises(OtherBatch, match="batch 0 of lag A->B g is refused"):
        new.sink(whole, 0)
    assert "two processes used one checkpoint" in new.sink.failure
    with monkeypatch.context() as patch:  # the stale host commits after we looked
        patch.setattr(Table, "has", lambda *_: False)
        with pytest.raises(OtherBatch):
            new.sink(whole, 0)
    Host(tmp_path, "begun anew", offsets="up to 9").sink(whole, 0)
    assert new.read() == EXPECTED


def test_a_batch_in_which_nothing_moved_rests_once_and_not_when_it_comes_again(
    whole: DataFrame, tmp_path: Path
) -> None:
    rests: list[float] = []

    class Noted(IdleWait):
        def wait(self, seconds: float) -> None:
            rests.append(seconds)

    ahead_ms = wall_ms() + 3_600_000  # samples of now, however long the machine takes to store them
    still = whole.withColumn("records", f.lit(0).cast("long")).withColumn("lag_records_max", f.lit(0).cast("long"))
    still = still.withColumn("last_ms", f.lit(ahead_ms).cast("long"))
    host = Host(tmp_path, idle=Noted())
    host.sink(whole, 0)
    host.sink(still, 1)
    host.sink(still, 1)
    assert rests == [0.0, 300.0], "what comes again was committed: it does not rest"


def test_breaches_of_the_objective_are_told(whole: DataFrame, tmp_path: Path) -> None:
    host = Host(tmp_path, rpo_s=20.0)
    host.sink.judge(whole)
    assert [(type(event).__name__, event.about) for event in host.events] == [("RpoBreached", "t"), ("RpoKept", "t")]
