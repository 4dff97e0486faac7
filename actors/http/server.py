"""The HTTP server of a mirror: reads requests within limits, has them answered, and sends the answers.

    server = MirrorServer(config.http, views, SessionBook())
    group.create_task(server.run())  # until cancelled

A port that is taken or a certificate that cannot be read never stops the mirror: it is tried again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from functools import partial
from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from actors.api.hub import MOST_READERS, StreamHub
from actors.console.entering import ConsoleNeed, ConsoleVisit, SessionCookie
from actors.console.sessions import SessionBook
from actors.console.table import SESSION
from actors.http.connections import HttpListener, listen
from actors.http.guarded import GuardedServer
from actors.http.login_limit import LoginLimit
from actors.http.shares import MOST_STREAMS, UserShares
from actors.http.streams import send_stream
from actors.http.table import ALL_ROUTES
from actors.http.views import SupervisorViews
from actors.logging.logs import log_sentence
from actors.rest.access import SAFE_METHODS
from actors.rest.exchange import FollowStream, HttpAnswer, HttpCall, HttpRefusal, HttpRequest
from actors.rest.failures import BROKEN, refusal_of
from actors.rest.routes import AdmittedRequest, HttpRoute, admit, refuse_unread, with_body
from actors.rest.target import read_target
from actors.rest.view import MirrorView
from engine.base.clock import now_s, pause
from engine.base.errors import ConfigError, MirrorError
from engine.config.http.http_secrets import HttpLogin, logins_of, tls_context
from engine.config.settings import HttpConfig
from policies.dr.advice import asked_from

MOST_BODY: Final = 1024 * 1024
MOST_LINE: Final = 8190
MOST_HEADERS: Final = 64
IDLE_S: Final = 15.0
"""Seconds until the headers of a request are complete, on a new connection and on one that is kept."""
BODY_S: Final = 10.0
ANSWER_S: Final = 30.0
"""Seconds until an answer is made: a command may take 8 s to be stored, a topic of positions longer to be read."""
SEND_S: Final = 60.0
AGAIN_S: Final = 5.0
LOGINS_LAST_S: Final = 10.0
"""Seconds for which a resolved password is used; then its placeholder is resolved again, at the next request."""
MOST_REFUSALS: Final = 20
REFUSALS_S: Final = 60.0
_USUAL: Final = (
    ("Server", "raymirror"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
)


class RefusalLog:
    """Logs requests of nobody, or without the right: not as many as come, because a client decides how many come."""

    def __init__(self) -> None:
        self._began_at_s, self._count = -REFUSALS_S, 0

    def note(self, text: str) -> None:
        """Log the first requests of a while; later, how many more there were."""
        if now_s() - self._began_at_s >= REFUSALS_S:
            if self._count > MOST_REFUSALS:
                log_sentence("warning", f"{self._count - MOST_REFUSALS} more HTTP requests were refused after these")
            self._began_at_s, self._count = now_s(), 0
        self._count += 1
        if self._count <= MOST_REFUSALS:
            log_sentence("warning", text)


class MirrorServer:
    """Serves one port. `sessions` outlive it; `again_s`: seconds between two tries to open it; `limit`: of log-ins."""

    def __init__(
        self,
        config: HttpConfig,
        views: SupervisorViews,
        sessions: SessionBook,
        *,
        again_s: float = AGAIN_S,
        limit: LoginLimit | None = None,
    ) -> None:
        self._config, self._views, self._sessions, self._again_s = config, views, sessions, again_s
        self._cookie = SessionCookie(config.port, bool(config.certificate))
        self._logins: tuple[HttpLogin, ...] = ()
        self._logins_until_s = 0.0
        self._said = ""
        self._refusals, self._shares = RefusalLog(), UserShares()
        self._limit = limit if limit is not None else LoginLimit()
        self._hub = StreamHub(views)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hub.run())
            await self._serve_always()

    async def _serve_always(self) -> None:
        while True:
            try:
                await self._serve()
            except (OSError, ConfigError) as error:
                at = f"{self._config.bind}:{self._config.port}"
                why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                self._say_once(f"HTTP cannot be served at {at} ({why}); trying again every {self._again_s:g} s")
            except Exception as error:  # noqa: BLE001 - a bug here must not end the supervisor
                self._say_once(f"HTTP has stopped ({type(error).__name__}: {error}); it begins again")
            await pause(self._again_s)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log_sentence("warning", text)

    async def _serve(self) -> None:
        """Listen and answer. Raises OSError, ConfigError if that cannot begin."""
        context = await asyncio.to_thread(tls_context, self._config)
        self._logins = await asyncio.to_thread(logins_of, self._config)
        self._logins_until_s = now_s() + LOGINS_LAST_S
        server = GuardedServer(
            self._handle,
            self._refusals.note,
            access_log=None,
            keepalive_timeout=IDLE_S,
            max_line_size=MOST_LINE,
            max_field_size=MOST_LINE,
            max_headers=MOST_HEADERS,
            lingering_time=1.0,
            auto_decompress=False,
        )
        with listen(self._config.bind, self._config.port) as listener:
            try:
                self._said = ""
                await HttpListener(listener, server, context).run()
            except* OSError as lost:  # for example no file descriptor is left
                raise OSError(str(lost.exceptions[0])) from lost
            finally:
                self._hub.end("the server ends")
                server.pre_shutdown()  # connections without a request end at once; the others have a second
                await server.shutdown(1.0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = _parts_of(request)
        answer = await self._answered(request, parts)
        if answer.follow is not None and request.method != "HEAD":
            try:
                with self._share_of(answer.follow), self._hub.join(answer.follow.last_id) as reader:
                    return await send_stream(request, answer, reader, _USUAL, partial(self._may_ask, parts))
            except HttpRefusal as refusal:
                answer = refusal.answer()
        return await self._send(request, answer)

    def _share_of(self, follow: FollowStream) -> AbstractContextManager[None]:
        """Hold a stream of a user; a server without users has one, who may have all of them."""
        return self._shares.stream(follow.user, MOST_STREAMS if self._config.users else MOST_READERS)

    async def _send(self, request: web.BaseRequest, answer: HttpAnswer) -> web.StreamResponse:
        response = web.Response(
            status=answer.status,
            body=answer.encoded() or None,
            headers=_headers(answer),
        )
        if response.body is not None:
            response.headers[hdrs.CONTENT_TYPE] = answer.content_type
        if not request.content.is_eof():
            response.force_close()  # what is left of the body is not read
        try:
            async with asyncio.timeout(SEND_S):
                await response.prepare(request)
                await response.write_eof()
        except (TimeoutError, ConnectionError):  # it reads too slowly, or has gone
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _answered(self, request: web.BaseRequest, parts: HttpRequest) -> HttpAnswer:
        try:
            return await self._answer(request, parts)
        except HttpRefusal as refusal:
            return refusal.answer()
        except MirrorError as error:
            return refusal_of(error).answer()
        except TimeoutError:
            return HttpRefusal(500, "Request timed out").answer()
        except Exception as error:  # noqa: BLE001 - a bug: the client learns that it is one, and the mirror continues
            log_sentence("error", f"an HTTP request failed: {type(error).__name__}: {error}")
            return BROKEN.answer()

    async def _answer(self, request: web.BaseRequest, parts: HttpRequest) -> HttpAnswer:
        try:
            with self._attempt(request.remote, parts):
                visit, admitted = await self._admitted(parts)
                if isinstance(admitted, HttpAnswer):
                    return admitted
                if admitted.route.need is ConsoleNeed.SESSION:
                    return await self._carry_out(request, parts.headers, admitted, visit)
            return (await self._carry_out(request, parts.headers, admitted, visit)).unless_known(
                parts.headers.get("if-none-match", "")
            )
        except HttpRefusal as refusal:
            if refusal.status in (401, 403):
                self._refusals.note(f"an HTTP request of {request.remote} was refused: {refusal.message}")
            raise

    @contextmanager
    def _attempt(self, address: str | None, parts: HttpRequest) -> Iterator[None]:
        """Let a request show a secret in the block, if its address may. Raises HttpRefusal (429)."""
        if not self._config.users or not shows_secret(parts):
            yield
            return
        self._limit.take(address)
        has_failed = True
        try:
            yield
            has_failed = False
        except HttpRefusal as refusal:
            has_failed = refusal.status == 401
            raise
        finally:
            if not has_failed:
                self._limit.give_back(address)

    async def _admitted(self, parts: HttpRequest) -> tuple[ConsoleVisit, AdmittedRequest | HttpAnswer]:
        """Find the route of a request, and check who asks. Raises HttpRefusal."""
        logins = await self._present_logins()
        visit = ConsoleVisit(self._sessions, self._cookie, parts.headers, logins=logins, version=self._views.version)
        return visit, admit(ALL_ROUTES, parts, logins, visit.proven())

    async def _may_ask(self, parts: HttpRequest) -> bool:
        """Whether a request would still be admitted: its session may have ended, its user have another password."""
        try:
            await self._admitted(parts)
        except HttpRefusal:
            return False
        return True

    async def _carry_out(
        self, request: web.BaseRequest, headers: dict[str, str], admitted: AdmittedRequest, visit: ConsoleVisit
    ) -> HttpAnswer:
        call = with_body(admitted, headers, await _body_of(request))
        route = admitted.route
        asked_from(call.asked_from)
        async with asyncio.timeout(route.within_s or ANSWER_S):
            if route.need is ConsoleNeed.SESSION:
                answer = await _made(route, call, visit)
            else:
                answer = await self._answer_of(admitted, call)
            for deed in answer.deeds:
                await self._views.do(deed)
        _note(request, admitted, answer)
        return answer

    async def _answer_of(self, admitted: AdmittedRequest, call: HttpCall) -> HttpAnswer:
        """Make an answer from a view of the mirror; of large ones each user of a server with users has a share."""
        async with AsyncExitStack() as stack:
            if admitted.route.is_large and self._config.users:  # without users there is nobody to take it from
                await stack.enter_async_context(self._shares.large(admitted.login.name))
            view = await self._views.view(admitted.route.need, call)
            refuse_unread(admitted, view)
            return await _made(admitted.route, call, view)

    async def _present_logins(self) -> tuple[HttpLogin, ...]:
        """Return the users; a changed password behind a placeholder is used after LOGINS_LAST_S seconds."""
        if self._config.users and now_s() > self._logins_until_s:
            self._logins_until_s = now_s() + LOGINS_LAST_S
            try:
                self._logins = await asyncio.to_thread(logins_of, self._config)
            except ConfigError as error:
                self._say_once(f"users of HTTP keep their passwords and tokens: {error}")
        return self._logins


def shows_secret(parts: HttpRequest) -> bool:
    """Whether a request shows a password or token, right or wrong; a session has shown its own before.

    The path is read as the routes read it: it may be written with escapes, or with a host before it.
    """
    if "authorization" in parts.headers or parts.method != "POST":
        return "authorization" in parts.headers
    try:
        return read_target(parts.target).path == tuple(SESSION.split("/")[1:])
    except HttpRefusal:  # no route has such a path
        return False


def _parts_of(request: web.BaseRequest) -> HttpRequest:
    """Return the parts of a request; of a header that is there twice, the first."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), value)
    return HttpRequest(method=request.method, target=request.raw_path, headers=headers)


