"""The tables as queries see them: only files that count, every window once, and nothing that does not exist."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from engine.base.errors import NewerFormat
from engine.jobs.sql.query import SqlSession, sql_session
from engine.jobs.sql.views import add_tables
from engine.jobs.tables.care import fold
from engine.jobs.tables.catalog import LAG, TABLES
from engine.jobs.tables.errors import TableDamaged
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.sql.stored import HOUR_MS, WINDOW_MS, StoredTables

NOW_MS = 500_000 * HOUR_MS


def most_complete(rows: pa.Table) -> pa.Table:
    """Keep the row with the most samples of each window of one partition."""
    ranked = rows.sort_by([("window_start_ms", "ascending"), ("samples", "descending")])
    starts = ranked.column("window_start_ms").to_pylist()
    return ranked.filter(pa.array([one != before for one, before in zip(starts, [None, *starts], strict=False)]))


@pytest.fixture
def stored(tmp_path: Path) -> StoredTables:
    return StoredTables(tmp_path / "store", NOW_MS)


@contextmanager
def opened(stored: StoredTables, *, exists: bool = True) -> Iterator[SqlSession]:
    with sql_session() as session:
        assert add_tables(session, stored.storage) is exists
        yield session


def rows(stored: StoredTables, query: str) -> list[tuple[object, ...]]:
    with opened(stored) as session:
        return list(session.ask(query).rows())


def test_tables_that_do_not_exist_are_empty_and_have_their_columns(stored: StoredTables) -> None:
    with opened(stored, exists=False) as session:
        for spec in TABLES:
            answer = session.ask(f"SELECT * FROM {spec.name}")
            assert answer.columns == tuple(column.name for column in spec.columns)
            assert list(answer.rows()) == []


def test_every_table_is_read_by_its_name(stored: StoredTables) -> None:
    stored.fill()
    for spec, count in zip(TABLES, (4, 3, 9, 1, 1, 3, 2), strict=True):
        assert rows(stored, f"SELECT count(*) FROM {spec.name}") == [(count,)]
        columns = [name for name, *_ in rows(stored, f"DESCRIBE {spec.name}")]
        assert columns == [column.name for column in spec.columns]


def test_a_window_counts_once_before_and_after_its_files_are_folded(stored: StoredTables) -> None:
    for samples in (2, 6, 4):
        stored.lag(*(stored.window(n * WINDOW_MS, samples=samples, records=samples) for n in range(1, 4)))
    stored.lag(stored.window(5 * HOUR_MS, samples=1, records=1))
    query = "SELECT count(*), sum(records), min(samples) FROM lag"
    assert rows(stored, query) == [(4, 19, 1)]
    newest = f"SELECT window_start_ms, records FROM lag WHERE window_start_ms > {NOW_MS - 3 * WINDOW_MS} ORDER BY 1"
    assert rows(stored, newest) == [(NOW_MS - 2 * WINDOW_MS, 6), (NOW_MS - WINDOW_MS, 6)]
    fold(Table(stored.storage.path("tables", LAG.name), LAG), NOW_MS + HOUR_MS, most_complete)
    assert rows(stored, query) == [(4, 19, 1)]


def test_a_condition_on_any_column_finds_rows(stored: StoredTables) -> None:
    """A file's statistics name only some columns; what they do not name may have any value."""
    stored.fill()
    assert rows(
        stored, "SELECT count(*) FROM lag WHERE topic = 'orders' AND records > 5 AND latency_mean_ms < 100"
    ) == [(3,)]
    assert rows(stored, "SELECT count(*) FROM lag WHERE lag_records IS NULL AND stall_reason <> 'x'") == [(4,)]
    assert rows(stored, "SELECT count(*) FROM audit WHERE outcome = 'failed' AND who LIKE 'ann%'") == [(2,)]
    assert rows(stored, "SELECT run FROM proof_lanes WHERE verdict = 'differs'") == [("p2",)]


def test_a_query_of_one_day_reads_the_files_of_that_day_only(stored: StoredTables) -> None:
    stored.fill()
    folder = stored.storage.folder("tables", "lag")
    assert folder is not None
    (old,) = [path for path in folder.glob("hour=*") if path.name < f"hour={LAG.partition_of(NOW_MS - 5 * HOUR_MS)}"]
    for path in old.iterdir():
        path.unlink()
    later = f"window_start_ms >= {NOW_MS - 5 * HOUR_MS}"
    assert rows(stored, f"SELECT count(*) FROM lag WHERE {later}") == [(2,)]


def test_a_table_that_cannot_be_used_is_told(stored: StoredTables) -> None:
    stored.audit(0)
    folder = stored.storage.folder("tables", "audit")
    assert folder is not None
    log = folder / "_delta_log" / "00000000000000000000.json"
    text = log.read_text()
    log.write_text(text.replace('"raymirror.format":"1"', '"raymirror.format":"9"'))
    with sql_session() as session, pytest.raises(NewerFormat):
        add_tables(session, stored.storage)
    log.write_text("no log")
    with sql_session() as session, pytest.raises(TableDamaged, match="tables/audit"):
        add_tables(session, stored.storage)
