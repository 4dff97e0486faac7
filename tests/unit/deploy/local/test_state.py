"""The state that one shell writes and another reads."""

import os
import socket
from pathlib import Path

import psutil
import pytest

from deploy.local import state
from deploy.local.broker import Broker
from deploy.local.errors import ClusterError
from deploy.local.ports import HOST, first_free, is_free
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


def cluster_record(folder: Path, *brokers: BrokerRecord) -> ClusterRecord:
    return ClusterRecord(name="source", bootstrap_servers="", folder=str(folder), brokers=brokers)


def test_ports_outlast_the_clusters() -> None:
    assert state.read_ports() == {}
    state.state_folder().mkdir(parents=True)
    one = BrokerRecord(node_id=1, port=21001, controller_port=21002, pid=1, started_at=0.0, log_file="")
    state.write_records([cluster_record(Path("/nowhere"), one)])
    state.forget_records()
    assert state.read_records() == ()
    assert state.read_ports() == {"source": [21001, 21002]}


@pytest.mark.local
def test_the_first_ports_that_are_free_are_taken() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        free = first_free([], 2)
        assert all(is_free(one) for one in free)
        assert first_free([[port, free[0]], [free[0]], free], 2) == free
        assert port not in first_free([[port, free[0]], [0, 0]], 2)


def test_only_dead_brokers_are_started_again_on_their_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = psutil.Process()
    launched: list[tuple[int, int, int]] = []

    def launch(self: Broker, _heap_mib: int) -> None:
        launched.append((self.node_id, self.port, self.address.controller_port))

    monkeypatch.setattr(Broker, "launch", launch)
    monkeypatch.setattr(Broker, "wait_ready", lambda _self, alive: launched.append((alive, 0, 0)))
    monkeypatch.setattr(Broker, "pid", property(lambda _self: me.pid))
    alive = BrokerRecord(
        node_id=1, port=21001, controller_port=21002, pid=me.pid, started_at=me.create_time(), log_file="a"
    )
    dead = BrokerRecord(node_id=2, port=21003, controller_port=21004, pid=me.pid, started_at=0.0, log_file="b")
    state.state_folder().mkdir(parents=True)
    state.revive_recorded([cluster_record(tmp_path, alive, dead)])
    assert launched == [(2, 21003, 21004), (2, 0, 0)]
    (now,) = state.read_records()
    assert now.brokers[0] == alive
    assert state.living_process(now.brokers[1]) is not None


def test_clusters_whose_folder_is_gone_are_not_started_again(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="gone"):
        state.revive_recorded([cluster_record(tmp_path / "gone", record(1, 0.0))])
