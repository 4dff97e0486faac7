"""One query, answered by DuckDB: its rows, what it may not do, and its errors in one line."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from engine.jobs.sql.query import SqlFailed, SqlSession, sql_session


@pytest.fixture
def session() -> Iterator[SqlSession]:
    with sql_session() as opened:
        opened.register("t", pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]}))
        yield opened


def rows(session: SqlSession, query: str) -> list[tuple[object, ...]]:
    return list(session.ask(query).rows())


def test_rows_come_with_their_columns_and_equal_names_are_numbered(session: SqlSession) -> None:
    answer = session.ask("SELECT a, b, a, 1 AS a FROM t WHERE b = 'x' ORDER BY a")
    assert answer.columns == ("a", "b", "a_2", "a_3")
    assert list(answer.rows()) == [(1, "x", 1, 1), (3, "x", 3, 1)]
    assert list(answer.rows()) == [], "rows are read once"


def test_a_defined_table_is_read_as_any_other(session: SqlSession) -> None:
    session.define("newest", "SELECT max(a) AS a, b FROM t GROUP BY b")
    assert sorted(rows(session, "SELECT * FROM newest")) == [(2, "y"), (3, "x")]
    with pytest.raises(SqlFailed, match="syntax error"):
        session.define("wrong", "SELEC")


@pytest.mark.parametrize(
    "query", ["DESCRIBE t", "SHOW TABLES", "SUMMARIZE t", "FROM t", "VALUES (1)", "EXPLAIN FROM t"]
)
def test_everything_that_only_reads_may_be_asked(session: SqlSession, query: str) -> None:
    assert rows(session, query)


def test_a_pivot_needs_the_names_of_its_values(session: SqlSession) -> None:
    assert rows(session, "PIVOT t ON b IN ('x', 'y') USING sum(a)") == [(4, 2)]
    with pytest.raises(SqlFailed, match="PIVOT unless its values are named"):
        session.ask("PIVOT t ON b USING sum(a)")


def test_the_disk_is_never_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=4_000_000))
    with sql_session({"memory_limit": "60MB", "threads": "1"}) as session:
        query = "SELECT i, hash(i) AS h, hash(i + 1) AS g FROM range(3_000_000) r(i) ORDER BY h"
        with pytest.raises(SqlFailed, match="max_temp_directory_size"):
            rows(session, query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ; ",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO t VALUES (1, 'x')",
        "SET memory_limit = '1TB'",
        "COPY t TO '/tmp/t.csv'",
        "ATTACH '/tmp/x.db'",
        "INSTALL delta",
        "LOAD delta",
        "EXPORT DATABASE '/tmp/x'",
    ],
)
def test_what_does_more_than_read_is_refused(session: SqlSession, query: str) -> None:
    with pytest.raises(SqlFailed, match="not one statement that reads; give one SELECT, DESCRIBE or EXPLAIN"):
        session.ask(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM glob('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM delta_scan('{file}')",
        "SELECT * FROM read_csv('https://localhost/x.csv')",
    ],
)
def test_no_file_and_no_network_is_read(session: SqlSession, tmp_path: Path, query: str) -> None:
    file = tmp_path / "x.csv"
    file.write_text("secret\n")
    with pytest.raises(SqlFailed) as failed:
        rows(session, query.format(file=file))
    assert "\n" not in str(failed.value)
    assert "INSTALL" not in str(failed.value), "an extension cannot be had here"


def test_no_variable_of_this_process_is_read(session: SqlSession) -> None:
    secret = pa.table({"password": ["x"]})
    with pytest.raises(SqlFailed, match="secret does not exist"):
        session.ask("SELECT * FROM secret")
    assert secret.num_rows == 1


def test_errors_are_one_line_with_the_reason(session: SqlSession) -> None:
    for query, told in {
        "SELEC 1": 'Parser Error: syntax error at or near "SELEC"',
        "SELECT nope FROM t": 'Referenced column "nope" not found in FROM clause! Candidate bindings: "a"',
        "SELECT 1 FROM t WHERE no": "; raymirror sql lists the tables and columns",
        "SELECT * FROM nope": "raymirror sql lists the tables and columns",
    }.items():
        with pytest.raises(SqlFailed) as failed:
            session.ask(query)
        assert told in str(failed.value)
        assert "\n" not in str(failed.value)


def test_an_error_behind_the_first_rows_is_told_too(session: SqlSession) -> None:
    query = "SELECT CASE WHEN i = 1_000_000 THEN error('boom') ELSE repeat('fine', 20) END FROM range(1_000_001) r(i)"
    found = session.ask(query).rows()
    assert next(found) == ("fine" * 20,)
    with pytest.raises(SqlFailed, match="boom"):
        list(found)


def test_what_does_not_fit_in_memory_goes_to_the_disk_and_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with sql_session({"memory_limit": "60MB", "threads": "1"}) as session:
        answer = session.ask("SELECT i, hash(i) AS h, hash(i + 1) AS g FROM range(3_000_000) r(i) ORDER BY h")
        assert len({row[0] for row, _ in zip(answer.rows(), range(10), strict=False)}) == 10
        (folder,) = tmp_path.iterdir()
        assert list(folder.iterdir())
    assert not list(tmp_path.iterdir())


def test_times_are_those_of_the_tables(session: SqlSession) -> None:
    query = "SELECT epoch_ms(1_700_000_000_000)::VARCHAR, epoch_ms(TIMESTAMPTZ '2023-11-14 22:13:20Z')"
    assert rows(session, query) == [("2023-11-14 22:13:20", 1_700_000_000_000)]
    assert rows(session, "SELECT epoch_ms(now() - INTERVAL 1 MONTH) < epoch_ms(now())") == [(True,)]
