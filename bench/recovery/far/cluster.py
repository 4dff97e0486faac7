"""Clusters that the mirror reaches over a distance; load, watch and reader connect to them directly.

The proxy of `bench/wan` holds the bytes back, in a process of its own. It listens for every broker all the time, so a
broker that was killed or restarted is found again behind the same port.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.errors import BenchError
from bench.fronted_broker import Front, FrontedBroker
from bench.recovery.fronted import FrontedCluster
from bench.wan.distance import Carried, Distance, DistanceProxy, FarPort, compile_proxy
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports
from deploy.local.proxy import Proxy


class FarWay:
    """The distance before the brokers of one cluster: a port for each of them, and the process that listens there."""

    def __init__(self, brokers: int) -> None:
        self.ports = [FarPort(port) for port in pick_ports(brokers)]
        self._proxy: DistanceProxy | None = None

    def begin(self, rtt_ms: float, folder: Path) -> None:
        """Compile and start the proxy. Raises BenchError."""
        folder.mkdir(parents=True, exist_ok=True)
        ports = {port.port: port.target[1] for port in self.ports}
        self._proxy = DistanceProxy(compile_proxy(folder), Distance(rtt_ms=rtt_ms), ports).__enter__()

    def read(self) -> Carried:
        """Return the counters of the proxy. Raises BenchError if it does not run."""
        if self._proxy is None:
            raise BenchError("distance", "the proxy does not run")
        return self._proxy.read()

    def close(self) -> None:
        """End the proxy."""
        if self._proxy is not None:
            self._proxy.close()
        self._proxy = None


class FarCluster(EmbeddedCluster):
    """A cluster at a distance from the mirror; `way.begin` before the mirror starts."""

    def __init__(self, name: str, folder: Path, *, brokers: int, overrides: Mapping[str, str], heap_mib: int) -> None:
        super().__init__(name, folder, brokers=brokers, overrides=overrides, heap_mib=heap_mib)
        self.way = FarWay(brokers)
        addresses = [broker.address for broker in self.brokers]
        self.brokers = [
            FrontedBroker(broker.address, addresses, broker.folder, self.cluster_id, port)
            for broker, port in zip(self.brokers, self.way.ports, strict=True)
        ]

    @property
    def mirror_servers(self) -> str:
        """The addresses for the mirror: those of the distance."""
        return ",".join(f"{HOST}:{port.port}" for port in self.way.ports)

    def stop(self) -> None:
        """Stop the brokers and the proxy."""
        super().stop()
        self.way.close()


class FarFrontedCluster(FrontedCluster):
    """A cluster at a distance, with a proxy for faults before the distance, next to the mirror."""

    def __init__(self, name: str, folder: Path, *, brokers: int, overrides: Mapping[str, str], heap_mib: int) -> None:
        self.way = FarWay(brokers)
        super().__init__(name, folder, brokers=brokers, overrides=overrides, heap_mib=heap_mib)

    def stop(self) -> None:
        """Stop brokers and proxies."""
        super().stop()
        self.way.close()

    def _stand_before(self) -> Sequence[Front]:
        return [_BeforeDistance(proxy, port) for proxy, port in zip(self.fronts.proxies, self.way.ports, strict=True)]


class _BeforeDistance:
    """A proxy for faults and the distance behind it, as one front: clients come to the proxy, the broker is behind."""

    def __init__(self, proxy: Proxy, behind: FarPort) -> None:
        self._proxy, self._behind = proxy, behind
        proxy.target = (HOST, behind.port)

    @property
    def port(self) -> int:
        """The port that clients are told."""
        return self._proxy.port

    @property
    def target(self) -> tuple[str, int]:
        """The listener of the broker."""
        return self._behind.target

    @target.setter
    def target(self, target: tuple[str, int]) -> None:
        self._behind.target = target
