"""`raymirror tables`: the list, as people and scripts read it, and the conversion of old stores."""

import json
from pathlib import Path

import pytest

from actors.cli import main
from engine.jobs.lag.history import History
from tests.unit.engine.jobs.old_windows import add_old
from tests.unit.engine.jobs.windows_tables import BASE_MS, WINDOW_MS, add, read, row


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A storage with two windows, and no mirror that runs."""
    folder = tmp_path / "storage"
    add(History(f"file:{folder}/tables/lag"), "g-0", [row(1), row(2)])
    return folder


def test_tables_are_listed_with_rows_files_and_the_newest_row(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["tables", "--storage", f"file:{storage}"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["table", "rows", "files", "size", "newest", "row"]
    assert line.split()[:3] == ["lag", "2", "1"]


def test_tables_as_json(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_old(storage / "history" / "lag" / "A" / "B", "g-0", [row(5)])
    assert main.main(["tables", "--storage", f"file:{storage}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["storage"] == f"file:{storage}"
    (line,) = told["tables"]
    assert (line["name"], line["rows"], line["newest_ms"]) == ("lag", 2, BASE_MS + 2 * WINDOW_MS)
    assert told["unconverted"] == [{"what": "the history of lag", "place": f"file:{storage}/history/lag/A/B"}]


def test_an_old_store_is_named_with_its_command_and_converted_once(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_old(storage / "history" / "lag" / "A" / "B", "g-0", [row(5)])
    place = ["--storage", f"file:{storage}"]
    waits = f"raymirror tables convert --storage file:{storage}"
    assert main.main(["tables", *place]) == 0
    assert waits in capsys.readouterr().out
    assert main.main(["lag", "--history", *place]) == 0
    assert waits in capsys.readouterr().err
    assert main.main(["tables", "convert", *place]) == 0
    assert (
        f"{storage}/history/lag/A/B: 1 row added to table lag; this folder may be deleted once"
        in capsys.readouterr().out
    )
    assert main.main(["tables", "convert", *place]) == 0
    assert "nothing to convert" in capsys.readouterr().out
    assert main.main(["tables", "convert", *place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["converted"] == []
    assert main.main(["lag", "--history", *place]) == 0
    assert waits not in capsys.readouterr().err
    assert read(History(f"file:{storage}/tables/lag")) == [(1, 0, 6), (2, 0, 6), (5, 0, 6)]


def test_a_conversion_as_json(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_old(storage / "history" / "lag" / "A" / "B", "g-0", [row(5)])
    assert main.main(["tables", "convert", "--storage", f"file:{storage}", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["converted"]
    assert (done["table"], done["rows"]) == ("lag", 1)


def test_a_damaged_old_store_is_named_at_the_end_and_the_others_are_converted(
    storage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_old(storage / "history" / "lag" / "A" / "B", "g-0", [row(5)])
    add_old(storage / "history" / "lag" / "A" / "C", "g-0", [row(6)])
    (storage / "history" / "lag" / "A" / "B" / "commits" / "g-1.json").write_text("{")
    words = ["tables", "convert", "--storage", f"file:{storage}"]
    assert main.main(words) == 2
    out, err = capsys.readouterr()
    assert f"{storage}/history/lag/A/C: 1 row added" in out
    assert f"raymirror tables: file:{storage}/history/lag/A/B is not converted: " in err
    assert main.main([*words, "--json"]) == 2
    (failed,) = json.loads(capsys.readouterr().out)["failed"]
    assert failed["place"] == f"file:{storage}/history/lag/A/B"
    (storage / "history" / "lag" / "A" / "B" / "commits" / "g-1.json").unlink()
    (path,) = (storage / "history" / "lag" / "A" / "B" / "data").rglob("*.parquet")
    path.unlink()
    assert main.main(words) == 0
    assert "0 rows added to table lag; left out because they are gone: 1 file;" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "no tables found (no --storage, no --config, and no mirror runs on this machine)"),
        (["--storage", "file:/nowhere/at/all"], 0, "file:/nowhere/at/all has no tables yet"),
        (["--storage", "nonsense"], 2, "does not say what kind of storage"),
    ],
)
def test_where_there_is_none_it_says_so(
    storage: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["tables", *words]) == code
    assert said in "".join(capsys.readouterr())


def test_a_damaged_table_is_one_line_and_exit_code_2(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (storage / "tables" / "lag" / "_delta_log" / f"{1:020}.json").write_text("{")
    for words in (["tables"], ["tables", "convert"], ["lag", "--history"], ["report"]):
        if words == ["tables", "convert"]:
            add_old(storage / "history" / "lag" / "A" / "B", "g-0", [row(5)])
        assert main.main([*words, "--storage", f"file:{storage}"]) == 2
        assert "tables/lag: the table is damaged" in capsys.readouterr().err.splitlines()[-1]
