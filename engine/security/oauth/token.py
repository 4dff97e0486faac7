"""Tokens of OAuth: a JWT tells its subject and its time (RFC 7519; Kafka: ClientJwtValidator); nothing is verified.

Only a broker can verify a token. A client reads it to know when to fetch the next one.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from engine.security.sasl.login import LoginFailed

_MOST_S = 1e15
"""More seconds than any clock shows: a number of JSON may be infinite."""


class Token(msgspec.Struct, frozen=True):
    """A token, who it stands for (empty: not known), and its time in milliseconds since the epoch."""

    value: str
    subject: str
    issued_ms: int
    expires_ms: int

    def __repr__(self) -> str:
        return f"Token(expires_ms={self.expires_ms})"

    def __rich_repr__(self) -> Any:
        yield "expires_ms", self.expires_ms


def read_token(text: str, now_ms: int, subject_claim: str = "sub") -> Token:
    """Return the token of a JWT. Raises LoginFailed, which repeats nothing of it."""
    value = text.strip()
    claims = claims_of(value)
    expires_ms = milliseconds(claims.get("exp"))
    if expires_ms is None:
        raise LoginFailed("the token has no time of expiry (claim exp)")
    subject = claims.get(subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        wrong = f"the token has no claim {subject_claim}, which names who logs in"
        raise LoginFailed(f"{wrong}; sasl.oauthbearer.sub.claim.name names another claim")
    issued_ms = milliseconds(claims.get("iat"))
    return Token(value, subject, now_ms if issued_ms is None else issued_ms, expires_ms)


def milliseconds(seconds: object) -> int | None:
    """Return a number of seconds of a JSON object in milliseconds; None if it is no number, or beyond all clocks."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not abs(seconds) <= _MOST_S:
        return None
    return int(seconds * 1000)


def claims_of(value: str) -> dict[str, Any]:
    """Return the claims of a JWT. Raises LoginFailed."""
    parts = value.split(".")
    if len(parts) != 3:
        raise LoginFailed("the token is not a JWT, which has three parts with dots between them")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):  # binascii.Error is a ValueError
        found = None
    if not isinstance(found, dict):
        raise LoginFailed("the token is not a JWT: its claims cannot be read")
    return found


def unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """Return the first two parts of a JWT: header and claims."""
    return ".".join(map(_encoded, (header, claims)))


def encode(data: bytes) -> str:
    """Return bytes as a JWT has them: base64 for addresses, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encoded(part: Mapping[str, Any]) -> str:
    return encode(json.dumps(part, separators=(",", ":")).encode())
