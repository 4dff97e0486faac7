"""Ends a connection of `http.client` that takes too long as a whole: its own time-outs begin again with each byte."""

import socket
from contextlib import suppress
from http.client import HTTPConnection
from threading import Lock, Timer
from typing import Any, Self


class TimeLimit:
    """Shuts a connection down after some seconds, also in the middle of a TLS handshake or of a proxy's answer."""

    def __init__(self, connection: HTTPConnection, most_s: float) -> None:
        self.is_over = False
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._timer = Timer(most_s, self._end)
        self._timer.daemon = True
        # The only hook before TLS begins; tests of this module fail if http.client should lose it.
        setattr(connection, "_create_connection", self._connected)  # noqa: B010 - it has no such name for mypy

    def _connected(self, *arguments: Any) -> socket.socket:
        """Connect, and keep a second handle: TLS takes the first one away from its socket."""
        found = socket.create_connection(*arguments)
        with self._lock:
            self._socket = found.dup()
            if self.is_over:
                self._shut_down()
        return found

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the other side has closed it
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
