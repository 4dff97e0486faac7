"""A mirror that answers over HTTP, by the typed interface of its server (docs/api.md)."""

import http.client
import socket
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from actors.api.queries import MOST as MOST_ROWS
from actors.local_socket.client import RequestRefused
from actors.model.requests import (
    ASKED_FROM,
    CALL_TIMEOUT_S,
    AnsweringMirror,
    AnyRequest,
    AskStatus,
    GiveCommand,
    MirrorLost,
    RestartFlow,
)
from actors.model.states import Command
from actors.model.status import MirrorStatus, encode_status
from actors.remote.login import BadLogin, RemoteLogin, login_of
from policies.dr.advice import AskedFrom

_API: Final = "/api/v1"
_BUSY: Final = (409, 429)
_MOST_ANSWER: Final = 256 * 1024 * 1024
FORGET_S: Final = 90.0
"""Seconds for the server to forget a failover: it asks both clusters for an open operation."""
LOOK_S: Final = 100.0
"""Seconds for the server to run a command that looks: it has a minute, and may wait for its turn."""
ORDER_S: Final = 60.0
"""Seconds for the server to start a command."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


Query = Iterable[tuple[str, str]]
"""Names and values of a query; those without a value are left out."""
T = TypeVar("T")


class ListPage(Protocol):
    """A part of a list."""

    @property
    def total(self) -> int: ...


P = TypeVar("P", bound=ListPage)


class HttpRefused(msgspec.Struct, frozen=True):
    """The body of a refusal."""

    message: str = ""


class BadUrl(BadLogin):
    """An address that names no HTTP server."""


def open_mirror(url: str, file: Path | None, env: Mapping[str, str]) -> "HttpMirror":
    """Return the mirror at an address; nothing is sent yet. Raises BadUrl, BadLogin, ConfigError."""
    place = _place(url)
    return HttpMirror(place, login_of(file, env))


def _place(url: str) -> SplitResult:
    right = "write e.g. --url http://host:8083"
    try:
        place = urlsplit(url if "//" in url else f"http://{url}")
        port = place.port
    except ValueError as bad:
        raise BadUrl(f"--url: {bad}", right) from None
    if place.username is not None or place.password is not None:
        raise BadUrl("--url has a user or a password, which other users of this machine could read", right)
    if place.scheme not in ("http", "https") or not place.hostname or port == 0 or place.query or place.fragment:
        raise BadUrl(f"--url {url!r} names no HTTP server", right)
    return place


class NoServer(MirrorLost):
    """Nothing listens at the address."""

    exit_code = 3

    def __str__(self) -> str:
        return f"no mirror answers at {self.namespace}: {self.cause}"


class HttpMirror(AnsweringMirror):
    """A mirror somewhere, over one connection that is opened for each request."""

    def __init__(self, place: SplitResult, login: RemoteLogin) -> None:
        self._place, self._login = place, login
        self.namespace = place.netloc
        self._context = login.tls() if place.scheme == "https" else None

    @property
    def address(self) -> str:
        """Where the server is, as a person writes it."""
        return self._place.geturl().rstrip("/")

    @property
    def shows_secret(self) -> bool:
        """Whether requests carry a secret over a network without TLS."""
        return self._context is None and self._login.has_secret and self._place.hostname not in _LOOPBACK

    def send(self, request: AnyRequest, timeout_s: float = CALL_TIMEOUT_S) -> bytes | None:
        """Ask over HTTP. Raises MirrorLost, RequestRefused."""
        match request:
            case AskStatus():
                return self._status(lanes=request.lanes, timeout_s=timeout_s)
            case GiveCommand():
                within_s = FORGET_S if request.command is Command.FORGET else timeout_s
                self._ask("POST", _path_of(request), {"topics": request.topics} if request.topics else None, within_s)
                return self._status(lanes=False, timeout_s=timeout_s)
            case RestartFlow():
                self._ask("POST", f"{_flow(request.flow)}/restart", None, timeout_s)
                return None
            case _:
                raise RequestRefused(f"{request.method} cannot be asked over HTTP", None)

    def history(self, flow: str, query: str, timeout_s: float = 90.0) -> dict[str, Any] | None:
        """Return the history of the lag of a flow; None if none is kept. Raises MirrorLost, RequestRefused."""
        data = self._ask("GET", f"{_flow(flow)}/history?{query}", None, timeout_s)
        found: dict[str, Any] | None = msgspec.json.decode(data)["summary"]
        return found

    def look(self, what: str, kind: type[T], query: Query = (), *, flow: str = "") -> T:
        """Return what a route answers, one of a flow or one of the mirror. Raises MirrorLost, RequestRefused."""
        place = _flow(flow) if flow else _API
        return self._decoded(self._ask("GET", f"{place}/{what}{_search(query)}", None, LOOK_S), kind)

    def order(self, what: str, body: msgspec.Struct, kind: type[T], query: Query = (), *, flow: str) -> T:
        """Send an order to a flow, and return what is answered. Raises MirrorLost, RequestRefused."""
        data = self._ask("POST", f"{_flow(flow)}/{what}{_search(query)}", body, ORDER_S)
        return self._decoded(data, kind)

    def pages(self, what: str, kind: type[P], query: Query = (), *, flow: str = "") -> list[P]:
        """Return all parts of a list that a route answers. Raises as `look` does."""
        asked, found = tuple(query), list[P]()
        while not found or len(found) * MOST_ROWS < found[-1].total:
            part = (("offset", str(len(found) * MOST_ROWS)), ("limit", str(MOST_ROWS)))
            found.append(self.look(what, kind, (*asked, *part), flow=flow))
        return found

    def page(self, what: str, query: Query = ()) -> str:
        """Return a page for a browser. Raises as `look` does."""
        return self._ask("GET", f"{_API}/{what}{_search(query)}", None, LOOK_S, accept="text/html").decode(
            errors="replace"
        )

    def _status(self, *, lanes: bool, timeout_s: float) -> bytes:
        data = self._ask("GET", f"{_API}/status{'?partitions=true' if lanes else ''}", None, timeout_s)
        return encode_status(self._decoded(data, MirrorStatus))

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as bad:
            why = f"its answer is none of a mirror of this version: {bad}"
            raise MirrorLost(self.namespace, why) from None

    def _ask(self, method: str, path: str, body: object, timeout_s: float, accept: str = "application/json") -> bytes:
        connection = self._connection(timeout_s)
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept.encode(), ASKED_FROM: AskedFrom.COMMAND_LINE.encode(), **self._login.headers}
        headers |= {"Content-Type": b"application/json"} if data is not None else {}
        try:
            connection.request(method, self._place.path.rstrip("/") + path, body=data, headers=headers)
            answer = connection.getresponse()
            found = answer.read(_MOST_ANSWER)
        except (ConnectionRefusedError, socket.gaierror) as nobody:
            raise NoServer(self.namespace, _why(nobody)) from nobody
        except TimeoutError:
            raise MirrorLost(self.namespace, f"no answer in {timeout_s:.0f} s") from None
        except (OSError, http.client.HTTPException) as failure:
            raise MirrorLost(self.namespace, f"{_why(failure)}") from failure
        finally:
            connection.close()
        if answer.status >= 300:
            raise self._refusal(answer.status, found)
        return found

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._place.hostname or "", self._place.port
        if self._context is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _refusal(self, status: int, body: bytes) -> RequestRefused:
        is_mirror = True
        try:
            said = msgspec.json.decode(body, type=HttpRefused).message
        except msgspec.MsgspecError:
            said, is_mirror = f"{self.namespace} is no mirror with this interface", False
        if status == 401:
            said = f"{said}: set RAYMIRROR_TOKEN, or name a file: --login FILE"
        exit_code = 1 if status in _BUSY or status >= 500 else None if is_mirror else NoServer.exit_code
        return RequestRefused(f"HTTP {status}: {said}", exit_code)

    def close(self) -> None:
        """Do nothing: each request has closed its connection."""


def _path_of(request: GiveCommand) -> str:
    """Return the path of a command; a failover is forgotten by a resume that says so, and only by that."""
    place = f"{_API}/mirror" if request.flow is None else _flow(request.flow)
    is_forgotten = request.command is Command.FORGET
    return f"{place}/resume?failed_over=true" if is_forgotten else f"{place}/{request.command}"


def _search(query: Query) -> str:
    given = urlencode([(name, value) for name, value in query if value])
    return f"?{given}" if given else ""


def _flow(name: str) -> str:
    return f"{_API}/flows/{quote(name, safe='')}"


def _why(failure: Exception) -> str:
    if isinstance(failure, ssl.SSLError):
        return f"TLS: {failure.reason or failure}"
    if isinstance(failure, OSError):
        return failure.strerror or str(failure)
    return f"{type(failure).__name__}: {failure}"
