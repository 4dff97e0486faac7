"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove that they know the password (RFC 5802, Kafka: ScramSaslClient)."""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

from engine.security.sasl.login import Exchange, LoginFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS = 4096
"""Fewer rounds would let a broker that is not the right one try passwords quickly (Kafka: ScramMechanism)."""
_MOST_DIGITS = 7
"""Of the number of rounds: ten million take seconds, and what asks for more is not a Kafka broker."""
_GS2, _CHANNEL = "n,,", "biws"
"""No channel binding, as text and as base64."""
_ODD = "the broker answers the SCRAM login with a message that is not SCRAM's"


class ScramLogin:
    """A user name and a password; with `is_token`, the id and the HMAC of a delegation token (KIP-48)."""

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        *,
        is_token: bool = False,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        self.mechanism = mechanism
        self.user = "" if is_token else username
        """A token logs in its owner, whom only the brokers know."""
        self._username = username
        self._password = password
        self._extension = ",tokenauth=true" if is_token else ""
        self._nonce = nonce

    def exchange(self, host: str) -> Exchange:  # noqa: ARG002
        """Exchange nonces, prove the password, and check the broker's proof. Raises LoginFailed."""
        name = self._username.replace("=", "=3D").replace(",", "=2C")
        nonce = self._nonce()
        first = f"n={name},r={nonce}{self._extension}"
        challenge = yield f"{_GS2}{first}".encode()
        server_first = challenge.decode(errors="replace")
        fields = _fields(server_first)
        if not fields.get("r", "").startswith(nonce):
            raise LoginFailed(_ODD)
        final = f"c={_CHANNEL},r={fields['r']}"
        keys = self._keys(fields)
        message = f"{first},{server_first},{final}".encode()
        answer = yield f"{final},p={base64.b64encode(keys.proof(message)).decode()}".encode()
        signature = _fields(answer.decode(errors="replace")).get("v", "")
        if not hmac.compare_digest(_bytes(signature), keys.server_signature(message)):
            raise LoginFailed("the broker does not know the password: its own proof is wrong; is it the right broker?")

    def _keys(self, fields: dict[str, str]) -> "_ScramKeys":
        given = fields.get("i", "")
        if len(given) > _MOST_DIGITS:
            raise LoginFailed(_ODD)
        iterations = int(given) if given.isdecimal() else 0
        if iterations < _LEAST_ITERATIONS:
            few = f"the broker asks for {iterations} rounds of SCRAM, fewer than {_LEAST_ITERATIONS}"
            raise LoginFailed(f"{few}; store the password of the user with more iterations")
        return _ScramKeys(HASHES[self.mechanism], self._password, _bytes(fields.get("s", "")), iterations)


class _ScramKeys:
    def __init__(self, hash_name: str, password: str, salt: bytes, iterations: int) -> None:
        self._hash = hash_name
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        self._client = self._hmac(salted, b"Client Key")
        self._server = self._hmac(salted, b"Server Key")

    def proof(self, message: bytes) -> bytes:
        signature = self._hmac(hashlib.new(self._hash, self._client).digest(), message)
        return bytes(one ^ other for one, other in zip(self._client, signature, strict=True))

    def server_signature(self, message: bytes) -> bytes:
        return self._hmac(self._server, message)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginFailed(_ODD) from None
