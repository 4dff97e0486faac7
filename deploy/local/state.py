"""Where `raymirror cluster` writes down what it started, so that any shell can show and stop it.

<state>/raymirror/clusters.json     what runs; removed after the last broker ended
<state>/raymirror/clusters/<name>/  configuration, data and logs
<state>/raymirror/clusters.lock     held by `up` and `down`
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from deploy.local.broker import STOP_DEADLINE_S, Broker
from deploy.local.cluster import Cluster
from deploy.local.errors import ClusterError


class BrokerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One started broker; `started_at` tells it from a later process with the same id (epoch seconds, from /proc)."""

    node_id: int
    port: int
    pid: int
    started_at: float
    log_file: str


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One started cluster."""

    name: str
    bootstrap_servers: str
    folder: str
    brokers: tuple[BrokerRecord, ...]


def state_folder() -> Path:
    """The user's state folder of raymirror."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "raymirror"


def clusters_folder() -> Path:
    """Where clusters keep configuration, data and logs."""
    return state_folder() / "clusters"


@contextmanager
def locked_state() -> Iterator[None]:
    """Hold the state; raises ClusterError if another command holds it."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "clusters.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError("the clusters are busy", "another `raymirror cluster` command is at work") from None
        yield


def read_records() -> tuple[ClusterRecord, ...]:
    """What was started and not stopped; empty if nothing. Raises ClusterError if the file makes no sense."""
    try:
        return msgspec.json.decode(_state_file().read_bytes(), type=tuple[ClusterRecord, ...])
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        raise ClusterError(f"{_state_file()} is not a state file of raymirror", str(error)) from error


def write_records(clusters: list[Cluster]) -> None:
    """Write down running clusters, atomically."""
    records = [record_of(cluster) for cluster in clusters]
    part = _state_file().with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(records)))
    part.replace(_state_file())


def forget_records() -> None:
    """Remove the state file."""
    _state_file().unlink(missing_ok=True)


def record_of(cluster: Cluster) -> ClusterRecord:
    """What another shell must know of a running cluster."""
    brokers = tuple(_record_of_broker(broker) for broker in cluster.brokers)
    return ClusterRecord(
        name=cluster.name, bootstrap_servers=cluster.bootstrap_servers, folder=str(cluster.folder), brokers=brokers
    )


def living_process(record: BrokerRecord) -> psutil.Process | None:
    """The broker's process, or None if it ended, even if its id has been given to another process since."""
    try:
        process = psutil.Process(record.pid)
        if abs(process.create_time() - record.started_at) > 0.05 or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    return process


def stop_recorded(records: tuple[ClusterRecord, ...]) -> None:
    """Stop the recorded brokers that live: SIGTERM to each, SIGKILL to those that do not end in 30 s."""
    living = [process for record in records for broker in record.brokers if (process := living_process(broker))]
    for process in living:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(living, timeout=STOP_DEADLINE_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=STOP_DEADLINE_S)


def _record_of_broker(broker: Broker) -> BrokerRecord:
    pid = broker.pid
    if pid is None:
        raise ClusterError(f"broker {broker.node_id} is gone", "it ended right after it had started", broker.log_file)
    return BrokerRecord(
        node_id=broker.node_id,
        port=broker.port,
        pid=pid,
        started_at=psutil.Process(pid).create_time(),
        log_file=str(broker.log_file),
    )


def _state_file() -> Path:
    return state_folder() / "clusters.json"
