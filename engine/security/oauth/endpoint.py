"""Asks a token endpoint for a token (RFC 6749), with Kafka's time-outs, retries and errors (HttpJwtRetriever)."""

import json
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Event
from time import monotonic
from typing import Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from engine.base.redaction import remember_token
from engine.security.oauth.keys import (
    BACKOFF,
    CONNECT_TIMEOUT,
    ENDPOINT,
    MOST_BACKOFF,
    READ_TIMEOUT,
)
from engine.security.oauth.time_limit import TimeLimit
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

_FINAL = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""Answers that another attempt does not change."""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""What http.client says of a proxy that refuses to connect."""
_LATE = "no answer in time"
_MOST_BYTES = 1 << 20
_MOST_WORDS = 200
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]+")
"""Signs that no error may have (RFC 6749, 5.2), such as line feeds, which would make lines of a log."""
_DEFAULT_TIMEOUT_MS = 10_000
"""Java waits for ever; a connection that waits for a token must not."""
_HEADERS = {
    "Accept": "application/json",
    "Cache-Control": "no-cache",
    "Content-Type": "application/x-www-form-urlencoded",
}


class EndpointRules(msgspec.Struct, frozen=True):
    """Time-outs in seconds of a connect and of a read, the first pause after a failure, and for how long to try.

    Both time-outs together bound one attempt as a whole; in Java a server that sends a byte now and then holds a client
    for ever.
    """

    connect_s: float = _DEFAULT_TIMEOUT_MS / 1000
    read_s: float = _DEFAULT_TIMEOUT_MS / 1000
    backoff_s: float = 0.1
    most_s: float = 10.0


def read_endpoint_rules(settings: SecuritySettings) -> EndpointRules:
    """Return the rules of the settings. Raises BadSecurity."""
    return EndpointRules(
        settings.number(CONNECT_TIMEOUT, _DEFAULT_TIMEOUT_MS, 1) / 1000,
        settings.number(READ_TIMEOUT, _DEFAULT_TIMEOUT_MS, 1) / 1000,
        settings.number(BACKOFF, 100) / 1000,
        settings.number(MOST_BACKOFF, 10_000) / 1000,
    )


