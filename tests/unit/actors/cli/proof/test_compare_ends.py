"""The output and exit codes of `raymirror compare-ends`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.main import main
from actors.cli.proof import compare_ends
from engine.core.position.end_offsets import EndsRow, EndsVerdict

ROW = EndsRow(
    topic="t",
    partition=0,
    target_topic="A.t",
    source_start=0,
    source_end=1000,
    target_start=0,
    target_end=1001,
    copied=1000,
    markers=1,
    verdict=EndsVerdict.EXPLAINED,
    why="1 marker",
)


@pytest.fixture
def config(tmp_path: Path) -> str:
    text = (
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\nA->B.topics = .*\n"
    )
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    return str(path)


def answers(monkeypatch: pytest.MonkeyPatch, *rows: EndsRow) -> list[Any]:
    asked: list[Any] = []

    async def compare(_config: object, flow: Any, topics: object) -> list[EndsRow]:
        asked.append((str(flow.name), topics))
        return list(rows)

    monkeypatch.setattr(compare_ends, "compare_ends_of", compare)
    return asked


def test_it_says_what_the_difference_is_made_of(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answers(monkeypatch, ROW)
    assert main(["compare-ends", config]) == exits.OK
    out = capsys.readouterr().out
    assert out.startswith("A->B: 1 partition: 1 explained\n")
    for word in ("t-0", "A.t", "1000", "1001", "explained", "1 marker"):
        assert word in out
    assert asked == [("A->B", frozenset())]


def test_what_is_not_explained_comes_first_and_fails(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = msgspec.structs.replace(ROW, partition=1, strangers=2, verdict=EndsVerdict.UNEXPLAINED, why="2 records")
    nowhere = msgspec.structs.replace(ROW, partition=2, target_end=-1, verdict=EndsVerdict.UNKNOWN, why="no copy")
    answers(monkeypatch, ROW, bad, nowhere)
    assert main(["compare-ends", config, "A->B"]) == exits.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A->B: 3 partitions: 1 explained, 1 not explained, 1 unknown"
    assert [line.split()[0] for line in lines[2:]] == ["t-1", "t-2", "t-0"]


def test_json_has_every_part(config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = answers(monkeypatch, ROW)
    assert main(["compare-ends", config, "--topic", "t", "--json"]) == exits.OK
    (flow,) = json.loads(capsys.readouterr().out)["flows"]
    (row,) = flow["partitions"]
    assert (flow["flow"], row["verdict"], row["markers"], row["fine"]) == ("A->B", "explained", 1, True)
    assert asked == [("A->B", frozenset({"t"}))]


def test_a_topic_that_nobody_copies_is_bad_input(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, ROW)
    assert main(["compare-ends", config, "--topic", "T"]) == exits.UNUSABLE
    assert "copies T" in capsys.readouterr().err


def test_a_long_table_ends_with_how_to_see_all(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, *(msgspec.structs.replace(ROW, partition=number) for number in range(203)))
    assert main(["compare-ends", config]) == exits.OK
    assert "and 3 more; --json prints all" in capsys.readouterr().out
