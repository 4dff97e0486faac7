"""Finds the login for a mirror's HTTP server: in a file, else in the environment, never among a command's words.

A file has lines such as `token = ...`, or `user = ...` and `password = ...`; and for TLS `ca`, `certificate` and `key`,
paths of PEM files. Everybody on a machine can read the words of its processes, so no option takes a secret.
"""

import base64
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from engine.base.errors import MirrorError
from engine.base.redaction import remember_secret
from engine.config.file.properties import parse_properties

TOKEN: Final = "RAYMIRROR_TOKEN"
USER: Final = "RAYMIRROR_USER"
PASSWORD: Final = "RAYMIRROR_PASSWORD"
_KEYS: Final = ("token", "user", "password", "ca", "certificate", "key")


class BadLogin(MirrorError):
    """A login that cannot be used: what is wrong, and what would be right."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"{self.wrong}; {self.right}"


class RemoteLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what is needed for TLS; everything may be empty."""

    token: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"RemoteLogin({self.user!r})"

    @property
    def has_secret(self) -> bool:
        """Whether requests carry a secret."""
        return bool(self.token or self.password)

    @property
    def headers(self) -> dict[str, bytes]:
        """The headers that prove who asks, as UTF-8."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}".encode()}
        if not self.user:
            return {}
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        remember_secret(pair)
        return {"Authorization": f"Basic {pair}".encode()}

    def tls(self) -> ssl.SSLContext:
        """Return the context of TLS connections. Raises BadLogin."""
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as bad:
            named = ", ".join(filter(None, (self.ca, self.certificate, self.key)))
            raise BadLogin(f"{named} cannot be read ({bad.strerror or bad})", "name PEM files") from None
        return context


def login_of(file: Path | None, env: Mapping[str, str]) -> RemoteLogin:
    """Return the login of a file, else of the environment. Raises BadLogin, ConfigError.

    Spaces and line ends around a value are left out, as the server does.
    """
    found = _from_file(file) if file is not None else _from_env(env)
    found = RemoteLogin(**{key: value.strip() for key, value in msgspec.structs.asdict(found).items()})
    if bool(found.user) != bool(found.password):
        raise BadLogin("a user and a password belong together", f"set both {USER} and {PASSWORD}, or {TOKEN}")
    for secret in filter(None, (found.token, found.password)):
        remember_secret(secret)
    if not found.token.isprintable():  # Python's client would repeat it in its error
        where = str(file) if file is not None else TOKEN
        raise BadLogin(f"the token of {where} has a character that is not printable", "give it in one line")
    return found


def _from_env(env: Mapping[str, str]) -> RemoteLogin:
    return RemoteLogin(token=env.get(TOKEN, ""), user=env.get(USER, ""), password=env.get(PASSWORD, ""))


def _from_file(path: Path) -> RemoteLogin:
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else "it is no text"
        raise BadLogin(f"{path} cannot be read: {why}", f"write lines such as: {_KEYS[0]} = ...") from None
    entries = {name: entry.value for name, entry in parse_properties(text, str(path)).entries.items()}
    if unknown := sorted(entries.keys() - set(_KEYS)):
        raise BadLogin(f"{path}: {unknown[0]} is unknown", f"it may have {', '.join(_KEYS)}")
    found = msgspec.convert(entries, RemoteLogin)
    if found.has_secret and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadLogin(f"{path}: other users of this machine may read it", f"chmod 600 {path}")
    return found
