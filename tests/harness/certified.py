"""Two clusters that know their clients by certificates (mTLS), each behind a relay that cuts connections.

The stores of both sides are keytool's. `Certified.rotate` gives every side another key and certificate, and withdraws
the trust in the client's old one, as an administrator does.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster, running_clusters
from tests.harness.keytool import export, make_key_store, make_trust_store
from tests.harness.listeners import add_listeners
from tests.harness.relay import Relay, relaying

_BROKER_PASSWORD = "of the brokers"
_PASSWORDS = {"first": "of the store", "next": "of the next store"}
PRESENT = "present"
"""The folder of the stores that the mirror uses."""
_LISTENER = "MUTUAL"
_DYNAMIC = f"listener.name.{_LISTENER.lower()}.ssl"


class Certified:
    """The clusters, and the client's stores of one of Java's formats with their passwords in a file of secrets."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        for age, password in _PASSWORDS.items():
            self._make_broker_key(age)
            key_password = None if kind == "PKCS12" else _key_password(age)
            make_key_store(self._own(age), kind, password, key_password=key_password)
            export(self._own(age), kind, password, folder / f"own-{age}.pem")
            make_trust_store(folder / f"clients-{age}.jks", "JKS", _BROKER_PASSWORD, folder / f"own-{age}.pem")
        first, both = folder / "broker-first.pem", folder.glob("broker-*.pem")
        make_trust_store(folder / f"trust-first.{kind}", kind, _PASSWORDS["first"], first)
        make_trust_store(folder / f"trust-next.{kind}", kind, _PASSWORDS["next"], *both)
        self.place(PRESENT, "first", "first")
        self.source, self.target = (EmbeddedCluster(name, folder / name) for name in ("certs-source", "certs-target"))
        clusters = (self.source, self.target)
        at = [add_listeners(one, {_LISTENER: ("SSL", self._listener())})[_LISTENER] for one in clusters]
        self.relays = [Relay(one, address) for one, address in zip(clusters, at, strict=True)]

    def _make_broker_key(self, age: str) -> None:
        store = self.folder / f"broker-{age}.p12"
        make_key_store(store, "PKCS12", _BROKER_PASSWORD, name="broker")
        export(store, "PKCS12", _BROKER_PASSWORD, self.folder / f"broker-{age}.pem")

    def _own(self, age: str) -> Path:
        return self.folder / f"own-{age}.{self.kind}"

    def _listener(self) -> dict[str, str]:
        return {
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.folder / "broker-first.p12"),
            "ssl.keystore.password": _BROKER_PASSWORD,
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": str(self.folder / "clients-first.jks"),
            "ssl.truststore.password": _BROKER_PASSWORD,
        }

    def place(self, name: str, own: str, trust: str) -> None:
        """Put stores and a file of their passwords into a folder, each in one step; ages are `first` or `next`."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for store, age in (("own", own), ("trust", trust)):
            shutil.copy(self.folder / f"{store}-{age}.{self.kind}", folder / "new")
            (folder / "new").rename(folder / store)
        passwords = {"keystore": _PASSWORDS[own], "key": _key_password(own), "truststore": _PASSWORDS[trust]}
        (folder / "new").write_text("".join(f"{key} = {value}\n" for key, value in passwords.items()))
        (folder / "new").rename(folder / "secrets")

    def settings(self, name: str = PRESENT) -> str:
        """Return the settings of both clusters, A and B, with the stores of a folder."""
        folder = self.folder / name
        lines = ""
        for alias, relay in zip("AB", self.relays, strict=True):
            lines += f"{alias}.bootstrap.servers = {relay.address}\n{alias}.security.protocol = SSL\n"
            for store, file in (("keystore", "own"), ("truststore", "trust")):
                key = f"{alias}.ssl.{store}"
                lines += f"{key}.type = {self.kind}\n{key}.location = {folder / file}\n"
                lines += f"{key}.password = ${{file:{folder}/secrets:{store}}}\n"
            if self.kind != "PKCS12":  # there keytool knows one password only
                lines += f"{alias}.ssl.key.password = ${{file:{folder}/secrets:key}}\n"
        return lines

    def rotate(self) -> None:
        """Give the client, then the brokers, their next keys; from then on the client's first one is refused."""
        self.place(PRESENT, "next", "next")
        renewed = {"keystore": "broker-next.p12", "truststore": "clients-next.jks"}
        added = ",".join(f"{_DYNAMIC}.{name}.location={self.folder / file}" for name, file in renewed.items())
        for cluster in (self.source, self.target):
            at = ("--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "brokers", "--entity-name", "1")
            cluster.tool("kafka.admin.ConfigCommand", *at, "--alter", "--add-config", added)

    def cut(self) -> None:
        """Let every connection end; the next ones have handshakes."""
        for relay in self.relays:
            relay.cut()


def _key_password(age: str) -> str:
    return f"{_PASSWORDS[age]} its key"


@contextmanager
def certified_clusters(folder: Path, kind: str) -> Iterator[Certified]:
    """Start both clusters and their relays."""
    made = Certified(folder, kind)
    with running_clusters(made.source, made.target), relaying(*made.relays):
        yield made
