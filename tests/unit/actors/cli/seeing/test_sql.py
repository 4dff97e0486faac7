"""`raymirror sql`: where it finds the tables, its forms of output, its errors and exit codes."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.api.commands.pages import SqlPage
from actors.cli import main
from actors.cli.common import exits
from actors.cli.seeing import sql
from actors.cli.seeing.sql_output import RemoteRows
from engine.jobs.tables.catalog import TABLES
from tests.unit.engine.config_files import BASE
from tests.unit.engine.jobs.sql.stored import HOUR_MS, StoredTables

COUNT = "SELECT count(*) AS rows, max(target) AS target FROM audit"


TYPES = """
SELECT at_ms, target, epoch_ms(at_ms) AS at, DATE '2026-01-02' AS day, TIME '10:00' AS noon,
    1.50::DECIMAL(5, 2) AS price, INTERVAL 90 MINUTE AS span, 'x'::BLOB AS data, [1, 2] AS numbers, {'a': 1} AS pair,
    1.25 AS share, NULL AS none, true AS yes
FROM audit ORDER BY at_ms
"""
REFUSED = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "FROM duckdb_secrets()",
    "SELECT getenv('HOME')",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPLAIN SELECT 1",
    "ATTACH '{folder}/out.db' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CREATE TABLE t AS SELECT 1",
    "INSERT INTO audit SELECT * FROM audit",
    "DELETE FROM audit",
    "DROP VIEW audit",
    "EXPORT DATABASE '{folder}/out'",
    "CALL enable_logging()",
    "SELECT 1; SELECT 2",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{folder}/out.csv''')",
    "SELEC 1",
)


@pytest.fixture
def stored(tmp_path: Path) -> StoredTables:
    """Two rows of the audit trail, and no mirror that runs."""
    made = StoredTables(tmp_path / "store", 500_000 * HOUR_MS)
    made.audit(0)
    made.audit(HOUR_MS, target="A.other")
    return made


def config_of(stored: StoredTables) -> str:
    folder = stored.storage.folder("tables")
    assert folder is not None
    path = folder.parent.with_name("mm2.properties")
    path.write_text(f"{BASE}raymirror.storage = {stored.storage.uri}\n")
    return str(path)


def test_a_query_is_answered_for_people_and_for_scripts(
    stored: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--storage", stored.storage.uri]
    assert main.main(["sql", COUNT, *place]) == exits.OK
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["rows", "target"], ["2", "A.other"]]
    assert main.main(["sql", COUNT, "--json", *place]) == exits.OK
    assert json.loads(capsys.readouterr().out) == {"rows": 2, "target": "A.other"}
    assert main.main(["sql", COUNT, "--csv", "--config", config_of(stored)]) == exits.OK
    assert capsys.readouterr().out == "rows,target\n2,A.other\n"
    assert main.main(["sql", "FROM audit", "--rows", "1", *place]) == exits.OK
    assert "there are more than 1 row:" in capsys.readouterr().out


def test_without_a_query_it_lists_tables_and_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["sql"]) == exits.OK
    told = capsys.readouterr().out
    for spec in TABLES:
        assert f"{spec.name}: {spec.meaning}" in told
        assert all(column.name in told for column in spec.columns)
    assert "Unix ms" in told
    assert main.main(["sql", "--json"]) == exits.OK
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == sum(len(spec.columns) for spec in TABLES)
    (began,) = [row for row in rows if (row["table"], row["column"]) == ("audit", "at_ms")]
    assert (began["type"], began["unit"]) == ("long", "Unix ms")
    assert main.main(["sql", "--csv"]) == exits.OK
    assert capsys.readouterr().out.startswith("table,column,type,unit,means\nlag,hour,text,,")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELEC 1", 'raymirror sql: Parser Error: syntax error at or near "SELEC"\n'),
        ("SELECT nope FROM audit", "raymirror sql lists the tables and columns\n"),
        ("DROP TABLE audit", "raymirror sql: this is not one statement that reads; give one SELECT"),
    ],
)
def test_a_wrong_query_is_one_line_and_bad_input(
    stored: StoredTables, capsys: pytest.CaptureFixture[str], query: str, told: str
) -> None:
    assert main.main(["sql", query, "--storage", stored.storage.uri]) == exits.UNUSABLE
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_no_tables_are_told_with_the_place(
    stored: StoredTables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["sql", COUNT]) == exits.UNUSABLE
    assert "no mirror runs on this machine" in capsys.readouterr().err
    assert main.main(["sql", COUNT, "--storage", f"file:{tmp_path}/other"]) == exits.UNUSABLE
    told = capsys.readouterr().err
    assert f"no tables found (file:{tmp_path}/other has none)" in told
    assert "--config FILE or --storage URI" in told
    assert main.main(["sql", COUNT, "--storage", "ftp://x"]) == exits.UNUSABLE
    assert "raymirror.storage: storage of kind 'ftp' is not supported" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--rows", "-1"], ["--rows", "x"], ["--json", "--csv"]])
def test_words_that_do_not_fit_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["sql", COUNT, *words])
    assert ended.value.code == exits.UNUSABLE


def test_a_reader_of_the_pipe_that_ends_early_is_no_bug(
    stored: StoredTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return output.fileno()

    with (tmp_path / "out").open("w") as output:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert main.main(["sql", "FROM audit", "--csv", "--storage", stored.storage.uri]) == main.UNREAD


@pytest.mark.parametrize("query", REFUSED)
def test_a_page_is_of_one_select_over_the_tables_and_of_nothing_else(
    stored: StoredTables, tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    words = ["sql", "--page", "--storage", stored.storage.uri, "--", query.format(folder=tmp_path)]
    assert main.main(words) == exits.UNUSABLE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("raymirror sql: ")
    assert "root:" not in told.err
    assert list(tmp_path.glob("out*")) == []


def page(stored: StoredTables, capsys: pytest.CaptureFixture[str], query: str, *more: str) -> dict[str, Any]:
    assert main.main(["sql", "--page", "--storage", stored.storage.uri, *more, "--", query]) == exits.OK
    return dict(json.loads(capsys.readouterr().out))


def test_a_page_has_types_rows_and_says_if_there_are_more(
    stored: StoredTables, capsys: pytest.CaptureFixture[str]
) -> None:
    found = page(stored, capsys, "SELECT range AS n, NULL AS none FROM range(5)", "--rows", "2")
    assert found == {
        "columns": [{"name": "n", "type": "BIGINT"}, {"name": "none", "type": '"NULL"'}],
        "rows": [[0, None], [1, None]],
        "more": True,
    }
    assert page(stored, capsys, "SELECT 1 AS n WHERE false")["rows"] == []
    assert page(stored, capsys, "-- why\nSELECT 1 AS n")["rows"] == [[1]]
    assert page(stored, capsys, "FROM audit", "--rows", "2")["more"] is False
    assert page(stored, capsys, "DESCRIBE audit")["rows"]


def test_no_rows_are_the_columns_alone(stored: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    found = page(stored, capsys, "SELECT range AS n FROM range(5)", "--rows", "0")
    assert found == {"columns": [{"name": "n", "type": "BIGINT"}], "rows": [], "more": True}
    assert page(stored, capsys, "SELECT 1 AS n WHERE false", "--rows", "0")["more"] is False
    place = ["--storage", stored.storage.uri, "--rows", "0"]
    assert main.main(["sql", "SELECT range AS n FROM range(5)", *place]) == exits.OK
    assert "there are more than 0 rows" in capsys.readouterr().out
    assert main.main(["sql", "SELECT range AS n FROM range(5)", "--csv", *place]) == exits.OK
    assert capsys.readouterr().out == "n\n"


def test_a_page_has_so_many_bytes(stored: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    found = page(stored, capsys, "SELECT repeat('x', 1000000) FROM range(100)")
    assert (len(found["rows"]), found["more"]) == (8, True)
    place = ["--storage", stored.storage.uri]
    assert main.main(["sql", "--page", "SELECT repeat('x', 10000000)", *place]) == exits.UNUSABLE
    assert capsys.readouterr().err == "raymirror sql: row 1 has more than 8 MiB; select less of it\n"


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)])
def test_rows_that_came_over_http_print_as_those_of_here(
    stored: StoredTables, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    args = main.build_parser("sql").parse_args(["sql", TYPES, "--storage", stored.storage.uri, *form])
    assert sql.run(args) == exits.OK
    here = capsys.readouterr().out
    answer = msgspec.convert({**page(stored, capsys, TYPES), "took_seconds": 1.0}, SqlPage)
    sql._print(args, RemoteRows(answer))
    assert capsys.readouterr().out == here


def test_rows_that_were_cut_off_over_http_are_told(stored: StoredTables, capsys: pytest.CaptureFixture[str]) -> None:
    found = page(stored, capsys, "SELECT * FROM range(5)", "--rows", "2")
    rows = RemoteRows(msgspec.convert({**found, "took_seconds": 1.0}, SqlPage))
    sql._print(main.build_parser("sql").parse_args(["sql", "q", "--rows", "2"]), rows)
    assert "there are more than 2 rows" in capsys.readouterr().out
    sql._print(main.build_parser("sql").parse_args(["sql", "q", "--csv"]), rows)
    told = capsys.readouterr()
    assert told.out == "range\n0\n1\n"
    assert "these are the first 2 rows" in told.err
