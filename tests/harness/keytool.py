"""Java's own keytool: stores that no code of this repository has written."""

import subprocess
from pathlib import Path

from deploy.local.java import find_java

_DAYS = ("-validity", "2")


def keytool(*words: object) -> None:
    """Run it. Raises CalledProcessError with what it said."""
    tool = find_java().resolve().with_name("keytool")
    subprocess.run([str(tool), *map(str, words)], check=True, capture_output=True, text=True)


def make_key_store(
    path: Path, kind: str, password: str, *, key_password: str | None = None, name: str = "mirror"
) -> None:
    """Make a store with an RSA key and a certificate of its own for this address."""
    locked = () if key_password is None else ("-keypass", key_password)
    keytool(
        *("-genkeypair", "-alias", "own", "-keyalg", "RSA", "-keysize", "2048", *_DAYS, "-dname", f"CN={name}"),
        *("-ext", "SAN=IP:127.0.0.1", "-keystore", path, "-storetype", kind, "-storepass", password, *locked),
    )


def export(store: Path, kind: str, password: str, to: Path) -> None:
    """Write the certificate of a store's key as PEM."""
    keytool(
        *("-exportcert", "-rfc", "-alias", "own", "-file", to, "-keystore", store),
        *("-storetype", kind, "-storepass", password),
    )


def make_trust_store(path: Path, kind: str, password: str, *certificates: Path) -> None:
    """Make a store that trusts certificates in PEM."""
    for number, certificate in enumerate(certificates):
        keytool(
            *("-importcert", "-noprompt", "-alias", f"c{number}", "-file", certificate, "-keystore", path),
            *("-storetype", kind, "-storepass", password),
        )
