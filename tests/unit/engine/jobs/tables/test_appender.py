"""Rows that are appended without pyarrow: as those of `Table`, once for each batch, beside other processes."""

from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from engine.jobs.tables.appender import TableAppender, delta_schema
from engine.jobs.tables.care import fold
from engine.jobs.tables.catalog import AUDIT, LAG
from engine.jobs.tables.columns import Column, TableSpec
from engine.jobs.tables.errors import StaleCommit, TableConflict
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import TRIES, Batch
from engine.jobs.tables.reading import read
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.table_rows import pass_time

DAY_MS = 86_400_000
SPEC = TableSpec(
    name="notes",
    meaning="notes",
    partition="day",
    by="day",
    span="at_ms",
    stretch_ms=DAY_MS,
    columns=(
        Column("day", "text", "", "the day"),
        Column("at_ms", "long", "Unix ms", "when"),
        Column("name", "text", "", "whose; NULL: nobody's"),
        Column("count", "int", "notes", "how many"),
        Column("share", "double", "", "a part"),
        Column("on", "flag", "", "whether"),
    ),
)


def note(at_ms: int, name: str | None = "n") -> dict[str, object]:
    return {"at_ms": at_ms, "name": name, "count": 2, "share": 0.5, "on": True}


@pytest.fixture
def notes(tmp_path: Path) -> TableAppender:
    return TableAppender(f"file:{tmp_path}/notes", SPEC)


def times(notes: TableAppender) -> list[int]:
    return [row["at_ms"] for rows in read(Table(notes.uri, SPEC)) for row in rows.to_pylist()]


def files(notes: TableAppender) -> dict[str, int]:
    return {day: len(found) for day, found in Table(notes.uri, SPEC).snapshot().partitions().items()}


def test_both_ways_to_write_make_the_same_table(tmp_path: Path) -> None:
    for spec in (SPEC, AUDIT):
        assert delta_schema(spec) == Schema.from_arrow(arrow_schema(spec))
    with pytest.raises(KeyError):
        delta_schema(LAG)
    appended, created = TableAppender(f"file:{tmp_path}/one", SPEC), Table(f"file:{tmp_path}/other", SPEC)
    appended.append([note(1)])
    created.create()
    one, other = DeltaTable(tmp_path / "one"), DeltaTable(tmp_path / "other")
    assert one.metadata().configuration == other.metadata().configuration
    assert (one.schema(), one.metadata().partition_columns) == (other.schema(), other.metadata().partition_columns)
    assert one.protocol() == other.protocol()


def test_rows_of_several_days_are_one_commit_with_every_value(notes: TableAppender) -> None:
    assert notes.append([note(DAY_MS), note(1), note(2, None)])
    (first, second) = [rows.to_pylist() for rows in read(Table(notes.uri, SPEC))]
    assert first == [{"day": "1970-01-01", **note(1)}, {"day": "1970-01-01", **note(2, None)}]
    assert second == [{"day": "1970-01-02", **note(DAY_MS)}]
    assert DeltaTable(notes.uri.removeprefix("file:")).version() == 1
    spans = [(file.partition, file.rows, file.first, file.last) for file in Table(notes.uri, SPEC).snapshot().files]
    assert sorted(spans) == [("1970-01-01", 2, 1, 2), ("1970-01-02", 1, DAY_MS, DAY_MS)]


def test_a_batch_counts_once_and_an_earlier_one_is_refused(notes: TableAppender) -> None:
    assert notes.append([note(1)], Batch("w", 4))
    assert not TableAppender(notes.uri, SPEC).append([note(1)], Batch("w", 4))
    assert notes.append([note(2)], Batch("w", 5))
    assert notes.append([note(3)], Batch("v", 4))
    with pytest.raises(StaleCommit):
        notes.append([note(1)], Batch("w", 4))
    assert times(notes) == [1, 2, 3]


