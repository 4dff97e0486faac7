"""A cluster with a second listener: TLS with name and password, and rights that tests give to that name."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports

NAME, PASSWORD = "mirror", 'sesame "open"'
_ESCAPED = PASSWORD.replace('"', '\\\\"')
"""As a login in a properties file has it: escaped for the login, and that for the file."""
_ACLS = "org.apache.kafka.tools.AclCommand"


class SecuredCluster:
    """One broker. Tests go in by the plain door, as everybody; a mirror by `address`, as `mirror`."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.cluster = EmbeddedCluster(name, folder / "cluster")
        self._authority, self._chain = _certificates(folder)
        address = self.cluster.brokers[0].address
        (port,) = pick_ports(1)
        self.address = f"{HOST}:{port}"
        doors = f"PLAINTEXT://{HOST}:{address.port},SECURE://{HOST}:{port}"
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self.cluster.overrides |= {
            "listeners": f"{doors},CONTROLLER://{HOST}:{address.controller_port}",
            "advertised.listeners": doors,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
            "listener.name.secure.ssl.keystore.type": "PEM",
            "listener.name.secure.ssl.keystore.location": str(self._chain),
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": f'{login} user_{NAME}="{_ESCAPED}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def settings(self, alias: str) -> dict[str, str]:
        """Give what an `mm2.properties` says of this cluster."""
        return {
            f"{alias}.bootstrap.servers": self.address,
            f"{alias}.security.protocol": "SASL_SSL",
            f"{alias}.sasl.mechanism": "PLAIN",
            f"{alias}.sasl.jaas.config": f'x.PlainLoginModule required username="{NAME}" password="{_ESCAPED}";',
            f"{alias}.ssl.truststore.type": "PEM",
            f"{alias}.ssl.truststore.location": str(self._authority),
        }

    def allow(self, *words: str) -> None:
        """Give the mirror rights, in the words of Kafka's own tool."""
        who = ("--add", "--allow-principal", f"User:{NAME}")
        self.cluster.tool(_ACLS, "--bootstrap-server", self.cluster.bootstrap_servers, *who, *words)


@contextmanager
def secured_cluster(name: str, folder: Path) -> Iterator[SecuredCluster]:
    """Start one; the mirror may do nothing there yet."""
    made = SecuredCluster(name, folder)
    with made.cluster:
        yield made


def _certificates(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this address that is its own authority; give it, and it with its key, as PEM files."""
    key, authority, chain = folder / "key.pem", folder / "authority.pem", folder / "chain.pem"
    made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}")
    subprocess.run(
        ["openssl", *made, "-addext", f"subjectAltName=IP:{HOST}", "-keyout", key, "-out", authority],
        check=True,
        capture_output=True,
    )
    chain.write_text(key.read_text() + authority.read_text())
    return authority, chain