class TokenEndpoint:
    """One address that gives tokens for a form and headers."""

    def __init__(
        self,
        url: str,
        rules: EndpointRules,
        context: Callable[[], ssl.SSLContext],
        sleep: Callable[[float], object] = lambda duration_s: Event().wait(duration_s),
        key: str = ENDPOINT,
    ) -> None:
        self._url = checked_url(url, key)
        self._rules = rules
        self._context = context
        self._sleep = sleep

    def ask(self, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer's JSON object. Raises LoginFailed; it tries again for a while what may pass."""
        body, ends_s, attempt = urlencode(form), monotonic() + self._rules.most_s, 0
        while True:
            attempt += 1
            try:
                return self._once(body, {**_HEADERS, **headers})
            except LoginFailed as failure:
                left_s = ends_s - monotonic()
                if not failure.may_pass or left_s <= 0:
                    raise
                self._sleep(min(left_s, self._rules.backoff_s * 2.0 ** min(attempt - 1, 20)))

    def _once(self, body: str, headers: Mapping[str, str]) -> dict[str, Any]:
        connection, rules = self._connection(), self._rules
        limit = TimeLimit(connection, rules.connect_s + rules.read_s)
        try:
            with limit:
                connection.connect()
                connection.sock.settimeout(rules.read_s)
                connection.request("POST", _path(self._url), body.encode(), dict(headers))
                answer = connection.getresponse()
                status, text = answer.status, answer.read(_MOST_BYTES)
        except (OSError, HTTPException) as error:
            why = _LATE if limit.is_over else _reason(error)
            raise LoginFailed(f"{self._name}: {why}", may_pass=limit.is_over or not _is_final(error)) from None
        finally:
            connection.close()
        if limit.is_over:
            raise LoginFailed(f"{self._name}: {_LATE}", may_pass=True)
        found = _json(text)
        if status not in (200, 201):
            raise LoginFailed(f"{self._name} answers {status}{_error(found)}", may_pass=status not in _FINAL)
        if found is None:
            raise LoginFailed(f"{self._name} gives no JSON object", may_pass=False)
        return found

    @property
    def _name(self) -> str:
        return f"the token endpoint {self._url.scheme}://{self._url.hostname}:{self._port}{self._url.path}"

    @property
    def _port(self) -> int:
        return self._url.port or (443 if self._url.scheme == "https" else 80)

    def _connection(self) -> HTTPConnection:
        """Return a connection, through the proxy that the environment names for the scheme, if any."""
        host, port, timeout_s = self._url.hostname or "", self._port, self._rules.connect_s
        at = _proxy(self._url.scheme, host)
        to = (host, port) if at is None else (at.hostname or "", at.port or 80)
        connection: HTTPConnection
        if self._url.scheme == "https":
            connection = HTTPSConnection(*to, timeout=timeout_s, context=self._context())
        else:
            connection = HTTPConnection(*to, timeout=timeout_s)
        if at is not None:
            connection.set_tunnel(host, port, _proxy_login(at))
        return connection


def _proxy(scheme: str, host: str) -> SplitResult | None:
    """Return the proxy that the environment names for a host. Raises LoginFailed, which does not repeat its address."""
    named = None if proxy_bypass(host) else getproxies().get(scheme)
    if not named:
        return None
    try:
        found = urlsplit(named if "://" in named else f"http://{named}")
        is_one = bool(found.hostname) and (found.port or 1) > 0
    except ValueError:
        is_one = False
    if not is_one:
        raise LoginFailed(f"{scheme.upper()}_PROXY of the environment is no address; write http://HOST:PORT")
    return found


def _proxy_login(proxy: SplitResult) -> dict[str, str]:
    """Return the header that proves who we are to a proxy whose address has a user name."""
    if proxy.username is None:
        return {}
    words = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(words).decode()}"}


def checked_url(text: str, key: str) -> SplitResult:
    """Return an address of HTTP. Raises BadSecurity, which does not repeat it: it may have a password."""
    try:
        url = urlsplit(text)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
        (url.hostname or "").encode("idna")
        _path(url).encode("ascii")
    except ValueError:  # UnicodeError is one
        is_one = False
    if not is_one:
        raise BadSecurity(key, "is no address of a token endpoint", "write https://HOST[:PORT]/PATH, or file:///PATH")
    if url.username is not None:
        wrong = "has a user name or a password before the host, which no client of Kafka sends"
        raise BadSecurity(key, wrong, "remove it: the name and the secret of the client have settings of their own")
    return url


def access_token(answer: Mapping[str, Any]) -> str:
    """Return the token of an answer (Kafka: JwtResponseParser). Raises LoginFailed."""
    for name in ("access_token", "id_token"):
        found = answer.get(name)
        if isinstance(found, str) and found.strip():
            remember_token(found)
            return found.strip()
    raise LoginFailed("the answer of the token endpoint has no access_token")


def _path(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _is_final(error: Exception) -> bool:
    """Whether a setting must change: a certificate that nobody vouches for."""
    return isinstance(error, ssl.SSLCertVerificationError)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return _LATE
    if found := _TUNNEL.match(str(error)):
        return f"the proxy of the environment answers {found[1]}"
    return (error.strerror if isinstance(error, OSError) and error.strerror else "") or type(error).__name__


def _json(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _error(found: Mapping[str, Any] | None) -> str:
    """Return what RFC 6749 (5.2) or Okta names as the error; nothing else of the answer, which may have a secret."""
    for code, text in (("error", "error_description"), ("errorCode", "errorSummary")):
        if found is not None and isinstance(found.get(code), str):
            words = ": ".join([str(found[code]), *([str(found[text])] if found.get(text) else [])])
            return f": {_NOT_PRINTABLE.sub(' ', words)[:_MOST_WORDS]}"
    return ""
