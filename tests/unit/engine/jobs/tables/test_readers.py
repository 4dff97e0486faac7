"""Other programs read a table as raymirror does: pandas, DuckDB on Arrow, and Spark with Delta's own jars."""

from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from deltalake import DeltaTable

from engine.jobs.lag.history import History, most_complete
from engine.jobs.tables.appender import TableAppender
from engine.jobs.tables.care import fold
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.table import Table
from tests.harness.delta_spark import spark_rows
from tests.unit.engine.jobs.table_rows import SPEC, rows_of, written
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, WINDOW_MS, add, copier_row, read, row

PLAIN = msgspec.structs.replace(SPEC, columns=SPEC.columns[:-1])
"""A table without columns of lists."""
RANKED = """row_number() OVER (PARTITION BY flow, topic, partition, copier_key, window_start_ms
            ORDER BY samples DESC, last_ms DESC)"""
WINDOWS = [(minute, 0, 6) for minute in (1, 2, 3, 61, 121)]
COUNTS = [0, 0, 3, *[0] * 19]


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with an hour that is compacted, one that is not, and log entries of every kind."""
    history = History(f"file:{tmp_path}/tables/lag")
    add(history, "g-0", [row(1, lag=5, drain_s=2.5), row(2, samples=3), copier_row(1, appends={2: 3})])
    add(history, "g-1", [row(2), row(3, lag=None)])
    fold(history.table, BASE_MS + 24 * HOUR_MS, most_complete)
    add(history, "g-2", [row(61, samples=2), row(121)])
    add(history, "g-3", [row(61)])
    assert [one for one in read(history) if one[1] >= 0] == WINDOWS
    return history.table.uri.removeprefix("file:")


def as_windows(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return sorted(((one["window_start_ms"] - BASE_MS) // WINDOW_MS, one["partition"], one["samples"]) for one in rows)


def test_pandas_reads_every_row_and_column(place: str) -> None:
    frame = DeltaTable(place).to_pandas()
    assert sorted(frame.columns) == sorted(column.name for column in LAG.columns)
    assert len(frame) == len(WINDOWS) + 2, "a window of a present hour is there twice, and a copier's row"
    lag = frame[frame["window_start_ms"] == BASE_MS + WINDOW_MS].set_index("copier_key")
    assert lag.loc[""]["lag_records"] == 5
    assert list(lag.loc["copier-1"]["append_ms_counts"]) == COUNTS


def test_duckdb_finds_each_window_once_with_the_documented_query(place: str) -> None:
    lag = DeltaTable(place).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("lag", lag)
        found = connection.sql(f"SELECT * FROM lag WHERE topic <> '' QUALIFY {RANKED} = 1").to_arrow_table()
        assert as_windows(found.to_pylist()) == WINDOWS
        hours = connection.sql("SELECT hour, count(*) FROM lag WHERE topic <> '' GROUP BY hour ORDER BY hour")
        assert [count for _, count in hours.fetchall()] == [3, 2, 1]


def test_the_documented_rule_is_that_of_the_catalog() -> None:
    assert " ".join(RANKED.split()) in LAG.once


@pytest.mark.local
@pytest.mark.full
def test_spark_reads_the_same_rows(place: str) -> None:
    sql = f"SELECT * FROM (SELECT *, {RANKED} AS place FROM found) WHERE place = 1"
    rows = spark_rows(place, sql)
    assert as_windows([one for one in rows if one["topic"]]) == WINDOWS
    (copier,) = [one for one in rows if not one["topic"]]
    assert copier["append_ms_counts"] == COUNTS
    assert {one["hour"] for one in rows} == {LAG.partition_of(BASE_MS + hour * HOUR_MS) for hour in range(3)}


@pytest.mark.parametrize("way", ["appended", "written by Spark", "appended without pyarrow"])
def test_a_condition_of_pandas_finds_rows(tmp_path: Path, way: str) -> None:
    table = Table(f"file:{tmp_path}/counts", SPEC)
    match way:
        case "appended":
            table.create()
            table.append(rows_of([(1, 7), (2, 8)]))
        case "written by Spark":
            table.create()
            table.adopt(written(table, [(1, 7), (2, 8)]))
        case _:
            rows = rows_of([(1, 7), (2, 8)], PLAIN).to_pylist()
            TableAppender(table.uri, PLAIN).append(rows)
    for condition, count in {("name", "=", "n"): 2, ("number", ">", 7): 1, ("name", "=", "x"): 0}.items():
        found = DeltaTable(tmp_path / "counts").to_pandas(filters=[condition], columns=["at_ms"])
        assert len(found) == count, condition
