"""`raymirror drift`: what it shows of the tables, and its exit codes."""

import asyncio
import json
from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.common import exits
from engine.base.clock import wall_ms
from engine.config.storage import Storage
from engine.flow.config_history.keeper import HistoryBatch
from engine.flow.config_history.look import Values
from engine.flow.config_history.values import WriteTried
from engine.jobs.config_history.store import HistoryTables
from tests.unit.engine.flow.config_history.rounds import Days

KEY = "retention.ms"
HOUR_MS = 3_600_000


class Kept:
    """A storage with the history of one flow; each round is an hour later than the one before."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.tables, self.days, self.number = HistoryTables(Storage.of_folder(folder)), Days(), 0
        self.uri = Storage.of_folder(folder).uri
        self.days.at_ms = wall_ms() - rounds * HOUR_MS

    def saw(
        self,
        source: dict[str, Values],
        copies: dict[str, Values],
        *,
        tried: dict[tuple[str, str], WriteTried] | None = None,
    ) -> None:
        step = self.days.round(source, copies, tried or {})
        self.days.at_ms += HOUR_MS - 1_000
        asyncio.run(self.tables.write(HistoryBatch("w", self.number, step.rows)))
        self.number += 1


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """A history without drift, and no mirror that runs."""
    made = Kept(tmp_path / "storage", rounds=10)
    made.saw({"orders": {KEY: "5"}, "clicks": {}}, {"orders": {KEY: "5"}, "clicks": {}})
    return made


def drifted(kept: Kept) -> None:
    """Somebody changes two copies; one config is set right."""
    tried = {("orders", KEY): WriteTried("5")}
    kept.saw({"orders": {KEY: "5"}, "clicks": {}}, {"orders": {KEY: "9"}, "clicks": {KEY: "1"}}, tried=tried)


def test_no_drift_says_up_to_when_that_is_known(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["drift", "--storage", kept.uri]) == exits.OK
    assert capsys.readouterr().out.startswith("no drift; last compared: A->B at 20")
    assert main.main(["drift", "--storage", kept.uri, "--json"]) == exits.OK
    assert capsys.readouterr().out == ""


def test_drift_is_shown_with_what_became_of_it(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    drifted(kept)
    assert main.main(["drift", "--storage", kept.uri]) == exits.FAILED
    head, one, two, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["when", "flow", "topic", "config", "expected", "found", "by", "set", "right"]
    assert one.split()[1:8] == ["A->B", "A.clicks", KEY, "(not", "set)", "1", "unknown"]
    assert one.rstrip().endswith("no, left: the source topic does not set it")
    assert two.split()[1:9] == ["A->B", "A.orders", KEY, "5", "9", "unknown", "set", "right"]
    assert last.startswith("2 changed configs of copies, 1 not set right; last compared: ")
    assert main.main(["drift", "--storage", kept.uri, "--topic", "A.ord.*"]) == exits.OK
    assert main.main(["drift", "--storage", kept.uri, "--topic", "orders, clicks"]) == exits.FAILED
    kept.saw({"orders": {KEY: "5"}, "clicks": {}}, {"orders": {KEY: "5"}, "clicks": {}})
    assert main.main(["drift", "A->B", "--storage", kept.uri]) == exits.OK
    assert "ended: equal again 20" in capsys.readouterr().out


def test_drift_as_json(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    drifted(kept)
    assert main.main(["drift", "--storage", kept.uri, "--json"]) == exits.FAILED
    left, right = map(json.loads, capsys.readouterr().out.splitlines())
    assert (left["target"], left["expected"], left["found"], left["outcome"]) == ("A.clicks", None, "1", "left")
    assert (left["stands"], left["settled_ms"], left["who"]) == (True, None, "unknown")
    assert (right["target"], right["expected"], right["found"], right["outcome"]) == ("A.orders", "5", "9", "set_right")
    assert right["after_ms"] < right["seen_ms"] < right["settled_ms"]


def test_what_is_older_is_shown_only_while_it_stands(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    drifted(kept)
    assert main.main(["drift", "--storage", kept.uri, "--since", "1h"]) == exits.FAILED
    out = capsys.readouterr().out
    assert "A.clicks" in out
    assert "A.orders" not in out


def test_the_configuration_names_the_storage(kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        f"raymirror.storage = {kept.uri}\n"
    )
    assert main.main(["drift", "--config", str(file)]) == exits.OK
    assert "no drift" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--flow", "X->Y"], "has none of 'X->Y'; it has A->B"),
        (["--since", "soon"], "'soon' is no point in time"),
        (["--topic", "("], "--topic: pattern '('"),
        (["--storage", "nowhere"], "nowhere"),
    ],
)
def test_a_bad_question_is_answered_in_one_line(
    kept: Kept, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["drift", "--storage", kept.uri, *words]) == exits.UNUSABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_without_a_history_there_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["drift", "--storage", f"file:{tmp_path}"]) == exits.UNUSABLE
    assert "no history of configs found" in capsys.readouterr().err
