"""Answers who uses the console, and opens and closes sessions.

A session is opened by the password or token of a configured user, or by the one-time token that `raymirror console`
prints. A server without users has no sessions: everybody who reaches it may do everything (`actors/rest/access.py`).
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from actors.console.sessions import OLDEST_S, SessionBook
from actors.rest.access import NOBODY, ProvenLogin, user_by_password, user_by_token
from actors.rest.exchange import HttpAnswer, HttpRefusal
from engine.config.http.http_secrets import HttpLogin
from policies.roles import Role

REFUSED: Final = "User, password or token is not known"
USED_UP: Final = "This address has been used or is too old. Ask for a new one: raymirror console"


class ConsoleNeed(enum.Enum):
    """What a route of the console needs to know."""

    SESSION = enum.auto()
    """The session of who asks: its handler takes a ConsoleVisit, and changes nothing but sessions."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `login`: whether the server has users, so that somebody without a session must log in."""

    user: str | None
    role: Role | None
    csrf: str
    login: bool
    version: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session is opened with: user and password, the token of a user, or a one-time token (`once`)."""

    user: str = ""
    password: str = ""
    token: str = ""
    once: str = ""


class SessionCookie(msgspec.Struct, frozen=True):
    """The cookie of a server. Browsers do not tell ports apart, so its name has the port."""

    port: int
    secure: bool

    @property
    def name(self) -> str:
        return f"raymirror-{self.port}"

    def read(self, headers: Mapping[str, str]) -> str:
        """Return the value that a request has; empty if it has none.

        Other servers of this host set cookies too: what they have written, in whatever form, does not matter here.
        """
        pairs = (one.partition("=") for one in headers.get("cookie", "").split(";"))
        found = next((value.strip() for name, _, value in pairs if name.strip() == self.name), "")
        return found if found.isascii() else ""

    def write(self, value: str) -> tuple[str, str]:
        """Return the header that sets the cookie; an empty value removes it."""
        life = int(OLDEST_S) if value else 0
        secure = "; Secure" if self.secure else ""
        return "Set-Cookie", f"{self.name}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}"


class ConsoleVisit:
    """One request about a session. `logins`: the users of the server; `version`: raymirror's own."""

    def __init__(
        self,
        book: SessionBook,
        cookie: SessionCookie,
        headers: Mapping[str, str],
        *,
        logins: Sequence[HttpLogin],
        version: str,
    ) -> None:
        self._book, self._cookie, self._logins, self._version = book, cookie, logins, version
        self._value = cookie.read(headers)

    def proven(self) -> ProvenLogin | None:
        """Return who has sent the cookie; None without a session."""
        return self._book.find(self._value, self._logins)

    def present(self) -> HttpAnswer:
        """Say who asks: nobody, if there is no session."""
        return self._answer(self.proven())

    def enter(self, entry: Entry) -> HttpAnswer:
        """Open a session, and close the one before. Raises HttpRefusal (401)."""
        if not self._logins:
            return self._answer(None)
        opened = self._book.use_token(entry.once) if entry.once else None
        if entry.once and opened is None:
            raise HttpRefusal(401, USED_UP)
        if opened is None:
            opened = self._book.open(self._known(entry))
        self._book.close(self._value)
        return self._answer(opened.proven, self._cookie.write(opened.cookie))

    def _known(self, entry: Entry) -> HttpLogin:
        if entry.token:
            found = user_by_token(self._logins, entry.token)
        else:
            found = user_by_password(self._logins, entry.user, entry.password)
        if found is None:
            raise HttpRefusal(401, REFUSED)
        return found

    def leave(self) -> HttpAnswer:
        """Close the session, if there is one."""
        self._book.close(self._value)
        return HttpAnswer(status=204, headers=(self._cookie.write(""),))

    def _answer(self, proven: ProvenLogin | None, *headers: tuple[str, str]) -> HttpAnswer:
        login = proven.login if proven is not None else None
        if not self._logins:
            login, proven = HttpLogin(name=NOBODY, role=Role.ADMIN), None
        body = SessionInfo(
            user=login.name if login is not None else None,
            role=login.role if login is not None else None,
            csrf=proven.csrf if proven is not None else "",
            login=bool(self._logins),
            version=self._version,
        )
        return HttpAnswer(body=body, headers=headers)
