"""Readers: some minutes at a time, only what is asked for, and whole while others fold and delete."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from engine.jobs.tables import table as table_module
from engine.jobs.tables.care import fold
from engine.jobs.tables.errors import TableDamaged
from engine.jobs.tables.files import TableFiles
from engine.jobs.tables.reading import EVER, read
from engine.jobs.tables.table import Batch, Table
from tests.unit.engine.jobs.table_rows import (
    BASE_MS,
    HOUR_MS,
    MINUTE_MS,
    SPEC,
    add,
    at,
    data_files,
    folder_of,
    newest,
    pass_time,
    rows_in,
    written,
)

NOW_MS = BASE_MS + 24 * HOUR_MS


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(f"file:{tmp_path}/tables/counts", SPEC)
    made.create()
    return made


def test_rows_come_some_minutes_at_a_time_oldest_first(table: Table) -> None:
    add(table, [(58, 0), (59, 0), (60, 0), (61, 0)])
    add(table, [(2, 0), (4, 0), (5, 0), (57, 0)])
    begins = [some.column("at_ms").to_pylist() for some in read(table)]
    assert [[(one - BASE_MS) // MINUTE_MS for one in some] for some in begins] == [[2, 4], [5], [57, 58, 59], [60, 61]]
    assert rows_in(table, (at(59), at(61))) == [(59, 0), (60, 0)]
    assert rows_in(table, (at(62), at(90))) == rows_in(table, (at(3), at(3))) == []


def test_only_the_wanted_columns_are_read_and_files_of_other_times_are_not_opened(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in (1, 30, 61, 121):
        add(table, [(minute, minute)])
    opened, reads = [], TableFiles.read

    def noted(self: TableFiles, file: object, schema: pa.Schema, within: tuple[int, int]) -> pa.Table:
        opened.append(file)
        return reads(self, file, schema, within)  # type: ignore[arg-type]

    monkeypatch.setattr(TableFiles, "read", noted)
    (found,) = read(table, (at(20), at(40)), columns=["number", "not there"])
    assert set(found.column_names) == {"at_ms", "number"}
    assert len(opened) == 1


def test_rows_are_merged_whatever_the_order_of_their_files(table: Table) -> None:
    for rows in ([(1, 6), (2, 2)], [(1, 3)], [(1, 5), (2, 4)]):
        add(table, rows)
    assert rows_in(table, merge=newest) == [(1, 6), (2, 4)]
    assert len(rows_in(table)) == 5


def test_files_of_other_programs_are_read_though_the_log_does_not_tell_their_span(table: Table) -> None:
    folder = written(table, [(1, 1), (7, 2)])
    found = [table.files.inspect(path, value) for path, value in table.files.written_below(folder)]
    table.commit([type(file)(file.path, file.partition, file.size, file.rows, None, None) for file in found])
    assert [file.first for file in table.snapshot().files] == [None]
    assert rows_in(table) == [(1, 1), (7, 2)]
    assert rows_in(table, (at(5), at(9))) == [(7, 2)]


def test_a_reader_whose_files_are_replaced_and_deleted_goes_on_with_the_new_ones(table: Table) -> None:
    for minute in (1, 11, 21, 61):
        add(table, [(minute, minute)])
    reader = read(table, columns=["number"])
    found = [next(reader)]
    fold(table, NOW_MS)
    pass_time(table, 1000)
    assert table.vacuum(0) == 3
    found += reader
    assert [one for some in found for one in some.column("number").to_pylist()] == [1, 11, 21, 61]


def test_a_reader_finds_nothing_of_a_partition_that_expired(table: Table) -> None:
    add(table, [(1, 1)])
    add(table, [(61, 2)])
    reader = read(table, columns=["number"])
    begun = next(reader)
    table.replace(table.snapshot(), SPEC.partition_of(at(61)), [])
    pass_time(table, 1000)
    table.vacuum(0)
    assert [some.to_pylist() for some in (begun, *reader)] == [begun.to_pylist()]


def test_a_file_that_counts_and_is_missing_is_named(table: Table) -> None:
    add(table, [(1, 1)])
    (file,) = table.snapshot().files
    (folder_of(table) / file.path).unlink()
    with pytest.raises(TableDamaged, match=r"a file that counts is missing: .*parquet"):
        rows_in(table)
    add(table, [(2, 2)])
    with pytest.raises(TableDamaged, match="a file that counts is missing"):
        fold(table, NOW_MS)


def test_readers_see_every_row_once_while_others_fold_and_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced files are deleted at once here: readers then meet files that are gone, and look again."""
    monkeypatch.setitem(table_module.PROPERTIES, "delta.deletedFileRetentionDuration", "interval 0 seconds")
    table = Table(f"file:{tmp_path}/counts", SPEC)
    table.create()
    for number in range(20):
        add(table, [(number, 6)])
    expected = [(number, 6) for number in range(20)]
    failures: list[BaseException] = []
    done = threading.Event()

    def tend() -> None:
        mine = Table(table.uri, SPEC)
        try:
            for number in range(30):
                add(mine, [(number % 20, 6)], Batch("w", number))
                fold(mine, NOW_MS, newest)
                mine.vacuum(0)
        except BaseException as failure:  # noqa: BLE001 - told below
            failures.append(failure)
        finally:
            done.set()

    thread = threading.Thread(target=tend)
    thread.start()
    looks = 0
    while not done.is_set() or looks == 0:
        assert rows_in(table, EVER, newest) == expected
        looks += 1
    thread.join()
    assert failures == []
    assert len([name for name in data_files(table) if name.endswith(".parquet")]) == 1
