"""More listeners of a cluster of one broker, each with a protocol and login of its own, beside the plain one."""

from collections.abc import Mapping

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports


def add_listeners(cluster: EmbeddedCluster, wanted: Mapping[str, tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Give a cluster that has not started listeners: name -> (protocol, properties). Return their addresses by name."""
    broker = cluster.brokers[0].address
    free = pick_ports(len(wanted), (broker.port, broker.controller_port))
    ports = dict(zip(wanted, free, strict=True))
    doors = ",".join(
        [f"PLAINTEXT://{HOST}:{broker.port}", *(f"{name}://{HOST}:{port}" for name, port in ports.items())]
    )
    protocols = [f"{name}:{protocol}" for name, (protocol, _) in wanted.items()]
    cluster.overrides |= {
        "listeners": f"{doors},CONTROLLER://{HOST}:{broker.controller_port}",
        "advertised.listeners": doors,
        "listener.security.protocol.map": ",".join(["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]),
    }
    for name, (_, properties) in wanted.items():
        cluster.overrides |= {f"listener.name.{name.lower()}.{key}": value for key, value in properties.items()}
    return {name: f"{HOST}:{port}" for name, port in ports.items()}
