"""Why a broker did not let us in, in words that say what would be right. aiokafka's own errors name neither."""

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any

from aiokafka.errors import IllegalSaslStateError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.admin import SaslHandShakeRequest

from engine.kafka.security import HandshakeOptions

_NUMBER = re.compile(r"\[Errno (\d+)\]")
_NO_CONNECTION = {
    errno.ECONNREFUSED: "the connection is refused: nothing listens on that port",
    errno.EHOSTUNREACH: "no way leads to that host from here",
    errno.ENETUNREACH: "no way leads to that network from here",
}
_OWN = "set ssl.keystore.type = PEM and ssl.keystore.location to a PEM file with its key and certificate"


def heard_mechanisms(handshake: Any) -> list[str]:
    """Return a list that the SASL mechanisms a broker has enabled go to, when aiokafka's handshake is told of them."""
    heard: list[str] = []
    send = handshake.send

    async def listen(answer: Any) -> Any:
        found = await answer
        heard.extend(found.enabled_mechanisms)
        return found

    def sent(request: Any, *words: Any, **more: Any) -> Any:
        answer = send(request, *words, **more)
        return listen(answer) if isinstance(request, SaslHandShakeRequest) else answer

    handshake.send = sent
    return heard


def explain(error: BaseException, options: HandshakeOptions, mechanisms: Sequence[str] = ()) -> str:
    """Say why a handshake failed, and which setting would be right where that is known; never with a secret."""
    if isinstance(error, UnsupportedSaslMechanismError):
        enabled = f"use one of its own: {', '.join(sorted(mechanisms))}" if mechanisms else "ask which it has enabled"
        return f"the broker does not take sasl.mechanism = {options.sasl_mechanism}; {enabled}"
    if isinstance(error, SaslAuthenticationFailed):
        return f"{error}; name and password of sasl.jaas.config are not those that the broker knows"
    words = str(error) or type(error).__name__
    alert = next((str(one) for one in _causes(error) if isinstance(one, ssl.SSLError)), "")
    if "CERTIFICATE_VERIFY_FAILED" in alert:
        trusted = "set ssl.truststore.type = PEM and ssl.truststore.location to a PEM file with the broker's authority"
        return f"{words}; {trusted}"
    if "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert or "HANDSHAKE_FAILURE" in alert):
        if not options.has_certificate:
            return f"the broker asks for a certificate of ours, and none is given; {_OWN} ({words})"
        return f"the broker does not take our certificate; ssl.keystore.location must hold one that it trusts ({words})"
    if "WRONG_VERSION_NUMBER" in alert or "RECORD_LAYER_FAILURE" in alert:
        return f"no TLS is spoken there; give the TLS port, or another security.protocol ({words})"
    if isinstance(error, IllegalSaslStateError):
        words = "no login is taken there"
    elif not (isinstance(error, ConnectionResetError) or words.endswith(" closed")):
        return _plain(error) or words
    wanted = ""
    if options.security_protocol.endswith("SSL"):  # the broker's reason is often lost with the connection
        asks = (
            "does it not trust our certificate" if options.has_certificate else "does it ask for a certificate of ours"
        )
        wanted = f", or {asks} (ssl.keystore.location)"
    return f"{words}, during the handshake; does security.protocol = {options.security_protocol} fit this port{wanted}?"


def _plain(error: BaseException) -> str:
    """Say in plain words why no connection came about; empty where the error's own words are as good."""
    if isinstance(error, TimeoutError):
        return "no answer in time; is that address reachable from here, and does no firewall drop it?"
    if isinstance(error, socket.gaierror):
        return "no host of that name is known here"
    numbers = {int(number) for number in _NUMBER.findall(str(error))}
    for number, words in _NO_CONNECTION.items():
        if numbers == {number}:  # a name with several addresses has one number for each
            return words
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
