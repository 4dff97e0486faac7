"""Makes SSL contexts from Kafka's `ssl.*` keys; a private key is never written to a disk in clear text."""

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.keys import HOSTNAME_CHECK, KEYSTORE, TRUSTSTORE, check_tls, place
from engine.security.tls.pem import locked_text
from engine.security.tls.protocols import restrict
from engine.security.tls.store import BadStore, KeyEntry
from engine.security.tls.stores import client_key, trusted


def tls_context(settings: SecuritySettings) -> ssl.SSLContext:
    """Return a context of resolved settings: it trusts the truststore, or the system's authorities. Raises BadSecurity.

    Every certificate of a truststore is trusted by itself, also one that another authority signed, as in Java.
    """
    check_tls(settings)
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    restrict(context, settings)
    authorities = trusted(settings)
    if authorities is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=b"".join(authorities))
        except (ssl.SSLError, ValueError):
            wrong = "cannot be used: a certificate cannot be read"
            raise BadSecurity(place(settings, TRUSTSTORE), wrong, "give a whole store") from None
    key = client_key(settings)
    if key is not None:
        _load(context, key, place(settings, KEYSTORE))
    if settings.known(HOSTNAME_CHECK) == "":
        context.check_hostname = False
    return context


class _Context(ssl.SSLContext):
    """Drops the dot at the end of an absolute name, as Java does: no SNI (RFC 6066) and no certificate has it."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if isinstance(server_hostname, str):
            server_hostname = server_hostname.removesuffix(".")
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _load(context: ssl.SSLContext, entry: KeyEntry, key: str) -> None:
    """Give a context a key. OpenSSL reads it from a file, so that file is encrypted with a password used once."""
    password = secrets.token_bytes(24).hex().encode()
    try:
        with _file(locked_text(entry, password)) as path:
            context.load_cert_chain(path, password=password)
    except BadStore as bad:
        raise BadSecurity(key, f"cannot be used: {bad.wrong}", "give another store") from None
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else ""
        if reason == "KEY_VALUES_MISMATCH":
            wrong = "cannot be used: its first certificate does not belong to its private key"
            raise BadSecurity(key, wrong, "give the certificate of the key first") from None
        said = (reason or "a certificate cannot be read").replace("_", " ").lower()
        right = "give a store that the OpenSSL of this system takes, e.g. with a key of 2048 bits and SHA-256"
        raise BadSecurity(key, f"cannot be used: OpenSSL says: {said}", right) from None


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Write a file that only this process reads: in memory where the system can, else in the folder for such files."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("raymirror")
        try:
            os.write(number, content)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "key.pem"
            path.write_bytes(content)
            yield str(path)
