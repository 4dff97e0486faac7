"""Unsecured tokens, which nobody signs: Kafka's default without a callback handler, for tests only.

Kafka: OAuthBearerUnsecuredLoginCallbackHandler.
"""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from engine.base.clock import wall_ms
from engine.security.oauth.token import Token, unsigned
from engine.security.sasl.jaas import JAAS
from engine.security.settings import BadSecurity

_PREFIX = "unsecuredLogin"
_STRING, _NUMBER, _LIST = (f"{_PREFIX}{kind}Claim_" for kind in ("String", "Number", "List"))
EXTENSION = f"{_PREFIX}Extension_"
_PRINCIPAL, _LIFETIME = f"{_PREFIX}PrincipalClaimName", f"{_PREFIX}LifetimeSeconds"
_RESERVED = ("iat", "exp")
_LIFETIME_S = 3600.0


class UnsecuredTokens:
    """Makes tokens of the claims in a login module's options. Raises BadSecurity."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._lifetime_s = _number(options.get(_LIFETIME, ""), _LIFETIME_S)
        self._claims = dict(_claim(name, value) for name, value in options.items() if _is_claim(name))
        principal = options.get(_PRINCIPAL, "").strip() or "sub"
        subject = self._claims.get(principal)
        if not isinstance(subject, str) or not subject:
            right = (
                'for tests write unsecuredLoginStringClaim_sub="NAME"; else set sasl.login.callback.handler.class ='
                " org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            )
            raise BadSecurity(JAAS, f"names nobody: it has no {_STRING}{principal}", right)
        if any(name in self._claims for name in _RESERVED):
            raise BadSecurity(JAAS, f"sets one of the claims {', '.join(_RESERVED)}", "remove it: they are computed")
        self._subject = subject

    def __call__(self) -> Token:
        """Return a new token."""
        now_ms = wall_ms()
        expires_ms = now_ms + int(self._lifetime_s * 1000)
        claims = {"exp": expires_ms / 1000, "iat": now_ms / 1000, **self._claims}
        return Token(f"{unsigned({'alg': 'none'}, claims)}.", self._subject, now_ms, expires_ms)


def _is_claim(name: str) -> bool:
    return any(name.startswith(kind) and len(name) > len(kind) for kind in (_STRING, _NUMBER, _LIST))


def _claim(name: str, value: str) -> tuple[str, Any]:
    if name.startswith(_STRING):
        return name.removeprefix(_STRING), value
    if name.startswith(_NUMBER):
        return name.removeprefix(_NUMBER), _number(value, None)
    return name.removeprefix(_LIST), value[1:].split(value[0]) if len(value) > 1 else []


def _number(text: str, default: float | None) -> float:
    try:
        found = default if not text and default is not None else float(text)
    except ValueError:
        found = inf
    if not isfinite(found):
        raise BadSecurity(JAAS, f"has an option {_PREFIX}... that is no number", "write a number")
    return found
