"""Accepts connections for the HTTP server: not more than it can have, and none that never sends a request.

asyncio's own server counts no connection before its TLS handshake is done, so a client could begin any number of them.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from actors.local_socket.server import readable

MOST_CONNECTIONS: Final = 128
HANDSHAKE_S: Final = 10.0
BACKLOG: Final = 64


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


class HttpListener:
    """A listening socket whose connections a server answers. `context`: of TLS, None for plain HTTP.

    `divert`: gets each connection first; the server gets those for which it returns False.
    """

    def __init__(
        self,
        listener: socket.socket,
        server: web.Server,
        context: ssl.SSLContext | None,
        divert: Callable[[socket.socket], Awaitable[bool]] | None = None,
    ) -> None:
        self._listener, self._server, self._context, self._divert = listener, server, context, divert
        self._beginning = 0
        """Connections that the server does not have: their TLS handshake is not done, or they were diverted."""
        self._unbegun: set[socket.socket] = set()
        """Connections whose task has not started, so that it cannot close them."""

    async def run(self) -> None:
        """Accept until cancelled. Raises OSError."""
        try:
            await self._accept_all()
        finally:
            for connection in self._unbegun:
                connection.close()

    async def _accept_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await readable(self._listener)
                try:
                    connection, _ = self._listener.accept()
                except (BlockingIOError, ConnectionError):
                    continue  # the client has already closed it
                if self._beginning + len(self._server.connections) >= MOST_CONNECTIONS:
                    connection.close()
                    continue
                connection.setblocking(False)
                self._beginning += 1
                self._unbegun.add(connection)
                group.create_task(self._begin(connection))

    async def _begin(self, connection: socket.socket) -> None:
        self._unbegun.discard(connection)
        handshake_s = HANDSHAKE_S if self._context is not None else None
        loop = asyncio.get_running_loop()
        try:
            if await self._is_diverted(connection):
                return
            with contextlib.suppress(OSError):  # ssl.SSLError too: a client that does not speak TLS, or has gone
                await loop.connect_accepted_socket(
                    self._server, connection, ssl=self._context, ssl_handshake_timeout=handshake_s
                )
        finally:
            self._beginning -= 1

    async def _is_diverted(self, connection: socket.socket) -> bool:
        try:
            return self._divert is not None and await self._divert(connection)
        except BaseException:
            connection.close()
            raise
