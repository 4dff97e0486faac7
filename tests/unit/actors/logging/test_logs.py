"""Log files: the fields of a line, folding, hidden secrets, rotation and pruning."""

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from actors.logging import logs
from actors.logging.logs import (
    FoldingHandler,
    JsonLines,
    Logs,
    log_event,
    log_folder,
    log_progress_events,
    log_sentence,
    prune,
    setup_logging,
)
from engine.core.events.events import LaneReleased, TopicFailed
from engine.core.reports.progress import FlowProgress
from tests.unit.actors.fakes import FLOW, lane_progress, lanes

LIBRARY = logging.getLogger("aiokafka.test")
OURS = logging.getLogger("raymirror")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.fixture
def opened(env: dict[str, str]) -> Iterator[Logs]:
    opened = setup_logging("raymirror-t", "copier-A.B/1", flow="A->B", env=env)
    yield opened
    opened.close()


def lines(opened: Logs) -> list[dict[str, object]]:
    assert opened.path is not None
    return [json.loads(line) for line in opened.path.read_text().splitlines()]


def test_a_line_has_time_level_role_flow_and_text(opened: Logs) -> None:
    OURS.info("hello %s", "you")
    (line,) = lines(opened)
    assert str(line.pop("time")).endswith("+00:00")
    assert line == {
        "level": "info",
        "role": "copier-A.B/1",
        "flow": "A->B",
        "set": "",
        "epoch": -1,
        "event": "",
        "text": "hello you",
    }


def test_the_file_is_the_owners_alone_and_lies_with_the_state(opened: Logs, env: dict[str, str]) -> None:
    assert opened.path is not None
    assert (
        opened.path.parent
        == log_folder("raymirror-t", env)
        == Path(env["XDG_STATE_HOME"], "raymirror/logs/raymirror-t")
    )
    assert opened.path.name == f"copier-A.B_1.{os.getpid()}.jsonl"
    assert opened.path.stat().st_mode & 0o777 == 0o600


def test_an_event_is_logged_with_its_name_and_severity(opened: Logs) -> None:
    log_event(TopicFailed(flow=FLOW, topic="t", what="no permission"))
    (line,) = lines(opened)
    assert (line["level"], line["event"], line["flow"]) == ("error", "topic_failed", "A->B")
    assert line["text"] == "t: no permission"


def test_events_of_a_snapshot_carry_set_and_epoch_of_their_lane(opened: Logs) -> None:
    held = msgspec.structs.replace(lane_progress(lanes("t", 1)[0]), set_id="A->B/003", epoch=7)
    progress = FlowProgress(
        flow=FLOW,
        at_ms=0,
        lanes=(held,),
        events=(LaneReleased(flow=FLOW, lane=held.lane), TopicFailed(flow=FLOW, topic="t", what="x")),
        buffer_bytes=0,
        set_ids=(),
    )
    log_progress_events(progress)
    log_progress_events(msgspec.structs.replace(progress, events=()))
    assert [(line["set"], line["epoch"]) for line in lines(opened)] == [("A->B/003", 7), ("", -1)]


def test_a_sentence_has_its_severity_and_flow(opened: Logs) -> None:
    log_sentence("warning", "broker away: 100%", flow="A->C")
    (line,) = lines(opened)
    assert (line["level"], line["text"], line["flow"]) == ("warning", "broker away: 100%", "A->C")


def test_of_libraries_only_what_is_grave_is_kept(opened: Logs) -> None:
    LIBRARY.info("chatter")
    LIBRARY.warning("Unable to connect")
    (line,) = lines(opened)
    assert (line["logger"], line["text"]) == ("aiokafka.test", "Unable to connect")


def test_an_error_brings_its_traceback(opened: Logs) -> None:
    try:
        raise ValueError("broken, password=hunter2")
    except ValueError:
        OURS.exception("it failed")
    (line,) = lines(opened)
    assert "ValueError: broken" in str(line["error"])
    assert "hunter2" not in str(line)


