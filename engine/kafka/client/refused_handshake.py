"""Explains why a broker refused a connection, and which setting would be right. aiokafka's errors name neither."""

import errno
import re
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from aiokafka.errors import IllegalSaslStateError, SaslAuthenticationFailed

from engine.base.errors import BrokerRefuses, BrokerSilent, BrokerUnreachable, NoBroker
from engine.base.redaction import error_text, own_redacted, redacted
from engine.config.security import HandshakeOptions
from engine.kafka.client.authentication import MechanismRefused
from engine.security.sasl.login import LoginFailed

_NUMBER = re.compile(r"\[Errno (\d+)\]")
_NO_CONNECTION = {
    errno.ECONNREFUSED: "the connection is refused: nothing listens on that port",
    errno.EHOSTUNREACH: "no route to that host from here",
    errno.ENETUNREACH: "no route to that network from here",
}
_TRUST = "set ssl.truststore.location to a store with the broker's authority, and ssl.truststore.type to its kind"
_OWN = "set ssl.keystore.location to a store with its key and certificate, and ssl.keystore.type to its kind"
_REFUSED_PASSWORD = "the broker does not know the user name and password of sasl.jaas.config"
_REFUSED_LOGINS = {
    "OAUTHBEARER": "the broker does not accept the token: its issuer, audience, scope and time must be those that the"
    " broker expects",
    "GSSAPI": "the broker does not accept the ticket: sasl.kerberos.service.name and the host of the address must be"
    " those of the broker's principal",
    "AWS_MSK_IAM": "the broker does not accept the signature: the identity needs kafka-cluster:Connect, and the clock"
    " must be right",
}
"""By mechanism, what a refused login may have wrong."""

_METADATA_KEY = 3
_FIRST_BYTES = 64
_MOST_ANSWER_BYTES = 1 << 20
"""No broker's list of API versions is this long, so a longer first answer is not Kafka's."""
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""First bytes of a TLS alert and of a TLS handshake."""


class FirstWords:
    """The first bytes that aiokafka receives; ends the connection at once if the peer does not speak Kafka.

    aiokafka reads the first four bytes as a length. The bytes `HTTP` mean over a gigabyte, for which it would wait.
    """

    def __init__(self) -> None:
        self.connected = False
        self.heard = b""

    @property
    def are_foreign(self) -> bool:
        """Whether the bytes cannot be the start of a Kafka response."""
        return len(self.heard) >= 4 and not 4 <= struct.unpack_from(">i", self.heard)[0] <= _MOST_ANSWER_BYTES

    def follow(self, reader: Any) -> None:
        """Record the bytes that an asyncio.StreamReader receives."""
        self.connected = True
        feed = reader.feed_data

        def fed(data: bytes) -> None:
            self._hear(data)
            if self.are_foreign:
                reader.feed_eof()
            else:
                feed(data)

        reader.feed_data = fed
        self._hear(bytes(reader._buffer))  # some servers send a greeting before any request
        if self.are_foreign:
            reader.feed_eof()

    def _hear(self, data: bytes) -> None:
        self.heard += data[: _FIRST_BYTES - len(self.heard)]


def first_words(handshake: Any) -> FirstWords:
    """Return the object that will receive the first bytes of aiokafka's handshake."""
    words = FirstWords()
    begin = handshake._create_reader_task

    def began() -> Any:
        words.follow(handshake._reader)
        return begin()

    handshake._create_reader_task = began
    return words


def check_broker(address: str, versions: Mapping[int, tuple[int, int]]) -> None:
    """Raise NoBroker if a port speaks Kafka's protocol but does not offer Metadata, so it is not a broker's port."""
    if _METADATA_KEY not in versions:
        why = "it offers no Metadata request (a KRaft controller's port? clients need a broker's port)"
        raise NoBroker(address, why)


def failure(address: str, error: BaseException, options: HandshakeOptions, words: FirstWords) -> BrokerUnreachable:
    """Return the error for a handshake that failed with `error`, depending on how far it came."""
    if words.heard.startswith(_TLS_RECORDS):
        right = "set security.protocol = SSL or SASL_SSL, or give the port without TLS"
        return BrokerRefuses(address, f"the port speaks TLS; {right}")
    if words.are_foreign:
        return NoBroker(address, f"{_said(words.heard)}; give a broker's port")
    if words.connected and isinstance(error, TimeoutError):
        return BrokerSilent(address, _silence(options, words))
    why = explain(error, options)
    if refuses(error):
        return BrokerRefuses(address, why)
    if words.connected and not words.heard and _hung_up(error):
        return BrokerSilent(
            address, f"and closes it without an answer; does a Kafka broker listen there, and {_fits(options)}"
        )
    return BrokerUnreachable(address, why)


