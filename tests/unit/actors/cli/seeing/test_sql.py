"""`raymirror sql`: where it finds the tables, its forms of output, its errors and exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.common import exits
from engine.jobs.tables.catalog import TABLES
from tests.unit.engine.config_files import BASE
from tests.unit.engine.jobs.sql.stored import HOUR_MS, StoredTables

COUNT = "SELECT count(*) AS rows, max(target) AS target FROM audit"


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


@pytest.mark.parametrize("words", [["--rows", "0"], ["--rows", "x"], ["--json", "--csv"]])
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
