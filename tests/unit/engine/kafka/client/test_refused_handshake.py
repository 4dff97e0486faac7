"""Why a broker refused a connection: what is wrong, and which setting would be right."""

import socket
import ssl

import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
)

from engine.base.errors import BrokerRefuses, BrokerUnreachable
from engine.config.security import HandshakeOptions
from engine.kafka.client.authentication import MechanismRefused
from engine.kafka.client.refused_handshake import explain, login_failure, refuses
from engine.security.sasl.login import LoginFailed

PLAIN = HandshakeOptions(security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
BEARER = HandshakeOptions(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER")
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
        (MechanismRefused(["B", "A"]), PLAIN, "does not accept sasl.mechanism = PLAIN; use an enabled one: A, B"),
        (SaslAuthenticationFailed("no"), PLAIN, "name and password of sasl.jaas.config"),
        (SaslAuthenticationFailed("no"), BEARER, "does not accept the token: its issuer, audience"),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] x"), TLS, "ssl.truststore.location"),
        (closed_by("TLSV13_ALERT_CERTIFICATE_REQUIRED"), TLS, "none is set; set ssl.keystore.location"),
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
        (UnicodeError("label empty or too long"), OPEN, "that is no name of a host"),
        (socket.gaierror(-2, "Name or service not known"), OPEN, "no host of that name is known here"),
        (OSError(24, "Too many open files"), OPEN, "Too many open files"),
    ],
    ids=[
        *("mechanism", "password", "token", "authority", "1.3", "1.2", "not ours", "no TLS", "closed", "closed in TLS"),
        *("reset", "no login", "refused", "silent", "both refused", "two reasons", "no route", "no host"),
        *("no name", "no file"),
    ],
)
def test_it_says_what_would_be_right(error: Exception, options: HandshakeOptions, says: str) -> None:
    assert says in explain(error, options)
    waits = "Connection at h:1 closed", "refused", "Multiple", "No route", "Name or service", "Too many", "label"
    silent = isinstance(error, TimeoutError | ConnectionResetError)
    ended_in_tls = isinstance(error.__cause__, ssl.SSLError)
    assert refuses(error) == (ended_in_tls or not (silent or any(text in str(error) for text in waits)))


def test_a_connection_that_ends_in_the_tls_handshake_may_be_a_proxy_s_whose_broker_is_away() -> None:
    for ended in (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), ssl.SSLZeroReturnError(6, "closed")):
        assert not refuses(ended)


def test_a_broker_that_names_no_mechanisms() -> None:
    assert explain(MechanismRefused([]), PLAIN).endswith("ask which it has enabled")


def test_a_login_that_may_work_later_is_no_refusal() -> None:
    away, wrong = LoginFailed("no token", may_pass=True), LoginFailed("wrong secret")
    assert type(login_failure("h:1", away)) is BrokerUnreachable
    assert type(login_failure("h:1", wrong)) is BrokerRefuses