def _said(heard: bytes) -> str:
    if heard.startswith(b"HTTP"):
        return "it speaks HTTP"
    line = heard.splitlines()[0].decode("ascii", "replace")
    return f"it says {line!r}" if line.isascii() and line.isprintable() else "what it sends is not Kafka's protocol"


def _silence(options: HandshakeOptions, words: FirstWords) -> str:
    if words.heard:
        return f"but does not end the handshake within {options.timeout_s:g} s"
    return (
        f"but has not answered a Kafka request after {options.timeout_s:g} s; does a Kafka broker listen there, and"
        f" {_fits(options)}"
    )


def login_failure(address: str, error: LoginFailed) -> BrokerUnreachable:
    """Return the error for a login that could not begin, or whose broker could not prove that it is the right one."""
    kind = BrokerUnreachable if error.may_pass else BrokerRefuses
    return kind(address, own_redacted(error.why))


def explain(error: BaseException, options: HandshakeOptions) -> str:
    """Return why a handshake failed and, if known, which setting would be right; never a secret."""
    if isinstance(error, MechanismRefused):
        named = ", ".join(sorted(error.enabled))
        enabled = f"use an enabled one: {named}" if named else "ask which it has enabled"
        return f"the broker does not accept sasl.mechanism = {options.sasl_mechanism}; {enabled}"
    if isinstance(error, SaslAuthenticationFailed):
        return f"{redacted(str(error))}; {_REFUSED_LOGINS.get(options.sasl_mechanism or '', _REFUSED_PASSWORD)}"
    words = error_text(error)
    alert = next((str(one) for one in _causes(error) if isinstance(one, ssl.SSLError)), "")
    if "CERTIFICATE_VERIFY_FAILED" in alert:
        return f"{words}; {_TRUST}"
    if "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert or "HANDSHAKE_FAILURE" in alert):
        if not options.has_certificate:
            return f"the broker asks for a client certificate, but none is set; {_OWN} ({words})"
        return f"the broker rejects the client certificate; ssl.keystore.location needs one that it trusts ({words})"
    if "WRONG_VERSION_NUMBER" in alert or "RECORD_LAYER_FAILURE" in alert:
        return f"the port does not speak TLS; give the TLS port, or another security.protocol ({words})"
    if isinstance(error, IllegalSaslStateError):
        words = "the port accepts no login"
    elif not _hung_up(error):
        return _plain(error, options) or words
    return f"{words}, during the handshake; {_fits(options)}"


def _fits(options: HandshakeOptions) -> str:
    wanted = ""
    if options.security_protocol.endswith("SSL"):  # the broker's reason is often lost with the connection
        asks = "does it not trust the" if options.has_certificate else "does it ask for a"
        wanted = f", or {asks} client certificate (ssl.keystore.location)"
    return f"does security.protocol = {options.security_protocol} fit this port{wanted}?"


def _hung_up(error: BaseException) -> bool:
    return isinstance(error, ConnectionResetError) or str(error).endswith(" closed")


def _plain(error: BaseException, options: HandshakeOptions) -> str:
    """Return in plain words why there is no connection; empty if the text of the error is as good."""
    if isinstance(error, TimeoutError):
        tls = ", or does the port not speak TLS" if options.security_protocol.endswith("SSL") else ""
        return f"no answer in time; is that address reachable from here, and does no firewall drop it{tls}?"
    if isinstance(error, UnicodeError):
        return "that is no name of a host"
    if isinstance(error, socket.gaierror):
        return "no host of that name is known here"
    numbers = {int(number) for number in _NUMBER.findall(str(error))}
    for number, words in _NO_CONNECTION.items():
        if numbers == {number}:  # a name with several addresses has one number for each
            return words
    return ""


def refuses(error: BaseException) -> bool:
    """Return whether a broker answered and refused, so that a setting must change and waiting does not help.

    A connection that closes without any bytes does not count: a proxy does that while its broker is down.
    """
    if isinstance(error, MechanismRefused | SaslAuthenticationFailed | IllegalSaslStateError):
        return True
    alerts = [one for one in _causes(error) if isinstance(one, ssl.SSLError)]
    return any(not isinstance(alert, ssl.SSLEOFError | ssl.SSLZeroReturnError) for alert in alerts)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
