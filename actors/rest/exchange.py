"""A request as its parts, an answer with what must be done for it, and refusals in Connect's words."""

import enum
from typing import Any, Final

import msgspec

from actors.model.requests import AnyRequest
from policies.dr.advice import AskedFrom

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
NOTHING: Final = msgspec.UNSET
"""The body of an answer without one; None is JSON's null."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a request. `target`: path and query as they were sent; names of headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str] = {}
    body: bytes = b""


class LogLevel(enum.StrEnum):
    """The levels of a log, in Log4j's words."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    FATAL = "FATAL"


class SetLogLevel(msgspec.Struct, frozen=True):
    """Sets the level of a logger in the process that answers."""

    logger: str
    level: LogLevel


class StartCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Starts a command of raymirror in a process of its own, which outlives the one that answers.

    `run`: its name; `words`: the command without its own name; `user`: who has asked; `began_ms`: Unix ms; `as_text`:
    it prints for people, not JSON; `at_once`: it is answered as soon as it has begun, also if it refuses then.
    """

    run: str
    kind: str
    flow: str
    words: tuple[str, ...]
    user: str
    dry_run: bool
    began_ms: int
    as_text: bool = False
    at_once: bool = False
    asked_from: AskedFrom = AskedFrom.HTTP
    """Whether its advice names options or fields."""


class EndCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a command that a request has started: by SIGTERM, or if `kills` by SIGKILL."""

    run: str
    kills: bool = False


Deed = AnyRequest | SetLogLevel | StartCommand | EndCommand
"""What must be done before an answer is sent."""


class FollowStream(msgspec.Struct, frozen=True):
    """An answer that goes on: the live stream of the mirror, after the message with this id if it is still known.

    `user`: who reads it.
    """

    last_id: str = ""
    user: str = ""


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer: its body is sent as JSON, unless it is text of another type."""

    status: int = 200
    body: Any = NOTHING
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    deeds: tuple[Deed, ...] = ()
    follow: FollowStream | None = None
    """The stream that takes the place of the body."""

    def encoded(self) -> bytes:
        """Return the bytes of the body."""
        if self.body is NOTHING:
            return b""
        return self.body.encode() if self.content_type != JSON else msgspec.json.encode(self.body)

    def unless_known(self, if_none_match: str) -> "HttpAnswer":
        """Return this answer; without its body (304) if the asker has what it is tagged as (RFC 9110, 13.1.2)."""
        tag = next((value for name, value in self.headers if name == "ETag"), None)
        known = {one.strip().removeprefix("W/") for one in if_none_match.split(",")}
        if self.status != 200 or tag is None or not known & {tag, "*"}:
            return self
        return HttpAnswer(status=304, headers=self.headers)


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every refusal (Connect: ErrorMessage)."""

    error_code: int
    message: str


class HttpRefusal(Exception):
    """A request that is not answered as asked: status, text, more headers."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status, message, headers)
        self.status, self.message, self.headers = status, message, headers

    def answer(self) -> HttpAnswer:
        """Return the answer that says so."""
        return HttpAnswer(status=self.status, body=ErrorBody(self.status, self.message), headers=self.headers)


class HttpCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request that has found its route: parts of its path, its query, its body as the route's type, and who asks."""

    path: dict[str, str] = {}
    query: dict[str, tuple[str, ...]] = {}
    body: Any = None
    user: str = ""
    role: str = ""
    """What the user may do, a word of `policies.roles`."""
    last_event_id: str = ""
    """The header of a reader that joins a stream again."""
    asked_from: AskedFrom = AskedFrom.HTTP
    """Whether advice to this client names options or fields."""

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a switch of the query as Java's Boolean reads it: any word but `true` is false."""
        given = self.query.get(name)
        return default if given is None else given[0].strip().lower() == "true"
