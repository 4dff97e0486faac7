"""Clusters behind TLS with a private authority: clients log in by name and password in SCRAM, or by a certificate.

Tests use the plain listener as super user; a mirror uses `address`. The mirror's user may do everything, so a listener
that logs it in as another user is detected.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports

NAME, PASSWORD, KEY_PASSWORD = "mirror", "open sesame, =please", "of the key"
_CONFIGS = "kafka.admin.ConfigCommand"
_DAYS = ("-days", "2")


class Authority:
    """A certificate authority, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self.certificate = folder / "authority.pem"
        self._key = folder / "authority.key"
        made = ("-x509", "-newkey", "rsa:2048", "-nodes", *_DAYS, "-subj", "/CN=authority")
        _openssl("req", *made, "-keyout", self._key, "-out", self.certificate)

    def sign(self, name: str, *, password: str = "") -> Path:
        """Make a key and a certificate of a name, valid for this address; return both in one PEM file."""
        key, wish, signed, chain = (self._folder / f"{name}.{end}" for end in ("key", "csr", "crt", "pem"))
        locked = ("-passout", f"pass:{password}") if password else ("-nodes",)
        _openssl("req", "-newkey", "rsa:2048", *locked, "-subj", f"/CN={name}", "-keyout", key, "-out", wish)
        names = self._folder / f"{name}.ext"
        names.write_text(f"subjectAltName=IP:{HOST}\n")
        signer = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", wish, *signer, *_DAYS, "-extfile", names, "-out", signed)
        chain.write_text(key.read_text() + signed.read_text())
        return chain


class Guarded:
    """A cluster of one broker with a second door: SASL_SSL with both kinds of SCRAM, or SSL for certificates."""

    def __init__(self, name: str, folder: Path, authority: Authority, *, scram: bool) -> None:
        self.cluster = EmbeddedCluster(name, folder)
        broker = self.cluster.brokers[0].address
        (port,) = pick_ports(1)
        self.address = f"{HOST}:{port}"
        doors = f"PLAINTEXT://{HOST}:{broker.port},GUARDED://{HOST}:{port}"
        guarded = "listener.name.guarded"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        self.cluster.overrides |= {
            "listeners": f"{doors},CONTROLLER://{HOST}:{broker.controller_port}",
            "advertised.listeners": doors,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:"
            + ("SASL_SSL" if scram else "SSL"),
            f"{guarded}.ssl.keystore.type": "PEM",
            f"{guarded}.ssl.keystore.location": str(authority.sign(f"broker-of-{name}")),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{NAME}" if scram else f"User:ANONYMOUS;User:CN={NAME}",
        }
        if scram:
            self.cluster.overrides |= {
                f"{guarded}.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
                f"{guarded}.scram-sha-256.sasl.jaas.config": login,
                f"{guarded}.scram-sha-512.sasl.jaas.config": login,
            }
        else:
            self.cluster.overrides |= {
                f"{guarded}.ssl.client.auth": "required",
                f"{guarded}.ssl.truststore.type": "PEM",
                f"{guarded}.ssl.truststore.location": str(authority.certificate),
            }

    def admit(self) -> None:
        """Let the mirror's name in with its password, by both mechanisms: a broker takes one of them per request."""
        where = ("--bootstrap-server", self.cluster.bootstrap_servers, "--alter")
        user = ("--entity-type", "users", "--entity-name", NAME)

        def know(bits: int) -> None:
            self.cluster.tool(_CONFIGS, *where, "--add-config", f"SCRAM-SHA-{bits}=[password={PASSWORD}]", *user)

        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(know, (256, 512)))


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
