"""The statistics of a file in the log: right for every column, so that other programs find every row."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from engine.jobs.tables.statistics import statistics_of
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.table_rows import SPEC, add, rows_of


def told(tmp_path: Path, *groups: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    with pq.ParquetWriter(tmp_path / "x.parquet", schema) as writer:
        for group in groups:
            writer.write_table(pa.table(group, schema=schema))
    found: dict[str, Any] = json.loads(statistics_of(pq.read_metadata(tmp_path / "x.parquet")))
    return found


def test_every_column_has_its_least_and_most_value_and_its_nulls(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("t", pa.string()),
            ("d", pa.float64()),
            ("f", pa.bool_()),
            ("n", pa.int32()),
            ("l", pa.list_(pa.int64())),
        ]
    )
    first = {"a": [5, 2], "t": ["m", None], "d": [0.5, 2.5], "f": [True, True], "n": [None, None], "l": [[1], None]}
    other = {"a": [9, None], "t": ["b", "z"], "d": [None, -1.0], "f": [False, True], "n": [None, None], "l": [[], [2]]}
    assert told(tmp_path, first, other, schema=schema) == {
        "numRecords": 4,
        "minValues": {"a": 2, "t": "b", "d": -1.0, "f": False},
        "maxValues": {"a": 9, "t": "z", "d": 2.5, "f": True},
        "nullCount": {"a": 1, "t": 1, "d": 1, "f": 0, "n": 4},
    }


def test_long_texts_are_cut_to_bounds_that_hold(tmp_path: Path) -> None:
    text = "ä" * 40
    found = told(tmp_path, {"t": [text, text + "x"]}, schema=pa.schema([("t", pa.string())]))
    (least, most) = found["minValues"]["t"], found["maxValues"]["t"]
    assert len(least) == len(most) - 1 == 32
    assert least <= text < text + "x" <= most


def test_what_json_cannot_say_is_left_out(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.float64()), ("e", pa.float64())])
    found = told(tmp_path, {"d": [1.0, float("inf")], "e": [float("nan")] * 2}, schema=schema)
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}


def test_a_file_without_rows_says_so(tmp_path: Path) -> None:
    assert told(tmp_path, schema=pa.schema([("a", pa.int64())]))["numRecords"] == 0


@pytest.mark.parametrize("way", ["appended", "written by Spark"])
def test_a_condition_of_another_program_finds_rows(tmp_path: Path, way: str) -> None:
    table = Table(f"file:{tmp_path}/counts", SPEC)
    table.create()
    if way == "appended":
        table.append(rows_of([(1, 7), (2, 8)]))
    else:
        add(table, [(1, 7), (2, 8)])
    for condition, count in {("name", "=", "n"): 2, ("number", ">", 7): 1, ("name", "=", "x"): 0}.items():
        found = DeltaTable(tmp_path / "counts").to_pandas(filters=[condition], columns=["at_ms"])
        assert len(found) == count, condition
