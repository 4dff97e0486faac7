"""State files of `raymirror cluster`: the clusters that it started, so that any shell can show and stop them.

<state>/raymirror/clusters.json     running clusters; removed after the last broker ended
<state>/raymirror/clusters/<name>/  configuration, data and logs
<state>/raymirror/clusters.lock     held by `up` and `down`
<state>/raymirror/cluster-ports.json  the ports on which clusters listened last; kept by `down`
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from deploy.local.broker import STOP_DEADLINE_S, Broker
from deploy.local.cluster import EmbeddedCluster
from deploy.local.errors import ClusterError


class BrokerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One started broker; `started_at` (Unix seconds, from /proc) tells it from later processes with the same pid."""

    node_id: int
    port: int
    controller_port: int = 0
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
    """Return the user's state folder of raymirror."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "raymirror"


def clusters_folder() -> Path:
    """Return the folder where clusters keep configuration, data and logs."""
    return state_folder() / "clusters"


@contextmanager
def locked_state() -> Iterator[None]:
    """Hold the lock of the state; raises ClusterError if another command holds it."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "clusters.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError("the clusters are busy", "another `raymirror cluster` command is running") from None
        yield


def read_records() -> tuple[ClusterRecord, ...]:
    """Return the clusters that were started and not stopped. Raises ClusterError if the file cannot be understood."""
    try:
        return msgspec.json.decode(_state_file().read_bytes(), type=tuple[ClusterRecord, ...])
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as error:
        raise ClusterError(f"{_state_file()} is not a state file of raymirror", str(error)) from error


def write_records(records: Sequence[ClusterRecord]) -> None:
    """Write running clusters and their ports, each file atomically."""
    _write(_state_file(), records)
    _write(
        _ports_file(), {record.name: [port for one in record.brokers for port in ports_of(one)] for record in records}
    )


def read_ports() -> dict[str, list[int]]:
    """Return the ports of each cluster that was up last, in order of brokers; empty if they are not known."""
    try:
        return msgspec.json.decode(_ports_file().read_bytes(), type=dict[str, list[int]])
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def ports_of(record: BrokerRecord) -> tuple[int, int]:
    """Return the port for clients and the one for controllers."""
    return record.port, record.controller_port


def cluster_of(record: ClusterRecord) -> EmbeddedCluster:
    """Return the cluster of a record, to restart its dead brokers."""
    ports = [port for broker in record.brokers for port in ports_of(broker)]
    return EmbeddedCluster(record.name, Path(record.folder), brokers=len(record.brokers), ports=ports)


def revive_recorded(records: Sequence[ClusterRecord]) -> None:
    """Restart the recorded brokers that have ended, with their data; record what runs. Raises ClusterError."""
    now = list(records)
    for at, record in enumerate(records):
        now[at] = _revived(record)
        write_records(now)  # after each cluster: `down` must know everything that runs


def _revived(record: ClusterRecord) -> ClusterRecord:
    if not Path(record.folder).is_dir():
        raise ClusterError(f"cluster {record.name} cannot start again", f"its folder {record.folder} is gone")
    cluster = cluster_of(record)
    dead = [one for one, told in zip(cluster.brokers, record.brokers, strict=True) if living_process(told) is None]
    cluster.revive(dead)
    new = {broker.node_id: _record_of_broker(broker) for broker in dead}
    return msgspec.structs.replace(record, brokers=tuple(new.get(told.node_id, told) for told in record.brokers))


def forget_records() -> None:
    """Remove the state file."""
    _state_file().unlink(missing_ok=True)


def record_of(cluster: EmbeddedCluster) -> ClusterRecord:
    """Return the record of a running cluster, for other shells."""
    brokers = tuple(_record_of_broker(broker) for broker in cluster.brokers)
    return ClusterRecord(
        name=cluster.name, bootstrap_servers=cluster.bootstrap_servers, folder=str(cluster.folder), brokers=brokers
    )


def living_process(record: BrokerRecord) -> psutil.Process | None:
    """Return the broker's process; None if it ended, even if another process has its pid now."""
    try:
        process = psutil.Process(record.pid)
        if abs(process.create_time() - record.started_at) > 0.05 or process.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    return process


def stop_recorded(records: tuple[ClusterRecord, ...]) -> None:
    """Stop the living recorded brokers: SIGTERM to each, SIGKILL to those that do not end in 30 s."""
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
        controller_port=broker.address.controller_port,
        pid=pid,
        started_at=psutil.Process(pid).create_time(),
        log_file=str(broker.log_file),
    )


def _write(path: Path, value: object) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(value)))
    part.replace(path)


def _ports_file() -> Path:
    return state_folder() / "cluster-ports.json"


def _state_file() -> Path:
    return state_folder() / "clusters.json"
