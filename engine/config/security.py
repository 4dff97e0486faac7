"""The options of a handshake with a cluster, and their names in aiokafka."""

import ssl
from typing import Any

import msgspec

from engine.config.tuning.client_tuning import ClientTuning


class HandshakeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a connection needs before its first request; `repr` and rich's repr show no password."""

    client_id: str = "raymirror"
    timeout_s: float = 10.0
    security_protocol: str = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    has_certificate: bool = False
    """Whether the context has a client certificate."""
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    tuning: ClientTuning = ClientTuning()

    def aiokafka(self) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka's connection."""
        return {
            "client_id": self.client_id,
            "request_timeout_ms": int(self.timeout_s * 1000),
            "ssl_context": self.ssl_context,
            "security_protocol": self.security_protocol,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def __repr__(self) -> str:
        return f"HandshakeOptions({self.security_protocol}, client_id={self.client_id!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("security_protocol", self.security_protocol), ("client_id", self.client_id)]
