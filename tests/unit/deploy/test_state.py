"""What one shell writes down and another reads."""

import os
from pathlib import Path

import psutil
import pytest

from deploy.local import state
from deploy.local.errors import ClusterError
from deploy.local.state import BrokerRecord, ClusterRecord


def record(pid: int, started_at: float) -> BrokerRecord:
    return BrokerRecord(node_id=1, port=21001, pid=pid, started_at=started_at, log_file="broker.log")


def write_state(text: str) -> Path:
    path = state.state_folder() / "clusters.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_nothing_was_started() -> None:
    assert state.read_records() == ()


def test_a_file_that_is_not_ours_is_named() -> None:
    path = write_state('{"clusters": 1}')
    with pytest.raises(ClusterError) as raised:
        state.read_records()
    assert f"{path} is not a state file of raymirror" in str(raised.value)


def test_a_process_lives_if_id_and_start_agree() -> None:
    me = psutil.Process()
    living = state.living_process(record(me.pid, me.create_time()))
    assert living is not None
    assert living.pid == os.getpid()


def test_a_recycled_process_id_is_nobodys() -> None:
    me = psutil.Process()
    recycled = record(me.pid, me.create_time() - 60)
    assert state.living_process(recycled) is None
    # Would end this very test run if it were signalled.
    state.stop_recorded((ClusterRecord(name="source", bootstrap_servers="", folder="", brokers=(recycled,)),))


def test_two_commands_at_once_are_refused() -> None:
    with (
        state.locked_state(),
        pytest.raises(ClusterError, match="another `raymirror cluster` command"),
        state.locked_state(),
    ):
        pass
