"""JWT assertions that a client signs itself (RFC 7523, KIP-1139; Kafka: AssertionUtils), or reads from a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from engine.base.clock import wall_ms
from engine.base.redaction import remember_token
from engine.security.oauth.keys import (
    ALGORITHM,
    ASSERTION_FILE,
    AUDIENCE,
    EXPIRES,
    ISSUER,
    NOT_BEFORE,
    PASSPHRASE,
    PRIVATE_KEY_FILE,
    SUBJECT,
    TEMPLATE_FILE,
    WITH_ID,
)
from engine.security.oauth.token import encode, unsigned
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.pem import UNREADABLE

_ALGORITHMS = ("RS256", "ES256")
_HALF_BYTES = 32
"""Of a number in an ES256 signature."""

Assertion = Callable[[], str]
"""Returns a new assertion. Raises LoginFailed."""


class _Rules(NamedTuple):
    algorithm: str
    claims: dict[str, str]
    expires_s: int
    not_before_s: int
    with_id: bool


def read_assertion(settings: SecuritySettings) -> Assertion:
    """Return how assertions are made: read from a file if one is named, else signed here. Raises BadSecurity."""
    if ASSERTION_FILE in settings:
        path = settings.text(ASSERTION_FILE)
        return lambda: read_secret(path, ASSERTION_FILE)
    if PRIVATE_KEY_FILE not in settings:
        raise BadSecurity(PRIVATE_KEY_FILE, "missing", f"name the PEM file of the key that signs, or {ASSERTION_FILE}")
    algorithm = settings.text(ALGORITHM, _ALGORITHMS[0]).upper()
    if algorithm not in _ALGORITHMS:
        raise BadSecurity(ALGORITHM, "is no algorithm of Kafka's clients", f"use {' or '.join(_ALGORITHMS)}")
    named = {"aud": AUDIENCE, "iss": ISSUER, "sub": SUBJECT}
    rules = _Rules(
        algorithm,
        {claim: settings.text(key) for claim, key in named.items() if key in settings},
        int(settings.number(EXPIRES, 300, 0, 86400)),
        int(settings.number(NOT_BEFORE, 60, 0, 3600)),
        settings.flag(WITH_ID, default=False),
    )
    template, key_file = settings.known(TEMPLATE_FILE), settings.text(PRIVATE_KEY_FILE)
    password = settings.known(PASSPHRASE)

    def assertion() -> str:
        header, claims = _template(template) if template else ({}, {})
        return _signed(rules, header, claims, _private_key(key_file, password, algorithm))

    return assertion


def read_secret(path: str, key: str) -> str:
    """Return the trimmed content of a file that a setting names; it is read anew, since it is rotated. LoginFailed."""
    try:
        found = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise LoginFailed(f"cannot read the file of {key}: {reason}", may_pass=True) from None
    if not found:
        raise LoginFailed(f"the file of {key} is empty", may_pass=True)
    remember_token(found)
    return found


def _template(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        found = json.loads(read_secret(path, TEMPLATE_FILE))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LoginFailed(f'the file of {TEMPLATE_FILE} is not JSON such as {{"header": {{}}, "payload": {{}}}}')
    return dict(found.get("header") or {}), dict(found.get("payload") or {})


def _signed(rules: _Rules, header: dict[str, Any], claims: dict[str, Any], key: Any) -> str:
    """Return an assertion: the keys' claims, those of the template over them, and the times over all."""
    now = wall_ms() // 1000
    payload = {
        **rules.claims,
        **claims,
        "iat": now,
        "exp": now + rules.expires_s,
        "nbf": now - rules.not_before_s,
        **({"jti": str(uuid4())} if rules.with_id else {}),
    }
    content = unsigned({**header, "alg": rules.algorithm, "typ": "JWT"}, payload)
    signed = f"{content}.{encode(_signature(key, content.encode()))}"
    remember_token(signed)
    return signed


def _signature(key: Any, content: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    # A JWT has both numbers of the signature in full width, where others have DER (RFC 7518, 3.4).
    numbers = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(_HALF_BYTES, "big") for number in numbers)


def _private_key(path: str, password: str | None, algorithm: str) -> Any:
    text = read_secret(path, PRIVATE_KEY_FILE).encode()
    try:
        key = serialization.load_pem_private_key(text, password.encode() if password else None)
    except UNREADABLE:
        wrong = f"the file of {PRIVATE_KEY_FILE} is no private key in PEM"
        raise LoginFailed(f"{wrong}, or {PASSPHRASE} does not open it") from None
    fits = (
        isinstance(key, rsa.RSAPrivateKey)
        if algorithm == _ALGORITHMS[0]
        else isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    )
    if not fits:
        raise LoginFailed(f"the key of {PRIVATE_KEY_FILE} cannot sign by {algorithm}")
    return key
