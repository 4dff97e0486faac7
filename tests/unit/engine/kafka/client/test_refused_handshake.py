"""Why a broker refused a connection: what is wrong, and which setting would be right."""

import socket
import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest

from engine.config.security import HandshakeOptions
from engine.kafka.client.refused_handshake import explain, heard_mechanisms, refuses

PLAIN = HandshakeOptions(security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
TLS = HandshakeOptions(security_protocol="SSL")
TLS_OWN = HandshakeOptions(security_protocol="SSL", has_certificate=True)
OPEN = HandshakeOptions()
CLOSED = "Connection at h:1 closed"


def closed_by(words: str) -> KafkaConnectionError:
    """Make what aiokafka raises when TLS ends a connection behind its back."""
    error = KafkaConnectionError(CLOSED)
    error.__cause__ = ssl.SSLError(1, f"[SSL: {words}] {words.lower()}")
    return error


@pytest.mark.parametrize(
    ("error", "options", "says"),
    [
        (UnsupportedSaslMechanismError("x"), PLAIN, "does not accept sasl.mechanism = PLAIN; use an enabled one: A, B"),
        (SaslAuthenticationFailed("no"), PLAIN, "name and password of sasl.jaas.config"),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x"), TLS, "ssl.truststore.location"),
        (closed_by("TLSV13_ALERT_CERTIFICATE_REQUIRED"), TLS, "none is set; set ssl.keystore.type = PEM"),
        (closed_by("SSLV3_ALERT_BAD_CERTIFICATE"), TLS, "the broker asks for a client certificate"),
        (closed_by("TLSV1_ALERT_UNKNOWN_CA"), TLS_OWN, "the broker rejects the client certificate"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), TLS, "the port does not speak TLS"),
        (KafkaConnectionError(CLOSED), OPEN, "does security.protocol = PLAINTEXT fit this port?"),
        (
            KafkaConnectionError(CLOSED),
            TLS,
            "security.protocol = SSL fit this port, or does it ask for a client certificate",
        ),
        (
            ConnectionResetError(),
            TLS_OWN,
            "SSL fit this port, or does it not trust the client certificate (ssl.keystore.location)?",
        ),
        (IllegalSaslStateError("x"), PLAIN, "the port accepts no login, during the handshake; does security.protocol"),
        (ConnectionRefusedError(111, "refused"), OPEN, "the connection is refused: nothing listens on that port"),
        (TimeoutError(), OPEN, "no answer in time"),
        (OSError("Multiple exceptions: [Errno 111] x, [Errno 111] y"), OPEN, "nothing listens on that port"),
        (OSError("Multiple exceptions: [Errno 111] x, [Errno 101] y"), OPEN, "Multiple exceptions"),
        (OSError(113, "No route to host"), OPEN, "no route to that host from here"),
        (socket.gaierror(-2, "Name or service not known"), OPEN, "no host of that name is known here"),
        (OSError(24, "Too many open files"), OPEN, "Too many open files"),
    ],
    ids=[
        *("mechanism", "password", "authority", "1.3", "1.2", "not ours", "no TLS", "closed", "closed in TLS", "reset"),
        *("no login", "refused", "silent", "both refused", "two reasons", "no route", "no name", "no file"),
    ],
)
def test_it_says_what_would_be_right(error: Exception, options: HandshakeOptions, says: str) -> None:
    assert says in explain(error, options, ["B", "A"])
    waits = "Connection at h:1 closed", "refused", "Multiple", "No route", "Name or service", "Too many"
    silent = isinstance(error, TimeoutError | ConnectionResetError)
    ended_in_tls = isinstance(error.__cause__, ssl.SSLError)
    assert refuses(error) == (ended_in_tls or not (silent or any(text in str(error) for text in waits)))


def test_a_connection_that_ends_in_the_tls_handshake_may_be_a_proxy_s_whose_broker_is_away() -> None:
    for ended in (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), ssl.SSLZeroReturnError(6, "closed")):
        assert not refuses(ended)


def test_a_broker_that_names_no_mechanisms() -> None:
    assert explain(UnsupportedSaslMechanismError("x"), PLAIN).endswith("ask which it has enabled")


async def test_mechanisms_are_heard_in_passing() -> None:
    async def answer() -> Any:
        return SimpleNamespace(enabled_mechanisms=["PLAIN"])

    handshake = SimpleNamespace(send=lambda _request, expect_response=True: answer())
    heard = heard_mechanisms(handshake)
    await handshake.send("something else")
    assert heard == []
    assert (await handshake.send(SaslHandShakeRequest("X"), expect_response=True)).enabled_mechanisms == ["PLAIN"]
    assert heard == ["PLAIN"]
