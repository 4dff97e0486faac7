"""A broker's configuration, ports, limits and error texts."""

import pickle
import socket
from pathlib import Path

import pytest

from deploy.local import limits, ports, probe
from deploy.local.cluster import EmbeddedCluster
from deploy.local.errors import ClusterError, last_telling_line
from deploy.local.settings import BrokerPorts, encode_logging, encode_properties


def properties_of(brokers: int, overrides: dict[str, str] | None = None) -> dict[str, str]:
    everyone = [
        BrokerPorts(node_id=one, port=21000 + one, controller_port=22000 + one) for one in range(1, brokers + 1)
    ]
    text = encode_properties(everyone[0], everyone, Path("/data"), overrides or {})
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2")])
def test_internal_topics_fit_the_number_of_brokers(brokers: int, replicas: str, in_sync: str) -> None:
    properties = properties_of(brokers)
    for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{name}.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == in_sync
    assert properties["min.insync.replicas"] == in_sync


def test_every_broker_votes_and_listens_on_this_machine_only() -> None:
    properties = properties_of(3)
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:22001,2@127.0.0.1:22002,3@127.0.0.1:22003"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:21001,CONTROLLER://127.0.0.1:22001"


def test_topic_creation_is_left_at_kafkas_default() -> None:
    assert "auto.create.topics.enable" not in properties_of(1)


def test_overrides_win() -> None:
    properties = properties_of(3, {"min.insync.replicas": "1", "log.retention.ms": "1000"})
    assert properties["min.insync.replicas"] == "1"
    assert properties["log.retention.ms"] == "1000"


@pytest.mark.parametrize(
    ("topics", "brokers"),
    [
        ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        ("segment.ms", "log.roll.ms"),
        ("max.message.bytes", "message.max.bytes"),
    ],
)
def test_a_topics_name_that_a_broker_would_ignore_is_refused_with_the_brokers_name(topics: str, brokers: str) -> None:
    with pytest.raises(ValueError, match=f"{topics} is a topic's config, .*; theirs is {brokers}$"):
        properties_of(1, {topics: "1000"})
    assert properties_of(1, {brokers: "1000"})[brokers] == "1000"


@pytest.mark.parametrize("name", ["min.insync.replicas", "unclean.leader.election.enable", "compression.type"])
def test_names_that_topics_and_brokers_share_are_taken(name: str) -> None:
    assert properties_of(1, {name: "x"})[name] == "x"


@pytest.mark.local
def test_single_brokers_have_properties_and_log_levels(tmp_path: Path) -> None:
    cluster = EmbeddedCluster("s", tmp_path, brokers=2, own={2: {"broker.rack": "b"}}, log_levels={"kafka.x": "DEBUG"})
    assert cluster.own == {2: {"broker.rack": "b"}}
    text = encode_logging(cluster.brokers[1].log_levels)
    assert "logger.own0.name = state.change.logger\nlogger.own0.level = WARN\n" in text
    assert text.endswith("logger.own1.name = kafka.x\nlogger.own1.level = DEBUG\n")


def test_a_cluster_has_one_to_three_brokers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 to 3 brokers, not 4"):
        EmbeddedCluster("source", tmp_path, brokers=4)


@pytest.mark.local
def test_ports_are_free_distinct_and_not_rays() -> None:
    picked = ports.pick_ports(20)
    assert len(set(picked)) == 20
    assert all(ports.LOWEST <= port <= ports.HIGHEST for port in picked)
    assert not any(10002 <= port <= 19999 for port in picked)


@pytest.mark.local
def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen(1)
        assert not ports.is_free(listener.getsockname()[1])


def test_a_port_of_a_broker_that_has_not_started_is_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_binds", lambda _probe, _port: True)
    monkeypatch.setattr("random.sample", lambda _range, k: [20001, 20002, 20003][:k])
    assert ports.pick_ports(2, taken=(20001,)) == [20002, 20003]


def test_no_port_left_says_where_was_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_binds", lambda _probe, _port: False)
    with pytest.raises(ClusterError, match="no 2 free ports: 1000 tried between 20000 and 32767"):
        ports.pick_ports(2)


def test_brokers_are_read_from_a_metadata_answer() -> None:
    brokers = (
        b"\x00\x00\x00\x01\x00\x01h\x00\x00\x23\x84\xff\xff" + b"\x00\x00\x00\x03\x00\x01h\x00\x00\x23\x85\x00\x01r"
    )
    body = b"\x00\x00\x00\x00" + b"\x00\x00\x00\x02" + brokers + b"\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00"
    assert probe.decode_broker_ids(body) == {1, 3}


def test_too_few_open_files_are_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    with pytest.raises(ClusterError, match="the hard limit is 1024, 4096 are needed"):
        limits.raise_open_files()


def test_a_full_disk_is_refused_with_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_DISK_MIB", 10**9)
    with pytest.raises(ClusterError, match=r"the disk is full: \d+ MiB free in .*, a broker needs 1000000000"):
        limits.require_disk(tmp_path)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("INFO up\nERROR Exiting\n\tat kafka.Kafka$.main\nINFO down\n", "ERROR Exiting"),
        ("ERROR x\njava.io.IOException: outer\nCaused by: java.io.IOException: No space left on device\n\t... 3 more\n",
         "Caused by: java.io.IOException: No space left on device"),
        ("just this\n\n", "just this"),
        ("", None),
    ],
)  # fmt: skip
def test_the_telling_line_of_a_log_is_found(log: str, line: str | None, tmp_path: Path) -> None:
    log_file = tmp_path / "broker.log"
    log_file.write_text(log)
    assert last_telling_line(log_file) == line


def test_a_log_that_was_never_written_tells_nothing(tmp_path: Path) -> None:
    assert last_telling_line(tmp_path / "none.log") is None


def test_an_error_names_cause_and_log_and_survives_pickling(tmp_path: Path) -> None:
    error = ClusterError("broker 1 cannot start", "port 21001 on 127.0.0.1 is taken", tmp_path / "broker.log")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == f"broker 1 cannot start: port 21001 on 127.0.0.1 is taken (log: {tmp_path / 'broker.log'})"
    assert copy.log_file == error.log_file