@pytest.mark.parametrize(
    "text",
    [
        'sasl.jaas.config ... username="me" password="hunter2";',
        "ssl.key.password = hunter2",
        "{'sasl_plain_password': 'hunter2'}",
        "Authorization: Bearer hunter2",
        "https://me:hunter2@collector/v1",
        "aws.secret.access.key=hunter2, next",
        "token: hunter2",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, opened: Logs) -> None:
    OURS.warning("said: %s", text)
    (line,) = lines(opened)
    assert "hunter2" not in str(line)
    assert "[hidden]" in str(line["text"])


def test_repeats_are_counted_and_the_count_is_said_at_the_end(opened: Logs) -> None:
    for number in range(50):
        LIBRARY.error("broker %s is away", number % 2)
    assert [line["text"] for line in lines(opened)] == ["broker 0 is away", "broker 1 is away"]
    opened.close()
    told = lines(opened)[2:]
    assert [(line["text"], line["repeated"], line["level"], line["logger"]) for line in told] == [
        ("broker 0 is away", 24, "error", "aiokafka.test"),
        ("broker 1 is away", 24, "error", "aiokafka.test"),
    ]


class Kept(logging.Handler):
    """Keeps records, and says when one has come."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.came.set()


def test_a_count_is_said_though_nothing_is_logged_any_more() -> None:
    kept, now = Kept(), [0.0]
    handler = FoldingHandler(kept, look_s=0.01, clock=lambda: now[0])
    record = logging.LogRecord("x", logging.ERROR, "", 0, "away", None, None)
    handler.handle(record)
    handler.handle(record)
    kept.came.clear()
    now[0] = 61.0
    assert kept.came.wait(30)
    assert [getattr(one, "repeated", 0) for one in kept.records] == [0, 1]
    handler.close()
    assert len(kept.records) == 2


def test_a_pattern_whose_arguments_do_not_fit_is_pythons_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept()
    FoldingHandler(kept).handle(logging.LogRecord("x", logging.ERROR, "", 0, "%d", ("no number",), None))
    assert kept.records == []
    assert "no number" in capsys.readouterr().err


def test_files_are_rotated_and_stay_private(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 10_000)
    opened = setup_logging("raymirror-t", "r", env=env)
    for number in range(300):
        OURS.info("line %d %s", number, "x" * 200)
    opened.close()
    assert opened.path is not None
    files = sorted(opened.path.parent.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 10_500 and file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_files_of_processes_that_ended_long_ago_go_the_oldest_first(tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / f"copier-{number}.1.jsonl"
        path.write_bytes(b"x" * 100)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    fresh = tmp_path / "supervisor.2.jsonl"
    fresh.write_bytes(b"x" * 100)
    (tmp_path / "notes.txt").write_text("not ours")
    prune(tmp_path, kept_bytes=350, kept_s=1e12)
    assert {path.name for path in tmp_path.iterdir()} == {
        "supervisor.2.jsonl",
        "copier-5.1.jsonl",
        "copier-4.1.jsonl",
        "notes.txt",
    }
    prune(tmp_path, kept_bytes=350, kept_s=3600.0)
    assert {path.name for path in tmp_path.iterdir()} == {"supervisor.2.jsonl", "notes.txt"}


def test_a_folder_that_cannot_be_made_leaves_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    told: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", told.append)
    opened = setup_logging("raymirror-t", "r", env={"XDG_STATE_HOME": str(blocked)})
    OURS.warning("still here")
    opened.close()
    assert opened.path is None
    assert "no log file" in told[0]
    assert "still here" in "".join(told)


def test_a_closed_log_takes_nothing_more(opened: Logs) -> None:
    opened.close()
    OURS.warning("too late")
    assert lines(opened) == []


def test_the_formatter_alone_needs_no_extras() -> None:
    record = logging.LogRecord("raymirror", logging.INFO, "", 0, "x", None, None)
    assert json.loads(JsonLines("r").format(record))["flow"] == ""
