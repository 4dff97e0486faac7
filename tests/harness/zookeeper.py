"""A broker of Kafka before 3.3, which keeps its metadata in ZooKeeper: KRaft had no transactions then."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports
from deploy.local.settings import BrokerPorts
from deploy.local.tools import QUICK_FLAGS, start_tool

_ZOOKEEPER = "org.apache.zookeeper.server.ZooKeeperServerMain"
_FLAGS = (*QUICK_FLAGS, "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.jmx.log4j.disable=true")


class _Broker(Broker):
    """A broker with the properties of ZooKeeper's time; nothing is formatted."""

    def __init__(self, address: BrokerPorts, folder: Path, cluster_id: str, zookeeper_port: int) -> None:
        super().__init__(address, [address], folder, cluster_id)
        self._zookeeper_port = zookeeper_port

    def prepare(self, overrides: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Write the configuration; the returned process ends at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        listener = f"PLAINTEXT://{HOST}:{self.port}"
        properties = {
            "broker.id": str(self.node_id),
            "zookeeper.connect": f"{HOST}:{self._zookeeper_port}",
            "zookeeper.connection.timeout.ms": "60000",
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": str(self.data_folder),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        properties.update(overrides)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return subprocess.Popen(["true"])


class ZooKeeperCluster(EmbeddedCluster):
    """A cluster of one broker of another release, and its ZooKeeper."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        classpath: str,
        overrides: Mapping[str, str] | None = None,
        heap_mib: int = 512,
    ) -> None:
        super().__init__(name, folder, overrides=overrides, classpath=classpath, heap_mib=heap_mib)
        (self._port,) = pick_ports(1)
        self._classpath = classpath
        self._zookeeper: subprocess.Popen[bytes] | None = None
        (kraft,) = self.brokers
        broker = _Broker(kraft.address, kraft.folder, self.cluster_id, self._port)
        broker.classpath = classpath
        self.brokers = [broker]

    def bring_up(self) -> None:
        """Start ZooKeeper and then the broker, which waits for it; raises ClusterError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._zookeeper = start_tool(
            _ZOOKEEPER,
            str(self._port),
            str(self.folder / "zookeeper"),
            log_file=self.folder / "zookeeper.log",
            heap_mib=256,
            flags=_FLAGS,
            classpath=self._classpath,
        )
        super().bring_up()

    def stop(self) -> None:
        """Stop the broker while ZooKeeper is still there, then ZooKeeper."""
        (broker,) = self.brokers
        broker.stop()
        super().stop()

    def _kill(self) -> None:
        super()._kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
