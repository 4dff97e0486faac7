"""An aiohttp server that repeats nothing of what a client has sent, neither in its answer nor in the log.

aiohttp's own answer to what is no HTTP has the bytes that it did not understand, and so has its log, with a stack trace
for each. Such bytes may be a password, they may be a megabyte, and a client decides how many there are.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from actors.logging.logs import log_sentence
from actors.rest.exchange import HttpRefusal
from actors.rest.failures import BROKEN

UNREADABLE = HttpRefusal(400, "HTTP 400 Bad Request")
Answerer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class GuardedServer(web.Server):
    """Has requests answered by `answer`. `note` gets a sentence about each connection that sent no HTTP."""

    def __init__(self, answer: Answerer, note: Callable[[str], None], **settings: Any) -> None:
        super().__init__(answer, **settings)
        self.note = note

    def __call__(self) -> RequestHandler:
        """Return what handles one connection."""
        return _GuardedConnection(self, loop=self._loop, **self._kwargs)


class _GuardedConnection(RequestHandler):
    __slots__ = ("_note",)

    def __init__(self, server: GuardedServer, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._note = server.note

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it has what was sent
    ) -> web.StreamResponse:
        """Answer what could not be read (400), or what failed outside of every handler."""
        is_unreadable = status < 500
        if is_unreadable:
            self._note(f"a connection of {request.remote} was closed: it sent no HTTP ({type(exc).__name__})")
        else:
            self.log_exception("", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was sent already")
        answer = (UNREADABLE if is_unreadable else BROKEN).answer()
        response = web.Response(status=answer.status, body=answer.encoded(), content_type=answer.content_type)
        response.force_close()
        return response

    def log_exception(self, *_words: Any, exc_info: object = None, **_more: Any) -> None:
        """Log that a connection failed, without what it had sent."""
        log_sentence("error", f"an HTTP connection failed: {type(exc_info).__name__}")