def test_a_batch_that_another_process_commits_at_the_same_time_counts_once(
    notes: TableAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.append([note(1)])
    other, write = TableAppender(notes.uri, SPEC), TableAppender._write

    def late(self: TableAppender, handle: DeltaTable, data: object, batch: Batch | None) -> None:
        if self is notes:
            write(other, other_handle, data, batch)
        write(self, handle, data, batch)

    other_handle = DeltaTable(notes.uri.removeprefix("file:"))
    monkeypatch.setattr(TableAppender, "_write", late)
    assert not notes.append([note(2)], Batch("w", 1))
    assert times(notes) == [1, 2]


def test_rows_are_appended_while_another_process_adds_columns(
    notes: TableAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or creates the table a second time, which deltalake does if two processes create it at the same moment."""
    notes.append([note(1)])
    write, added = TableAppender._write, list[Field]()

    def late(self: TableAppender, handle: DeltaTable, data: object, batch: Batch | None) -> None:
        if not added:
            added.append(Field("more", PrimitiveType("long")))
            DeltaTable(notes.uri.removeprefix("file:")).alter.add_columns(added)
        write(self, handle, data, batch)

    monkeypatch.setattr(TableAppender, "_write", late)
    assert notes.append([note(2)], Batch("w", 1))
    assert times(notes) == [1, 2]


def test_a_table_that_others_change_again_and_again_is_given_up(
    notes: TableAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(*_args: object) -> None:
        tried.append(1)
        raise TableConflict(notes.uri, "busy")

    monkeypatch.setattr(TableAppender, "_write", refused)
    with pytest.raises(TableConflict, match="busy"):
        notes.append([note(1)])
    assert len(tried) == TRIES


def test_a_column_that_a_table_lacks_is_added(notes: TableAppender) -> None:
    less = TableSpec(**{name: getattr(SPEC, name) for name in SPEC.__struct_fields__} | {"columns": SPEC.columns[:3]})
    TableAppender(notes.uri, less).append([note(1)])
    notes.append([note(2)])
    (rows,) = [rows.to_pylist() for rows in read(Table(notes.uri, SPEC))]
    assert [row["count"] for row in rows] == [None, 2]


def test_past_days_become_one_file_old_ones_go_and_their_files_are_deleted_later(notes: TableAppender) -> None:
    for day in range(3):
        for at_ms in (1, 2):
            notes.append([note(day * DAY_MS + at_ms)])
    notes.tidy(2 * DAY_MS + 5, 1)
    assert files(notes) == {"1970-01-02": 1, "1970-01-03": 2}
    assert times(notes) == [DAY_MS + 1, DAY_MS + 2, 2 * DAY_MS + 1, 2 * DAY_MS + 2]
    folder = Path(notes.uri.removeprefix("file:"))
    assert len(list(folder.rglob("day=*/*.parquet"))) == 7
    pass_time(Table(notes.uri, SPEC), 4000)
    notes.tidy(2 * DAY_MS + 6)
    assert len(list(folder.rglob("day=*/*.parquet"))) == 3
    notes.tidy(2 * DAY_MS + 7)
    assert len(times(notes)) == 4


def test_a_clock_that_is_wrong_takes_out_nothing(notes: TableAppender) -> None:
    for day in (0, 1, 400):
        notes.append([note(day * DAY_MS)])
    notes.tidy(400 * DAY_MS, 30 * DAY_MS)
    assert times(notes) == [0, DAY_MS, 400 * DAY_MS]


def test_tidying_beside_another_process_loses_and_doubles_nothing(
    notes: TableAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_ms in (1, 2, 3):
        notes.append([note(at_ms)])
    compact = TableAppender._fold

    def overtaken(self: TableAppender, now: str) -> None:
        monkeypatch.setattr("engine.jobs.tables.appender.opened", lambda _uri, _spec: handle)
        compact(self, now)

    handle = DeltaTable(notes.uri.removeprefix("file:"))
    assert fold(Table(notes.uri, SPEC), DAY_MS) == (1, 0)
    monkeypatch.setattr(TableAppender, "_fold", overtaken)
    notes.tidy(DAY_MS)
    assert (times(notes), files(notes)) == ([1, 2, 3], {"1970-01-01": 1})