def _headers(answer: HttpAnswer) -> CIMultiDict[str]:
    """Return the headers of an answer: the usual ones, but for those that it sets itself."""
    own = {name for name, _ in answer.headers}
    return CIMultiDict([*(pair for pair in _USUAL if pair[0] not in own), *answer.headers])


async def _made(route: HttpRoute, call: HttpCall, view: MirrorView | ConsoleVisit) -> HttpAnswer:
    """Make an answer; a large one in a thread, so that the supervisor's loop is not held up."""
    return await asyncio.to_thread(route.handler, call, view) if route.is_large else route.handler(call, view)


async def _body_of(request: web.BaseRequest) -> bytes:
    """Read a body. Raises HttpRefusal if it is too large or too slow."""
    too_large = HttpRefusal(413, f"A body may have {MOST_BODY:,} bytes")
    if (request.content_length or 0) > MOST_BODY:
        raise too_large
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError:
        raise HttpRefusal(408, f"The body did not arrive within {BODY_S:.0f} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise too_large from None


def _note(request: web.BaseRequest, admitted: AdmittedRequest, answer: HttpAnswer) -> None:
    """Log who changed what."""
    if request.method in SAFE_METHODS or not answer.deeds:
        return
    path = admitted.route.template.format(**admitted.call.path)
    log_sentence("info", f"{admitted.login.name} at {request.remote}: {request.method} {path}: {answer.status}")
