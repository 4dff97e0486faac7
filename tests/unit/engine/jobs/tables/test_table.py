"""A table: commits that are whole, batches that come again, writers that were replaced, tables that cannot be used."""

import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engine.base.errors import NewerFormat
from engine.jobs.tables.columns import Column
from engine.jobs.tables.errors import (
    FilesLost,
    StaleCommit,
    TableConflict,
    TableDamaged,
    TableMissing,
    TableTooNew,
    TableUnreachable,
)
from engine.jobs.tables.files import DataFile, TableFiles
from engine.jobs.tables.log import FORMAT, Batch
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.table_rows import (
    SPEC,
    add,
    data_files,
    folder_of,
    hour_of,
    pass_time,
    rows_in,
    rows_of,
    written,
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(f"file:{tmp_path}/tables/counts", SPEC)
    made.create()
    return made


def test_a_table_is_created_once_and_then_opened(tmp_path: Path) -> None:
    table = Table(f"file:{tmp_path}/t", SPEC)
    assert not table.exists()
    with pytest.raises(TableMissing, match=r"/t: there is no table"):
        table.snapshot()
    with pytest.raises(TableMissing):
        table.committed("w")
    table.create()
    table.create()
    assert table.exists()
    assert (table.snapshot().version, table.snapshot().files) == (0, ())
    assert table.snapshot().schema.names == [column.name for column in SPEC.columns]
    protocol = DeltaTable(str(tmp_path / "t")).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), "every reader of Delta can read it"


def test_rows_are_appended_by_partition_with_their_span(table: Table) -> None:
    assert table.append(rows_of([(1, 1), (61, 2), (2, 3)]))
    parts = table.snapshot().partitions()
    assert list(parts) == [hour_of(1), hour_of(61)]
    ((first,), (second,)) = parts.values()
    assert (first.rows, second.rows) == (2, 1)
    assert rows_in(table) == [(1, 1), (2, 3), (61, 2)]


def test_files_of_spark_are_adopted_with_what_their_footers_say(table: Table) -> None:
    folder = written(table, [(1, 1), (61, 2)])
    assert table.snapshot().files == (), "no reader sees a file before its commit"
    found = table.adopt(folder, Batch("w", 0))
    assert found is not None
    assert table.snapshot().files == tuple(sorted(found))
    assert rows_in(table) == [(1, 1), (61, 2)]


def test_a_batch_that_comes_again_changes_nothing_and_an_older_one_is_refused(table: Table) -> None:
    assert add(table, [(1, 1)], Batch("w", 4))
    assert not add(table, [(1, 1)], Batch("w", 4))
    assert not table.append(rows_of([(1, 1)]), Batch("w", 4))
    with pytest.raises(StaleCommit, match=r"batch 3 of w is refused because batch 4"):
        add(table, [(9, 9)], Batch("w", 3))
    assert add(table, [(2, 2)], Batch("another checkpoint", 0)), "it counts from 0 again"
    assert add(table, [], Batch("w", 5)), "a batch without rows is remembered"
    assert [table.committed(name) for name in ("w", "another checkpoint", "none")] == [5, 0, None]
    assert rows_in(table) == [(1, 1), (2, 2)]
    assert table.commit([])


def test_a_writer_that_was_replaced_is_refused_whatever_it_last_saw(table: Table) -> None:
    """A host that was frozen: its handle is behind, and another host has committed the same batch and the next."""
    old = Table(table.uri, SPEC)
    assert add(old, [(1, 1)], Batch("w", 1))
    folder = written(old, [(2, 2)])
    assert add(table, [(2, 2)], Batch("w", 2))
    assert old.adopt(folder, Batch("w", 2)) is None
    assert add(table, [(3, 3)], Batch("w", 3))
    with pytest.raises(StaleCommit):
        old.adopt(folder, Batch("w", 2))
    assert rows_in(table) == [(1, 1), (2, 2), (3, 3)]


