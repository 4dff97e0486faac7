"""A cluster with a second listener: TLS with name and password, and rights that tests give to that name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.tls import add_tls, make_certificates
from deploy.local.cluster import EmbeddedCluster

NAME, PASSWORD = "mirror", 'sesame "open"'
_ESCAPED = PASSWORD.replace('"', '\\\\"')
"""As a login in a properties file has it: escaped for the login, and that for the file."""
_ACLS = "org.apache.kafka.tools.AclCommand"


class SecuredCluster:
    """One broker. Tests go in by the plain door, as everybody; a mirror by `address`, as `mirror`."""

    def __init__(self, name: str, folder: Path, log_levels: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self.cluster = EmbeddedCluster(name, folder / "cluster", log_levels=log_levels)
        self._authority, chain = make_certificates(folder)
        self.address = add_tls(self.cluster, chain, "SASL_SSL")
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        self.cluster.overrides |= {
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
