"""`lag --history` and `report`: where the history is found, and their output."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from actors.cli.seeing import lag
from actors.local import session
from actors.model.status import MirrorStatus
from engine.jobs.lag.history import History
from tests.unit.actors.telemetry.statuses import flow_status, mirror_status
from tests.unit.engine.jobs import windows_tables as tables
from tests.unit.engine.jobs.windows_tables import add, copier_row, row

CONFIG = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
raymirror.rpo.seconds = 20
raymirror.storage = file:{storage}
"""


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage with the last ten minutes of one flow, and no mirror that runs."""
    now_minute = time.time_ns() // 60_000_000_000
    monkeypatch.setattr(tables, "BASE_MS", 60_000 * (now_minute - 10))
    folder = tmp_path / "storage"
    rows = [row(m, lag=m, lag_bytes=100 * m, lag_ms_max=10_000 * m, records_per_s=5.0) for m in range(4)]
    rows += [row(m, topic="calm", records_per_s=1.0) for m in range(4)]
    rows += [row(3, topic="stuck", lag=2, stalled_ms=30_000, stall_reason="paused")]
    rows += [copier_row(m, appends={4: 10}, bytes_per_s=2048.0, records_per_s=6.0) for m in range(4)]
    add(History(f"file:{folder}/tables/lag"), "g-0", rows)
    return folder


def configured(storage: Path) -> Path:
    path = storage.with_name("mm2.properties")
    path.write_text(CONFIG.format(storage=storage))
    return path


def test_history_tells_flows_topics_breaches_and_stalls(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lag", "--history", "--config", str(configured(storage))]) == 0
    out = capsys.readouterr().out
    assert "A->B  t " in out
    assert "30.0 s" in out
    assert "20.0 s" in out
    assert "paused" in out
    assert "calm" in out
    assert main.main(["lag", "--history", "--behind", "--config", str(configured(storage))]) == 0
    assert "calm" not in capsys.readouterr().out


def test_history_as_json(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lag", "A->B", "--history", "--json", "--topic", "t", "--storage", f"file:{storage}"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {point["topic"] for point in told["topics"]} == {"t"}
    assert max(point["lag_seconds"] for point in told["topics"]) == 30.0
    assert told["breaches"] == []  # without a configuration there is no objective
    assert {point["flow"] for point in told["flows"]} == {"A->B"}
    assert main.main(["lag", "C->D", "--history", "--json", "--storage", f"file:{storage}"]) == 0
    assert json.loads(capsys.readouterr().out)["topics"] == []


def test_a_mirror_that_runs_here_says_where_its_history_is(
    storage: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = session.StateFile(
        address="x",
        namespace="raymirror-one",
        pid=0,
        pid_start=0,
        version="1",
        config_path=str(configured(storage)),
        config_digest="",
        local=True,
    )
    monkeypatch.setattr(session, "living", lambda _env, _name=None: (state,))
    assert main.main(["lag", "--history", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["breaches"][0]["topic"] == "t"
    monkeypatch.setattr(session, "living", lambda _env, _name=None: (state, state))
    assert main.main(["lag", "--history"]) == 2
    assert "several mirrors" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no mirror runs on this machine"),
        (["--storage", "file:/nowhere/at/all"], "has no history"),
        (["--storage", "nonsense"], "does not say what kind of storage"),
    ],
)
def test_where_there_is_none_it_says_what_would_be_right(
    storage: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lag", "--history", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_without_storage_is_named(storage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = configured(storage)
    path.write_text(path.read_text().replace("raymirror.storage", "#"))
    assert main.main(["lag", "--history", "--config", str(path)]) == 2
    assert "has no raymirror.storage" in capsys.readouterr().err


def test_report_writes_one_page(storage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main.main(["report", "--since", "1h", "--config", str(configured(storage)), "-o", str(out)]) == 0
    assert "1 flow, 3 topics, breaches of an objective: 1" in capsys.readouterr().out
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.glob("*report*")] == ["report.html"]


def test_a_report_has_a_name_of_its_own(
    storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["report", "--storage", f"file:{storage}"]) == 0
    assert "raymirror-report.html" in capsys.readouterr().out
    assert "raymirror.rpo.seconds" in (tmp_path / "raymirror-report.html").read_text()


def test_a_report_of_nothing_is_written_and_told(
    storage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    words = ["report", "--since", "2020-01-01T00:00:00Z", "--storage", f"file:{storage}", "-o", str(out)]
    assert main.main(words) == 0
    capsys.readouterr()
    assert main.main(["report", "A->C", *words[1:]]) == 1
    assert "holds nothing" in out.read_text()
    assert "no data of A->C since 2020-01-01" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_an_error_in_one_line(
    storage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for where in (tmp_path / "no" / "page.html", storage):
        assert main.main(["report", "--storage", f"file:{storage}", "-o", str(where)]) == 2
        assert f"{where} cannot be written" in capsys.readouterr().err
    assert list(tmp_path.glob(".*.part")) == []


class Behind:
    """A mirror behind `--url` whose server has this history."""

    namespace = "http://far:8083"

    def __init__(self, summary: dict[str, Any]) -> None:
        self.summary, self.asked = summary, list[str]()

    def status(self) -> MirrorStatus:
        return mirror_status(flows=[flow_status()])

    def history(self, flow: str, _query: str) -> dict[str, Any]:
        self.asked.append(flow)
        return self.summary


def test_the_history_of_a_mirror_behind_a_url_is_asked_of_it(
    storage: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lag", "--history", "--config", str(configured(storage)), "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)
    behind = Behind(kept)
    monkeypatch.setattr(lag, "remote_mirror", lambda _args: behind)
    assert main.main(["lag", "--history", "--url", behind.namespace, "--json"]) == 0
    assert (json.loads(capsys.readouterr().out), behind.asked) == (kept, ["A->B"])
