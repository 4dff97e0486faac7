"""Reading logs: merged by time, followed through rotation, found without a running mirror."""

import json
import os
import threading
from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.seeing import logs as command
from actors.local import session
from actors.local.session import NoMirror, SeveralMirrors
from actors.logging.log_files import FoundLogs, LineFilter, LogLine, LogReader, find_logs, line_text
from tests.unit.actors.local.test_session import state


def line(second: int, text: str = "x", *, role: str = "r", **more: object) -> str:
    return (
        json.dumps(
            {"time": f"2027-01-15T08:00:{second:02}.000+00:00", "level": "info", "role": role, "text": text, **more}
        )
        + "\n"
    )


def texts(lines: list[LogLine]) -> list[str]:
    return [one.text for one in lines]


def test_files_are_merged_by_time(tmp_path: Path) -> None:
    (tmp_path / "a.1.jsonl").write_text(line(1, "one") + line(4, "four"))
    (tmp_path / "b.2.jsonl").write_text(line(3, "three"))
    (tmp_path / "b.2.jsonl.1").write_text(line(2, "two"))
    (tmp_path / "notes.txt").write_text(line(2, "not ours"))
    assert texts(LogReader(tmp_path).read()) == ["one", "two", "three", "four"]


def test_what_is_no_line_is_passed_over_and_a_half_one_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.1.jsonl"
    path.write_text("{broken\n" + line(1, "one") + line(2, "two")[:20])
    reader = LogReader(tmp_path)
    assert texts(reader.read()) == ["one"]
    path.write_text("{broken\n" + line(1, "one") + line(2, "two"))
    assert texts(reader.read()) == ["two"]
    assert reader.read() == []


def test_following_loses_and_repeats_nothing_through_rotation(tmp_path: Path) -> None:
    path = tmp_path / "a.1.jsonl"
    path.write_text(line(1, "one"))
    reader = LogReader(tmp_path)
    assert texts(reader.read()) == ["one"]
    with path.open("a") as file:
        file.write(line(2, "two"))
    path.rename(tmp_path / "a.1.jsonl.1")
    path.write_text(line(3, "three"))
    (tmp_path / "b.2.jsonl").write_text(line(4, "four"))
    assert texts(reader.read()) == ["two", "three", "four"]
    assert reader.read() == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (LineFilter(), [0, 1, 2]),
        (LineFilter(flow="A->B"), [1, 2]),
        (LineFilter(level="warning"), [2]),
        (LineFilter(since="2027-01-15T08:00:01.000+00:00"), [1, 2]),
    ],
)
def test_lines_are_picked_by_flow_level_and_time(wanted: LineFilter, found: list[int]) -> None:
    lines = [
        LogLine(time="2027-01-15T08:00:00.000+00:00", level="info", role="r", text="0"),
        LogLine(time="2027-01-15T08:00:01.000+00:00", level="info", role="r", text="1", flow="A->B"),
        LogLine(time="2027-01-15T08:00:02.000+00:00", level="panic", role="r", text="2", flow="A->B"),
    ]
    assert [int(one.text) for one in lines if wanted.accepts(one)] == found


def test_logs_are_found_by_name_or_where_there_is_only_one(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with pytest.raises(NoMirror, match="no logs"):
        find_logs(None, env)
    top = tmp_path / "raymirror" / "logs"
    (top / "raymirror-one").mkdir(parents=True)
    for name in ("one", "raymirror-one"):
        assert find_logs(name, env) == FoundLogs(folder=top / "raymirror-one")
    only = find_logs(None, env)
    assert (only.folder, only.note) == (
        top / "raymirror-one",
        "no mirror runs here; these are the logs of mirror one",
    )
    (top / "raymirror-two").mkdir()
    assert find_logs("two", env).folder == top / "raymirror-two"
    with pytest.raises(NoMirror):
        find_logs("three", env)


def test_the_logs_of_the_mirror_that_runs_are_shown_and_else_those_that_were_written_last(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    top = tmp_path / "raymirror" / "logs"
    for at, name in enumerate(("one", "three", "two")):
        (top / f"raymirror-{name}").mkdir(parents=True)
        path = top / f"raymirror-{name}" / "a.1.jsonl"
        path.write_text(line(1))
        os.utime(path, (10 - at, 10 - at))
    os.utime(top / "raymirror-three" / "a.1.jsonl", (20, 20))
    latest = find_logs(None, env)
    assert latest.folder == top / "raymirror-three"
    assert "several mirrors have logs here: one, three, two; these are of mirror three" in latest.note
    session.write(state("two"), env)
    assert find_logs(None, env) == FoundLogs(folder=top / "raymirror-two")
    session.write(state("one"), env)
    with pytest.raises(SeveralMirrors, match="several mirrors are running: one, two"):
        find_logs(None, env)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "info    r: x"),
        ({"flow": "A->B"}, "info    r A->B: x"),
        ({"flow": "A->B", "set": "A->B/001"}, "info    r A->B/001: x"),
        ({"repeated": 7}, "info    r: x (7 times more)"),
        ({"left_out": 7}, "info    r: x (and 7 more like this)"),
        ({"logger": "asyncio", "error": "Traceback"}, "info    r: asyncio: x\nTraceback"),
    ],
)
def test_a_line_reads(more: dict[str, object], said: str) -> None:
    at = "2027-01-15T08:00:00.000+00:00"
    decoded = json.loads(line(0, **more))  # type: ignore[arg-type] # keywords of a line
    assert line_text(LogLine(**decoded)) == f"{at} {said}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "raymirror" / "logs" / "raymirror-one"
    folder.mkdir(parents=True)
    return folder


def test_the_command_prints_the_latest_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.1.jsonl").write_text("".join(line(number, str(number), flow="A->B") for number in range(5)))
    assert main.main(["logs", "--lines", "2", "--json"]) == 0
    assert [json.loads(one)["text"] for one in capsys.readouterr().out.splitlines()] == ["3", "4"]
    assert main.main(["logs", "--lines", "0", "--flow", "A->B"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main.main(["logs", "--since", "2027-01-15T08:00:03Z"]) == 0
    printed = capsys.readouterr()
    assert [one[-1] for one in printed.out.splitlines()] == ["3", "4"]
    assert printed.err == "raymirror logs: no mirror runs here; these are the logs of mirror one\n"


def test_the_command_without_logs_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main.main(["logs"]) == 3
    assert "no logs in" in capsys.readouterr().err


def test_the_command_follows_until_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, pauses = folder / "a.1.jsonl", iter(range(2))
    path.write_text(line(1, "one"))

    class Pause(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if next(pauses, None) is None:
                raise KeyboardInterrupt
            with path.open("a") as file:
                file.write(line(2, "more"))
            return False

    monkeypatch.setattr(command.threading, "Event", Pause)  # type: ignore[attr-defined]
    assert main.main(["logs", "--follow"]) == main.INTERRUPTED
    assert [one.rpartition(" ")[2] for one in capsys.readouterr().out.splitlines()] == ["one", "more", "more"]
