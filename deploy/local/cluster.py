"""A real Kafka cluster of one to three brokers on this machine."""

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.local.broker import FIRST_HEAP_MIB, STOP_DEADLINE_S, Broker
from deploy.local.class_archive import ensure_archive
from deploy.local.formatting import new_kafka_id
from deploy.local.jars import kafka_classpath
from deploy.local.limits import raise_open_files
from deploy.local.ports import HOST, pick_ports
from deploy.local.settings import BrokerPorts
from deploy.local.tools import QUICK_FLAGS, run_tool, start_tool

MOST_BROKERS = 3
BROKER_HEAP_MIB = 1024
LAST_STOP_S = 2.0
"""What brokers without a quorum get to write what they hold; Kafka lets them wait for ever."""


class EmbeddedCluster:
    """An embedded cluster: combined KRaft brokers, PLAINTEXT on 127.0.0.1, everything below one folder.

    `overrides` are broker properties that win over the defaults of settings.py; `own`: properties of single brokers by
    node id (from 1 on), which win over both; `log_levels`: levels of Kafka's loggers by name; `classpath`: the jars of
    another release; `ports`: two per broker, for clients and for controllers, in order of brokers (default: random free
    ports). Not thread-safe; start several clusters in parallel with `start_clusters`.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        brokers: int = 1,
        overrides: Mapping[str, str] | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
        log_levels: Mapping[str, str] | None = None,
        heap_mib: int = BROKER_HEAP_MIB,
        classpath: str = "",
        ports: Sequence[int] = (),
    ) -> None:
        if not 1 <= brokers <= MOST_BROKERS:
            raise ValueError(f"a cluster has 1 to {MOST_BROKERS} brokers, not {brokers}")
        self.name = name
        self.folder = folder.absolute()
        self.overrides = dict(overrides or {})
        self.own = {node_id: dict(properties) for node_id, properties in (own or {}).items()}
        self.heap_mib = heap_mib
        self.cluster_id = new_kafka_id()
        ports = ports or pick_ports(2 * brokers)
        addresses = [
            BrokerPorts(node_id=number + 1, port=ports[2 * number], controller_port=ports[2 * number + 1])
            for number in range(brokers)
        ]
        self.brokers = [
            Broker(address, addresses, self.folder / f"broker-{address.node_id}", self.cluster_id)
            for address in addresses
        ]
        for broker in self.brokers:
            broker.log_levels = dict(log_levels or {})
            broker.classpath = classpath

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients: host:port, comma-separated."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def log_files(self) -> list[Path]:
        """One log file per broker."""
        return [broker.log_file for broker in self.brokers]

    def start(self) -> None:
        """Format, start and wait until every broker sees all others; raises ClusterError, leaving nothing running."""
        try:
            self._start()
        except BaseException:
            self._kill()
            raise

    def stop(self) -> None:
        """Stop every broker cleanly, while they can: the last ones have no quorum that would let them go, and are
        killed. Harmless if they are gone.
        """
        for broker in self.brokers:
            broker.ask_to_stop()
        deadline_at = time.monotonic() + STOP_DEADLINE_S
        while (running := [one for one in self.brokers if one.pid is not None]) and time.monotonic() < deadline_at:
            if len(running) <= len(self.brokers) // 2:
                deadline_at = min(deadline_at, time.monotonic() + LAST_STOP_S)
            running[0].pause()
        self._kill()

    def restart(self, broker: Broker) -> None:
        """Start one stopped or killed broker again and wait until it sees the others that run."""
        running = sum(1 for one in self.brokers if one.pid is not None and one is not broker)
        broker.start(alive=running + 1, heap_mib=self.heap_mib)

    def revive(self, dead: Sequence[Broker]) -> None:
        """Start ended brokers of another process again, with their ports and data; wait until they see all brokers of
        the cluster, which must run. Raises ClusterError.
        """
        raise_open_files()
        try:
            for broker in dead:
                broker.launch(self.heap_mib)
            for broker in dead:
                broker.wait_ready(alive=len(self.brokers))
        except BaseException:
            for broker in dead:
                broker.kill()
            raise

    def tool(self, main_class: str, *args: str, timeout_s: float = 120.0, heap_mib: int = 512) -> str:
        """Run one of Kafka's programs, e.g. `kafka.tools.DumpLogSegments`; its output, or ClusterError if it fails."""
        return run_tool(main_class, *args, timeout_s=timeout_s, heap_mib=heap_mib)

    def popen_tool(
        self, main_class: str, *args: str, log_file: Path, heap_mib: int = 512, flags: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a long-running one of Kafka's programs; the caller ends it. It logs errors only."""
        return start_tool(main_class, *args, log_file=log_file, heap_mib=heap_mib, flags=flags)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        raise_open_files()
        kafka_classpath()
        ensure_archive(run_once)
        self.bring_up()

    def bring_up(self) -> None:
        """Format and start with what is there, and wait; raises ClusterError, and leaves running what runs."""
        formatting = [
            (broker, broker.prepare(self.overrides | self.own.get(broker.node_id, {}))) for broker in self.brokers
        ]
        for broker, process in formatting:
            broker.formatted(process)
        for broker in self.brokers:
            broker.launch(self.heap_mib)
        for broker in self.brokers:
            broker.wait_ready(alive=len(self.brokers))

    def _kill(self) -> None:
        for broker in self.brokers:
            broker.kill()


def run_once(jvm_flags: Sequence[str]) -> None:
    """Start a broker of its own with these flags for Java, and end it in order; raises ClusterError."""
    with tempfile.TemporaryDirectory(prefix="raymirror-") as name:
        cluster = EmbeddedCluster("once", Path(name), heap_mib=FIRST_HEAP_MIB)
        cluster.brokers[0].jvm_flags = (*QUICK_FLAGS, *jvm_flags)
        try:
            cluster.bring_up()
        finally:
            cluster.stop()


def start_clusters(*clusters: EmbeddedCluster) -> None:
    """Start clusters in parallel; if one fails, none is left running and its error is raised."""
    kafka_classpath()
    with ThreadPoolExecutor(max_workers=len(clusters)) as pool:
        starting = [pool.submit(cluster.start) for cluster in clusters]
    errors = [error for future in starting if (error := future.exception()) is not None]
    if errors:
        for cluster in clusters:
            cluster.stop()
        raise errors[0]


@contextmanager
def running_clusters(*clusters: EmbeddedCluster) -> Iterator[None]:
    """Start clusters in parallel, and stop them at the end, whatever happens. Raises ClusterError."""
    try:
        start_clusters(*clusters)
        yield
    finally:
        for cluster in clusters:
            cluster.stop()
