"""Clusters of one broker with a second listener that speaks TLS: who measures or tests stays on the plain one."""

import subprocess
from pathlib import Path

from bench.errors import BenchError
from bench.systems.launch import Tls
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports


def make_certificates(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this address that is its own authority; return it, and it with its key, as PEM files.

    Raises BenchError.
    """
    key, authority, chain = folder / "tls-key.pem", folder / "tls-authority.pem", folder / "tls-chain.pem"
    wanted = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}")
    command = ("openssl", *wanted, "-addext", f"subjectAltName=IP:{HOST}", "-keyout", key, "-out", authority)
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise BenchError("tls", "no openssl on PATH") from None
    except subprocess.CalledProcessError as error:
        raise BenchError("tls", f"openssl made no certificate: {error.stderr[-500:]}") from None
    chain.write_text(key.read_text() + authority.read_text())
    return authority, chain


def add_tls(cluster: EmbeddedCluster, chain: Path, protocol: str = "SSL") -> str:
    """Give a cluster of one broker that has not started the listener `secure`, with TLS; return its address."""
    address = cluster.brokers[0].address
    (port,) = pick_ports(1, (address.port, address.controller_port))
    doors = f"PLAINTEXT://{HOST}:{address.port},SECURE://{HOST}:{port}"
    cluster.overrides |= {
        "listeners": f"{doors},CONTROLLER://{HOST}:{address.controller_port}",
        "advertised.listeners": doors,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:{protocol}",
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(chain),
    }
    return f"{HOST}:{port}"


def with_tls(source: EmbeddedCluster, target: EmbeddedCluster, folder: Path) -> Tls:
    """Give both clusters a listener with TLS before they start. Raises BenchError."""
    authority, chain = make_certificates(folder)
    return Tls(source=add_tls(source, chain), target=add_tls(target, chain), authority=authority, chain=chain)
