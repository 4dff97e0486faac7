"""Parquet files of a table: row groups, spans, columns that a file lacks, files that cannot be completed."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.jobs.tables.files import DataFile, TableFiles, arrow_schema
from tests.unit.engine.jobs.table_rows import BASE_MS, MINUTE_MS, SPEC, at, rows_of


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(f"file:{tmp_path}", SPEC)


def test_a_file_has_a_row_group_for_each_table_and_no_partition_column(files: TableFiles, tmp_path: Path) -> None:
    made = files.write("rows", "2027-01-15T08", [rows_of([]), rows_of([(3, 1), (4, 2)]), rows_of([(9, 3)])])
    assert made is not None
    assert (made.partition, made.rows, made.first, made.last) == ("2027-01-15T08", 3, at(3), at(9))
    assert made.path.startswith("hour=2027-01-15T08/rows-")
    assert made.size == (tmp_path / made.path).stat().st_size
    parquet = pq.ParquetFile(tmp_path / made.path)
    assert parquet.metadata.num_row_groups == 2
    assert parquet.schema_arrow.names == arrow_schema(SPEC).names[1:]
    assert files.is_there(made)
    files.drop(made.path)
    files.drop(made.path)
    assert not files.is_there(made)


def test_a_file_without_rows_is_not_made(files: TableFiles, tmp_path: Path) -> None:
    assert files.write("rows", "h", [rows_of([])]) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_completed_is_deleted(files: TableFiles, tmp_path: Path) -> None:
    def tables() -> Iterator[pa.Table]:
        yield rows_of([(1, 1)])
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write("rows", "h", tables())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_rows_are_read_within_their_time_in_the_wanted_columns(files: TableFiles) -> None:
    made = files.write("rows", "h", [rows_of([(1, 1), (2, 2)]), rows_of([(7, 3)])])
    assert made is not None
    wanted = pa.schema([("hour", pa.string()), ("number", pa.int64()), ("later", pa.float64())])
    found = files.read(made, wanted, (at(2), at(8)))
    assert found.schema == wanted
    assert found.to_pylist() == [
        {"hour": "h", "number": 2, "later": None},
        {"hour": "h", "number": 3, "later": None},
    ]
    assert files.read(made, wanted, (at(3), at(4))).num_rows == 0


def test_what_spark_wrote_is_found_without_its_own_files(files: TableFiles, tmp_path: Path) -> None:
    for name in (
        *("b/hour=h/part-0.zstd.parquet", "b/hour=g/part-1.parquet", "b/hour=h/.part-0.zstd.parquet.crc"),
        *("b/_SUCCESS", "b/_temporary/0/hour=h/part-2.parquet", "c/hour=h/part-3.parquet", "b/part-4.parquet"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files.written_below("b") == [("b/hour=g/part-1.parquet", "g"), ("b/hour=h/part-0.zstd.parquet", "h")]
    assert files.written_below("none") == []


def test_a_file_overlaps_its_span_and_anything_if_it_has_none() -> None:
    file = DataFile("p", "h", 1, 2, 10, 20)
    assert [file.overlaps(one) for one in ((0, 10), (0, 11), (20, 30), (21, 30))] == [False, True, True, False]
    assert DataFile("p", "h", 1, 2, None, None).overlaps((0, 1))


def test_old_empty_folders_go_and_others_stay(files: TableFiles, tmp_path: Path) -> None:
    for name in ("old/hour=h", "new", "full", "_delta_log/_staged"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "full" / "part").touch()
    for name in ("old/hour=h", "old", "full", "_delta_log/_staged"):
        os.utime(tmp_path / name, (100, 100))
    assert files.drop_empty_folders(200_000) == 1
    os.utime(tmp_path / "old", (100, 100))  # its last entry was deleted just now
    assert files.drop_empty_folders(200_000) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_delta_log", "full", "new"]


def test_a_footer_tells_the_span_in_unix_ms(files: TableFiles) -> None:
    made = files.write("rows", "h", [rows_of([(0, 1)])])
    assert made is not None
    again = files.inspect(made.path, "h")
    assert again == made
    assert again.first == BASE_MS
    assert again.first % MINUTE_MS == 0
