"""Decides who may use the HTTP server: users by password or token, their roles, and which pages of browsers may ask.

Comparisons take the same time for each wrong secret, and go through all users. Without users the server is on a
loopback address, and only a request that names this machine is answered: else a page in the operator's browser could
reach it by a name of its own that leads here (DNS rebinding).
"""

import base64
import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from actors.rest.exchange import HttpRefusal
from engine.config.http.http_secrets import HttpLogin, digest_of_secret
from policies.roles import Role

NOBODY: Final = "nobody"
"""The user of a server without users."""
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_CHALLENGES: Final = (
    ("WWW-Authenticate", 'Basic realm="raymirror", charset="UTF-8"'),
    ("WWW-Authenticate", 'Bearer realm="raymirror"'),
)
_NO_DIGEST: Final = bytes(32)
CSRF_HEADER: Final = "x-csrf-token"
"""The console's page sends it with each request, with the secret of its session if it has one."""


class ProvenLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as a session has proven; `csrf`: the secret that the page of the session sends with each change."""

    login: HttpLogin
    csrf: str

    def refuse_forged(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse a change that the page of the session has not sent. Raises HttpRefusal (403)."""
        given = headers.get(CSRF_HEADER, "").encode(errors="replace")  # it may have a byte that is no UTF-8
        if method not in SAFE_METHODS and not hmac.compare_digest(given, self.csrf.encode()):
            raise HttpRefusal(403, "The request does not have the token of this session: reload the page")


def user_of(logins: Sequence[HttpLogin], headers: Mapping[str, str]) -> HttpLogin:
    """Return who asks. Raises HttpRefusal (401) if the request does not prove it."""
    if not logins:
        return HttpLogin(name=NOBODY, role=Role.ADMIN)
    scheme, _, given = headers.get("authorization", "").partition(" ")
    found: HttpLogin | None = None
    if scheme.lower() == "basic":
        found = _by_basic(logins, given.strip())
    elif scheme.lower() == "bearer":
        found = user_by_token(logins, given.strip())
    if found is None:
        # A challenge would make the browser open a window of its own over the console, which has a form.
        challenges = () if CSRF_HEADER in headers else _CHALLENGES
        raise HttpRefusal(401, "Give the password (basic) or the token (bearer) of a user", challenges)
    return found


def _by_basic(logins: Sequence[HttpLogin], given: str) -> HttpLogin | None:
    try:
        name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
    except ValueError:  # binascii.Error, UnicodeDecodeError, and what is no ASCII at all
        return None
    found = user_by_password(logins, name, password)
    return found if colon else None


def user_by_password(logins: Sequence[HttpLogin], name: str, password: str) -> HttpLogin | None:
    """Return the user of a name with this password; None if there is none."""
    digest, found = digest_of_secret(password), None
    for login in logins:
        is_named = hmac.compare_digest(login.name.encode(), name.encode())
        if _is_same(login.password, digest) & is_named:
            found = login
    return found


def user_by_token(logins: Sequence[HttpLogin], given: str) -> HttpLogin | None:
    """Return the user with this token; None if there is none."""
    try:
        digest, found = digest_of_secret(given), None
    except UnicodeEncodeError:  # a byte that is no UTF-8
        return None
    for login in logins:
        if _is_same(login.token, digest):
            found = found or login
    return found


def _is_same(known: bytes | None, given: bytes) -> bool:
    return hmac.compare_digest(known or _NO_DIGEST, given) and known is not None


def refuse_weak(login: HttpLogin, needed: Role) -> None:
    """Refuse a user whose role is too weak. Raises HttpRefusal (403)."""
    if not login.role.covers(needed):
        raise HttpRefusal(403, f"User {login.name} has the role {login.role}; this needs the role {needed}")


def refuse_foreign_page(method: str, headers: Mapping[str, str], *, has_users: bool) -> None:
    """Refuse what a page of another origin sends by a browser. Raises HttpRefusal (403)."""
    host = headers.get("host", "")
    if not has_users and not _is_this_machine(host):
        raise HttpRefusal(
            403, "Without users only requests to localhost or an IP address are answered; set raymirror.http.users"
        )
    if method in SAFE_METHODS:
        return
    origin = headers.get("origin")
    if (origin is not None and not _is_origin_of(origin, host)) or headers.get("sec-fetch-site", "none") not in (
        "none",
        "same-origin",
    ):
        raise HttpRefusal(403, "A page of another origin may not change a mirror")


def _is_origin_of(origin: str, host: str) -> bool:
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # no address
        return False


def _is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine by a name that no other page can have."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
