"""Sessions of the console and the one-time tokens that open them, in the memory of the supervisor's process.

A session is a cookie that scripts cannot read, and a second secret that the page sends with each change (CSRF). Only
digests of both are kept. Sessions end after a while without a request, at their oldest age, when their user's password
or role changes, and with the process: then the page asks to log in again.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from actors.rest.access import ProvenLogin
from engine.base.clock import now_s
from engine.config.http.http_secrets import HttpLogin
from policies.roles import Role

TOKEN_LASTS_S: Final = 120.0
"""Seconds from the printing of an address until its token is used."""
IDLE_S: Final = 3600.0
"""Seconds without a request; an open page asks more often."""
OLDEST_S: Final = 12 * 3600.0
MOST_TOKENS: Final = 16
MOST_SESSIONS: Final = 64
_BYTES: Final = 32


class _Session(msgspec.Struct):
    """An open session. `granted`: opened by a one-time token, so no configured user is behind it."""

    login: HttpLogin
    csrf: str
    granted: bool
    opened_s: float
    used_s: float


class _OneTimeToken(msgspec.Struct, frozen=True):
    login: HttpLogin
    until_s: float


class OpenedSession(msgspec.Struct, frozen=True):
    """A session that has just begun: the value of its cookie, and who it is."""

    cookie: str
    proven: ProvenLogin


class SessionBook:
    """All sessions and unused tokens of one server."""

    def __init__(self, now: Callable[[], float] = now_s) -> None:
        self._now = now
        self._sessions: dict[bytes, _Session] = {}
        self._tokens: dict[bytes, _OneTimeToken] = {}

    def make_token(self, name: str, role: Role) -> str:
        """Return a token that opens one session as this user. The oldest unused ones give way to new ones."""
        self._forget_old()
        while len(self._tokens) >= MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(_BYTES)
        self._tokens[_digest(token)] = _OneTimeToken(HttpLogin(name=name, role=role), self._now() + TOKEN_LASTS_S)
        return token

    def use_token(self, token: str) -> OpenedSession | None:
        """Open the session of a token; None if it is unknown, too old, or was used before."""
        self._forget_old()
        found = self._tokens.pop(_digest(token), None)
        return None if found is None else self._open(found.login, granted=True)

    def open(self, login: HttpLogin) -> OpenedSession:
        """Open a session of a configured user, who has proven to be that."""
        self._forget_old()
        return self._open(login, granted=False)

    def _open(self, login: HttpLogin, *, granted: bool) -> OpenedSession:
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda one: self._sessions[one].used_s)]
        cookie, csrf, now = secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES), self._now()
        self._sessions[_digest(cookie)] = _Session(login, csrf, granted, now, now)
        return OpenedSession(cookie, ProvenLogin(login=login, csrf=csrf))

    def find(self, cookie: str, logins: Sequence[HttpLogin]) -> ProvenLogin | None:
        """Return who a cookie stands for; None if its session has ended, or its user is not the same any more."""
        self._forget_old()
        found = self._sessions.get(_digest(cookie)) if cookie else None
        if found is None:
            return None
        if not found.granted and found.login not in logins:
            del self._sessions[_digest(cookie)]
            return None
        found.used_s = self._now()
        return ProvenLogin(login=found.login, csrf=found.csrf)

    def close(self, cookie: str) -> None:
        """End a session; nothing happens if it has ended."""
        self._sessions.pop(_digest(cookie), None)

    def _forget_old(self) -> None:
        now = self._now()
        self._tokens = {key: one for key, one in self._tokens.items() if now < one.until_s}
        self._sessions = {
            key: one
            for key, one in self._sessions.items()
            if now - one.used_s < IDLE_S and now - one.opened_s < OLDEST_S
        }


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
