"""Forwards the connections of a port to the mirror's HTTP server, byte by byte; answers 409 while there is none.

    forwarder = Forwarder(config.http, "10.0.0.7")
    group.create_task(forwarder.run())     # until cancelled
    forwarder.follow("10.0.0.5", 8083)     # again and again: a leader that is not named any more is none

Bytes are not read: TLS, client certificates, users and limits are those of the leader, and an event stream passes as it
comes. So nothing here can take a request for another one than the leader does, and no header is added or believed.
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

import msgspec
from aiohttp import web

from actors.http.connections import HttpListener, listen
from actors.http.guarded import GuardedServer
from actors.logging.logs import log_sentence
from actors.rest.exchange import HttpRefusal
from engine.base.clock import now_s, pause
from engine.base.errors import ConfigError
from engine.config.http.http_secrets import tls_context
from engine.config.settings import NODE_ADDRESS, HttpConfig

CONNECT_S: Final = 2.0
LED_S: Final = 30.0
"""Seconds for which a leader counts as such after it was named last: its node may be cut off, or its address given to
another machine."""
IDLE_S: Final = 120.0
"""Seconds without a byte in either direction; an answer takes 30 s, and an event stream has a comment every 15 s."""
LINGER_S: Final = 2.0
"""Seconds in which a client may read the end of an answer, after the leader has closed its connection."""
AGAIN_S: Final = 2.0
HEAD_S: Final = 15.0
CHUNK: Final = 64 * 1024
NO_LEADER: Final = HttpRefusal(
    409,
    "Cannot complete request momentarily: the mirror has no supervisor at this moment. Ray starts one; try again",
    (("Retry-After", "1"), ("Cache-Control", "no-store"), ("Server", "raymirror")),
)
"""As a worker of Connect answers that knows no leader: tools try a 409 again."""


class LeaderPlace(msgspec.Struct, frozen=True):
    """Where the supervisor's server listens."""

    host: str
    port: int


class Forwarder:
    """Listens on one node. `address`: that of the node, where `bind` is NODE_ADDRESS."""

    def __init__(self, config: HttpConfig, address: str, *, again_s: float = AGAIN_S) -> None:
        self._config, self._again_s = config, again_s
        self._bind = address if config.bind == NODE_ADDRESS else config.bind
        self._own = LeaderPlace(address, config.port)
        self._leader: LeaderPlace | None = None
        self._named_at_s = 0.0
        self._links: dict[socket.socket, LeaderPlace] = {}
        """Connections to leaders."""
        self.trouble = ""
        """Why nothing listens; empty if it does."""

    def follow(self, host: str, port: int) -> None:
        """Forward to the server there for the next LED_S seconds; connections to an earlier one are cut."""
        leader = LeaderPlace(host, port)
        self._leader, self._named_at_s = leader, now_s()
        for link, other in self._links.items():
            if other != leader:
                _cut(link)

    async def run(self) -> None:
        """Serve until cancelled; a port that is taken is tried again."""
        while True:
            try:
                await self._serve()
            except OSError as error:
                why = error.strerror or str(error)
                self._say(f"{self._bind}:{self._config.port} cannot be opened ({why})")
            except Exception as error:  # noqa: BLE001 - a bug here must not close the port for good
                self._say(f"{self._bind}:{self._config.port} was closed ({type(error).__name__}: {error})")
            await pause(self._again_s)

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            log_sentence("warning", f"HTTP is not forwarded: {trouble}; trying again every {self._again_s:g} s")
        self.trouble = trouble

    async def _serve(self) -> None:
        context = await asyncio.to_thread(self._tls)
        refusing = GuardedServer(
            _refuse, lambda _text: None, access_log=None, keepalive_timeout=HEAD_S, lingering_time=0.0
        )
        with listen(self._bind, self._config.port) as listener:
            try:
                self.trouble = ""
                await HttpListener(listener, refusing, context, self._forward).run()
            except* OSError as lost:  # for example no file descriptor is left
                raise OSError(str(lost.exceptions[0])) from lost
            finally:
                await refusing.shutdown(1.0)

    def _tls(self) -> ssl.SSLContext | None:
        """Return what 409 is answered with. A node without the certificate forwards all the same."""
        try:
            return tls_context(self._config)
        except ConfigError as error:
            log_sentence("warning", f"without a supervisor, connections are closed instead of answered: {error}")
            return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # no certificate: each handshake fails

    async def _forward(self, client: socket.socket) -> bool:
        """Join a connection to the leader until one side closes it; return False if there is no leader."""
        leader = self._leader
        if leader is None or leader == self._own or now_s() - self._named_at_s > LED_S:
            return False
        link = await _connected(leader)
        if link is None:
            return False
        with client, link:
            self._links[link] = leader
            try:
                await _Junction(client, link).run()
            finally:
                del self._links[link]
        return True


class _Junction:
    """Two connections whose bytes go to each other."""

    def __init__(self, client: socket.socket, link: socket.socket) -> None:
        self._client, self._link = client, link
        self._moved_at_s = now_s()

    async def run(self) -> None:
        """Move bytes until the leader closes its connection, the client breaks its own, or nothing moves."""
        async with asyncio.TaskGroup() as group:
            up = group.create_task(self._ask())
            with contextlib.suppress(OSError):  # TimeoutError too
                await self._pump(self._link, self._client)
            up.cancel()
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):  # closed with bytes unread, the end of the answer would be lost
                while await asyncio.get_running_loop().sock_recv(self._client, CHUNK):
                    pass

    async def _ask(self) -> None:
        """Move what the client sends; when it breaks the connection, break the other one."""
        try:
            await self._pump(self._client, self._link)
        except OSError:
            _cut(self._link)
        else:
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_WR)

    async def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Move bytes to the end of the source. Raises OSError, TimeoutError if nothing moves in either direction."""
        loop = asyncio.get_running_loop()
        while data := await self._received(source):
            self._moved_at_s = now_s()
            async with asyncio.timeout(IDLE_S):
                await loop.sock_sendall(sink, data)

    async def _received(self, source: socket.socket) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            left_s = self._moved_at_s + IDLE_S - now_s()
            try:
                async with asyncio.timeout(left_s):
                    return await loop.sock_recv(source, CHUNK)
            except TimeoutError:
                if now_s() >= self._moved_at_s + IDLE_S:
                    raise


async def _connected(leader: LeaderPlace) -> socket.socket | None:
    """Connect to the leader; None if that does not succeed in CONNECT_S seconds."""
    link = socket.socket(socket.AF_INET6 if ":" in leader.host else socket.AF_INET)
    try:
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(link, (leader.host, leader.port))
    except OSError:  # TimeoutError too
        link.close()
        return None
    except BaseException:
        link.close()
        raise
    return link


def _cut(link: socket.socket) -> None:
    """End a connection for the tasks that use it."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


async def _refuse(_request: web.BaseRequest) -> web.Response:
    """Answer 409 and close: the next request may find a leader."""
    answer = NO_LEADER.answer()
    response = web.Response(
        status=answer.status, body=answer.encoded(), headers=dict(answer.headers), content_type=answer.content_type
    )
    response.force_close()
    return response
