"""The options of a handshake with a cluster: names and times that stay, and credentials as they are at the moment."""

import ssl
from collections.abc import Callable
from typing import Any

import msgspec

from engine.config.tuning.client_tuning import ClientTuning
from engine.security.sasl.login import Login


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What one handshake uses: the SSL context if there is TLS, the login if there is SASL."""

    ssl_context: ssl.SSLContext | None = None
    login: Login | None = None

    def __repr__(self) -> str:
        return "Credentials()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


_NONE = Credentials()


class HandshakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a connection needs before its first request; `repr` and rich's repr show no password."""

    client_id: str = "raymirror"
    timeout_s: float = 10.0
    security_protocol: str = "PLAINTEXT"
    has_certificate: bool = False
    """Whether a client certificate is set."""
    sasl_mechanism: str | None = None
    user: str = ""
    """Raymirror's name at the brokers; empty if only they know it."""
    tuning: ClientTuning = ClientTuning()
    credentials: Callable[[], Credentials] = lambda: _NONE
    """Returns the present credentials: it reads secrets and stores that have changed. Call it in a thread.

    Raises ConfigError only if there were no credentials before that could be used.
    """

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        """Whether the broker wants to know who connects, by SASL."""
        return self.security_protocol.startswith("SASL")

    def aiokafka(self, credentials: Credentials) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka's connection, which does TCP, TLS and ApiVersions, but no login."""
        return {
            "client_id": self.client_id,
            "request_timeout_ms": int(self.timeout_s * 1000),
            "ssl_context": credentials.ssl_context,
            "security_protocol": "SSL" if self.has_tls else "PLAINTEXT",
        }

    def __repr__(self) -> str:
        return f"HandshakeOptions({self.security_protocol}, client_id={self.client_id!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("security_protocol", self.security_protocol), ("client_id", self.client_id)]
