"""OAUTHBEARER: one message with a token and extensions (RFC 7628, KIP-342; Kafka: OAuthBearerSaslClient)."""

import re
from collections.abc import Mapping

from engine.security.oauth.keeper import TokenKeeper
from engine.security.sasl.jaas import JAAS
from engine.security.sasl.login import Exchange
from engine.security.settings import BadSecurity

_SEPARATOR = "\x01"
_NAME, _VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7E \t\r\n]+")
_RESERVED = "auth"


class BearerLogin:
    """A token that is fetched when it is needed, and extensions such as `logicalCluster` of Confluent Cloud."""

    mechanism = "OAUTHBEARER"
    user = ""
    """Which claim names the user, only the broker knows."""

    def __init__(self, keeper: TokenKeeper, extensions: Mapping[str, str]) -> None:
        self._keeper = keeper
        self._extensions = "".join(f"{_SEPARATOR}{name}={value}" for name, value in _checked(extensions).items())

    def exchange(self, host: str) -> Exchange:  # noqa: ARG002
        """Begin with a valid token. Raises LoginFailed."""
        return self._messages(self._keeper.get().value)

    def _messages(self, token: str) -> Exchange:
        message = f"n,,{_SEPARATOR}auth=Bearer {token}{self._extensions}{_SEPARATOR}{_SEPARATOR}"
        refusal = yield message.encode()
        if refusal:  # a broker says in its first answer what it refuses, and ends the login after this
            yield _SEPARATOR.encode()


def _checked(extensions: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse what no broker reads (OAuthBearerClientInitialResponse). Raises BadSecurity."""
    for name, value in extensions.items():
        if name == _RESERVED or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            right = f"the name of an extension has letters only and is not {_RESERVED}; its value is printable ASCII"
            raise BadSecurity(JAAS, "has an extension that no broker reads", right)
    return extensions
