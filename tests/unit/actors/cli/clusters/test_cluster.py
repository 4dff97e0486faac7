"""`raymirror cluster`: the configuration that it writes, and its report of dead brokers."""

import json
import os
from pathlib import Path

import psutil
import pytest

from actors.cli import main
from actors.cli.clusters import cluster
from actors.cli.common import exits
from deploy.local import state
from deploy.local.errors import ClusterError
from deploy.local.state import BrokerRecord, ClusterRecord
from engine.config.config import load_config


def record(name: str, port: int, *, dead: bool = False) -> ClusterRecord:
    me = psutil.Process()
    broker = BrokerRecord(
        node_id=1,
        port=port,
        controller_port=port + 1,
        pid=me.pid,
        started_at=0.0 if dead else me.create_time(),
        log_file="broker.log",
    )
    return ClusterRecord(name=name, bootstrap_servers=f"127.0.0.1:{port}", folder="/nowhere", brokers=(broker,))


RUNNING = (record("source", 23111), record("target", 23121))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    state.state_folder().mkdir(parents=True)
    return tmp_path


def test_up_writes_a_configuration_that_is_ready(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state.write_records(RUNNING)
    assert main.main(["cluster", "up"]) == exits.OK
    said = capsys.readouterr().out
    assert "already up" in said
    assert "next: raymirror check mm2.properties" in said
    found = load_config(folder / "mm2.properties")
    assert found.warnings == ()
    (flow,) = found.flows
    assert flow.topics == ("orders.*", "clicks")
    assert main.main(["cluster", "up"]) == exits.OK  # its own file is no obstacle
    assert "left as it is" not in capsys.readouterr().out


def test_a_configuration_that_is_there_is_left_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state.write_records(RUNNING)
    (folder / "mm2.properties").write_text("mine")
    assert main.main(["cluster", "up"]) == exits.OK
    assert "mm2.properties exists already and is left as it is" in capsys.readouterr().out
    assert (folder / "mm2.properties").read_text() == "mine"
    assert main.main(["cluster", "up", "--config", "other.properties", "--json"]) == exits.OK
    assert (folder / "other.properties").exists()
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["clusters"]] == ["source", "target"]


def test_a_folder_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be written"):
        cluster.write_config(folder / "gone" / "mm2.properties", RUNNING)


def test_status_says_which_brokers_are_dead_and_how_they_start(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_records((RUNNING[0], record("target", 23121, dead=True)))
    assert main.main(["cluster", "status"]) == exits.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert [f"pid {os.getpid()}" in lines[1], "dead" in lines[3]] == [True, True]
    assert lines[4] == "start the dead brokers again, with their data: raymirror cluster up"


def test_nothing_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cluster", "down", "--json"]) == exits.OK
    assert json.loads(capsys.readouterr().out) == {"stopped": []}
    assert main.main(["cluster", "status"]) == exits.NO_MIRROR
