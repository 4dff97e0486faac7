"""A broker that clients can also reach through something that stands before it: a proxy for faults, or a distance."""

from collections.abc import Mapping
from pathlib import Path
from subprocess import Popen
from typing import Protocol

from deploy.local.broker import Broker
from deploy.local.ports import HOST, pick_ports
from deploy.local.settings import BrokerPorts


class Front(Protocol):
    """What stands before a broker: it listens on `port` and connects to `target`."""

    target: tuple[str, int]

    @property
    def port(self) -> int:
        """The port that clients of the second listener are told."""
        ...


class FrontedBroker(Broker):
    """A broker with a second listener, which advertises the port of what stands before it."""

    def __init__(
        self, address: BrokerPorts, everyone: list[BrokerPorts], folder: Path, cluster_id: str, front: Front
    ) -> None:
        super().__init__(address, everyone, folder, cluster_id)
        (self._front_port,) = pick_ports(1)
        self._front = front
        front.target = (HOST, self._front_port)

    def prepare(self, overrides: Mapping[str, str]) -> Popen[bytes] | None:
        """Write the configuration with the second listener in it, and format."""
        plain, controller = f"PLAINTEXT://{HOST}:{self.port}", f"CONTROLLER://{HOST}:{self.address.controller_port}"
        listeners = {
            "listeners": f"{plain},{controller},FRONT://{HOST}:{self._front_port}",
            "advertised.listeners": f"{plain},FRONT://{HOST}:{self._front.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,FRONT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        return super().prepare({**listeners, **overrides})