def test_two_writers_that_commit_one_batch_at_the_same_moment_commit_it_once(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked for the batch and not found it: the log refuses the second, which then finds it."""
    other = Table(table.uri, SPEC)
    monkeypatch.setattr(other, "_lock", threading.Lock())  # another process
    began: list[bool] = []
    write = table._write

    def late(*args: object, **more: object) -> None:
        if not began:
            began.append(add(other, [(1, 1)], Batch("w", 0)))
        write(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "_write", late)
    assert not add(table, [(1, 1)], Batch("w", 0))
    assert began == [True]
    assert rows_in(table) == [(1, 1)]


def test_a_kill_between_files_and_commit_leaves_nothing_that_counts(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(table, [(1, 1)], Batch("w", 0))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(table, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            add(table, [(2, 2)], Batch("w", 1))
        with pytest.raises(KeyboardInterrupt):
            table.append(rows_of([(2, 2)]), Batch("w", 1))
    assert rows_in(table) == [(1, 1)]
    assert add(Table(table.uri, SPEC), [(2, 2)], Batch("w", 1)), "the next host does it again"
    assert rows_in(table) == [(1, 1), (2, 2)]
    pass_time(table, 3700)
    assert table.vacuum(2**52) == 8, "two files, and Spark's own: two sums and one mark of each of two batches"
    assert len(data_files(table)) == 2
    assert rows_in(table) == [(1, 1), (2, 2)]


def test_threads_commit_one_after_another(table: Table) -> None:
    """As the queries of several flows do, in one host."""

    def work(number: int) -> None:
        mine = Table(table.uri, SPEC)
        for batch in range(5):
            add(mine, [(number, batch)], Batch(f"w{number}", batch))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rows_in(table)) == [(number, batch) for number in range(4) for batch in range(5)]
    assert [table.committed(f"w{number}") for number in range(4)] == [4] * 4


def test_files_of_one_partition_are_replaced_and_what_came_meanwhile_stays(table: Table) -> None:
    add(table, [(1, 1), (61, 9)])
    add(table, [(2, 2)])
    snapshot = table.snapshot()
    add(table, [(3, 3)])
    made = table.files.write("folded", hour_of(1), [rows_of([(1, 1), (2, 2)])])
    assert made is not None
    table.replace(snapshot, hour_of(1), [made])
    assert rows_in(table) == [(1, 1), (2, 2), (3, 3), (61, 9)]
    assert len(table.snapshot().files) == 3
    table.replace(table.snapshot(), hour_of(61), [])
    assert rows_in(table) == [(1, 1), (2, 2), (3, 3)]


def test_of_two_replacements_of_the_same_files_the_second_is_refused(table: Table) -> None:
    """deltalake 1.6.6 would keep both files, and double every row."""
    add(table, [(1, 1)])
    add(table, [(2, 2)])
    one, two = table.snapshot(), Table(table.uri, SPEC).snapshot()
    made = [table.files.write("folded", hour_of(1), [rows_of([(1, 1), (2, 2)])]) for _ in range(2)]
    files = [file for file in made if file is not None]
    table.replace(one, hour_of(1), files[:1])
    with pytest.raises(TableConflict, match="another process changed the same part of the table first"):
        table.replace(two, hour_of(1), files[1:])
    assert rows_in(table) == [(1, 1), (2, 2)]


def test_a_replacement_whose_file_was_deleted_meanwhile_is_refused(table: Table) -> None:
    add(table, [(1, 1)])
    made = table.files.write("folded", hour_of(1), [rows_of([(1, 1)])])
    assert made is not None
    table.files.drop(made.path)
    with pytest.raises(TableConflict, match="was deleted before its commit"):
        table.replace(table.snapshot(), hour_of(1), [made])
    assert rows_in(table) == [(1, 1)]


def test_a_commit_of_files_that_were_deleted_meanwhile_is_refused(table: Table) -> None:
    """A machine that slept for two hours: another process has vacuumed what had no commit."""
    add(table, [(1, 1)], Batch("w", 0))
    made = table.files.write("rows", hour_of(2), [rows_of([(2, 2)])])
    folder = written(table, [(3, 3)])
    assert made is not None
    pass_time(table, 7200)
    assert Table(table.uri, SPEC).vacuum(0)
    with pytest.raises(FilesLost, match="was deleted before its commit"):
        table.commit([made], Batch("w", 1))
    with pytest.raises(FilesLost, match=rf"the files in {folder} were deleted"):
        table.adopt(folder, Batch("w", 1), lambda: False)
    assert not table.commit([made], Batch("w", 0)), "whose batch is committed needs no files"
    assert rows_in(table) == [(1, 1)]
    assert add(table, [(2, 2)], Batch("w", 1)), "the batch comes again"
    assert rows_in(table) == [(1, 1), (2, 2)]


def test_rows_whose_files_were_deleted_before_their_commit_are_written_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, slept = TableFiles.write, list[str]()

    def late(self: TableFiles, *given: Any) -> DataFile | None:
        made = write(self, *given)
        if not slept and made is not None:
            slept.append(made.path)
            self.drop(made.path)
        return made

    monkeypatch.setattr(TableFiles, "write", late)
    assert table.append(rows_of([(1, 1), (61, 2)]), Batch("w", 0))
    assert slept
    assert rows_in(table) == [(1, 1), (61, 2)]


def test_the_log_is_summed_up_and_its_old_commits_go(table: Table) -> None:
    late = Table(table.uri, SPEC)
    assert late.committed("w") is None
    for number in range(60):
        table.append(rows_of([(number, number)]), Batch("w", number))
    pass_time(table, 1000)
    for number in range(60, 120):
        table.append(rows_of([(number % 60, number)]), Batch("w", number))
    log = folder_of(table) / "_delta_log"
    assert len(list(log.glob("*.json"))) < 90
    assert late.committed("w") == 119, "one that opened the table before reads on"
    assert len(rows_in(Table(table.uri, SPEC))) == 120


def test_a_newer_version_adds_columns_and_both_read_and_write(table: Table) -> None:
    newer = msgspec.structs.replace(SPEC, columns=(*SPEC.columns, Column("added", "long", "ms", "a new one")))
    table.append(rows_of([(1, 1)]))
    before = Table(table.uri, newer)
    assert [row["added"] for some in read(before) for row in some.to_pylist()] == [None], "read before it has written"
    before.create()
    before.append(rows_of([(2, 2)], newer).set_column(7, "added", pa.array([5])))
    table.create()
    table.append(rows_of([(3, 3)]))
    assert rows_in(table) == rows_in(before) == [(1, 1), (2, 2), (3, 3)]
    assert [row["added"] for some in read(before) for row in some.to_pylist()] == [None, 5, None]


def set_format(table: Table, value: str) -> None:
    path = folder_of(table) / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"][FORMAT] = value
    path.write_text("\n".join(map(json.dumps, lines)))


def test_a_table_of_a_newer_format_is_refused_in_one_line(table: Table) -> None:
    add(table, [(1, 1)])
    set_format(table, str(SPEC.format + 1))
    assert rows_in(Table(table.uri, SPEC)) == [(1, 1)], "the next version is read"
    set_format(table, str(SPEC.format + 2))
    for use in (Table.snapshot, Table.create, lambda one: add(one, [(2, 2)]), lambda one: one.vacuum(0)):
        with pytest.raises(NewerFormat, match=r"tables/counts: format 3, written by a newer raymirror"):
            use(Table(table.uri, SPEC))


def test_a_table_of_somebody_else_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), pa.schema([("x", pa.int64())]))
    with pytest.raises(TableDamaged, match=r"has no property raymirror\.format"):
        Table(f"file:{tmp_path}/t", SPEC).create()


def test_a_log_that_cannot_be_read_is_named(table: Table) -> None:
    add(table, [(1, 1)])
    (folder_of(table) / "_delta_log" / f"{1:020}.json").write_text('{"add')
    with pytest.raises(TableDamaged, match=r"tables/counts: the table is damaged .*move it away"):
        Table(table.uri, SPEC).snapshot()


@pytest.mark.parametrize(
    ("protocol", "can_be_read"),
    [
        ({"minReaderVersion": 9, "minWriterVersion": 2}, False),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v9"], "writerFeatures": ["v9"]}, False),
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["v9"]}, True),
        ({"minReaderVersion": 1, "minWriterVersion": 9}, True),
    ],
)
def test_a_table_of_a_newer_protocol_is_no_damaged_one(
    table: Table, protocol: dict[str, object], can_be_read: bool
) -> None:
    (folder_of(table) / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"protocol": protocol}))
    too_new = "a newer program changed this table .*install a newer raymirror"
    with pytest.raises(TableTooNew, match=too_new):
        table.append(rows_of([(1, 1)]))
    if can_be_read:
        assert rows_in(table) == []
        return
    with pytest.raises(TableTooNew, match=too_new):
        table.snapshot()


def test_a_file_that_cannot_be_read_is_named(table: Table) -> None:
    add(table, [(1, 1)])
    (file,) = table.snapshot().files
    (folder_of(table) / file.path).write_bytes(b"x" * file.size)
    with pytest.raises(TableDamaged, match="Parquet magic bytes not found"):
        rows_in(table)


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    with pytest.raises(TableUnreachable, match=r"/t: the storage does not work"):
        Table(f"file:{tmp_path}/t", SPEC).create()


def test_paths_are_taken_literally(tmp_path: Path) -> None:
    table = Table(f"file:{tmp_path}/a b+c", SPEC)
    table.create()
    add(table, [(1, 1)])
    assert rows_in(table) == [(1, 1)]
    assert (tmp_path / "a b+c" / "_delta_log").is_dir()
