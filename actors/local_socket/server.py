"""The supervisor's side of its socket: answers the requests of `actors.model.requests` to processes of its own user.

It cannot block the supervisor: the number of connections, their messages and their time are bounded, and an error in
one connection ends only that one. Without a socket, commands ask through Ray, as they do from other machines.
"""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Any

from actors.local_socket import folder as folders
from actors.local_socket.frames import (
    HEAD,
    MOST_REQUEST,
    Answer,
    BadFrame,
    Hello,
    Refusal,
    Reply,
    length_of,
    pack,
    read_request,
)
from actors.logging.logs import log_sentence
from engine.base.errors import MirrorError
from engine.base.redaction import redacted

MOST_CONNECTIONS = 16
IDLE_S = 30.0
"""Seconds that a client may be silent between two requests; `pause` asks four times a second."""
MESSAGE_S = 10.0
"""Seconds that the transfer of one message may take, in either direction."""


class LocalServer:
    """A listening socket. `path`: where it is; `supervisor` has the methods that requests name."""

    def __init__(self, listener: socket.socket, path: Path, hello: Hello, supervisor: Any) -> None:
        self.path = path
        self._listener, self._hello, self._supervisor = listener, hello, supervisor
        self._inode = path.lstat().st_ino
        self._open: set[socket.socket] = set()
        """Accepted connections, for `close`: the task of one may be cancelled before it has started."""

    async def run(self) -> None:
        """Answer until cancelled, then remove the socket."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(self._serve(await self._accept()))
        except* OSError as failed:  # for example no file descriptor is left: commands ask through Ray then
            log_sentence("warning", f"the local socket {self.path} is closed: {failed.exceptions[0]}")
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening and remove the socket, unless the path has another supervisor's socket now."""
        self._listener.close()
        for connection in self._open:
            connection.close()
        try:
            if self.path.lstat().st_ino == self._inode:
                self.path.unlink()
        except FileNotFoundError:
            return

    async def _accept(self) -> socket.socket:
        """Return the next connection; close connections beyond MOST_CONNECTIONS."""
        while True:
            await readable(self._listener)
            with contextlib.suppress(BlockingIOError):  # the client has already closed the connection
                connection, _ = self._listener.accept()
                if len(self._open) < MOST_CONNECTIONS:
                    connection.setblocking(False)
                    self._open.add(connection)
                    return connection
                connection.close()

    async def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                await self._converse(connection)
        except BadFrame as bad:
            log_sentence("warning", f"a process at the local socket sent {bad}: its connection was closed")
        except OSError as lost:  # also a timeout: the client has ended, or does not read
            log_sentence("info", f"a connection at the local socket was closed: {str(lost) or type(lost).__name__}")
        finally:
            self._open.discard(connection)

    async def _converse(self, connection: socket.socket) -> None:
        if not folders.is_of_this_user(connection):
            log_sentence("warning", "a process of another user was refused at the local socket")
            return
        await _send(connection, pack(self._hello))
        while body := await _receive(connection):
            await _send(connection, pack(await self._answer(body)))

    async def _answer(self, body: bytes) -> Reply:
        request = read_request(body)
        try:
            return Answer(await getattr(self._supervisor, request.method)(*request.arguments))
        except MirrorError as error:
            return Refusal(text=str(error), meant=True, exit_code=getattr(error, "exit_code", None))
        except Exception as error:  # noqa: BLE001 - a bug: the client gets the error, and the supervisor continues
            text = f"{type(error).__name__}: {redacted(str(error))}"
            log_sentence("error", f"{request.method} failed: {text}")
            return Refusal(text=text, meant=False)


def open_server(folder: Path, namespace: str, instance_id: str, supervisor: Any) -> LocalServer:
    """Listen for commands in a folder. Raises UnsafeFolder, OSError.

    The socket listens before it gets its name. So a socket that refuses connections is dead, and the name passes from
    a dead one to this one at once.
    """
    folders.make_folder(folder)
    folders.remove_dead(folder)
    path = folder / f"{instance_id}{folders.SUFFIX}"
    part = path.with_suffix(f".{os.getpid()}")
    part.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(part))
        listener.listen(MOST_CONNECTIONS)
        listener.setblocking(False)
        part.replace(path)
        return LocalServer(listener, path, Hello(namespace=namespace, instance_id=instance_id), supervisor)
    except BaseException:
        listener.close()
        raise


def open_if_possible(namespace: str, instance_id: str, supervisor: Any) -> LocalServer | None:
    """Listen for commands of this machine; if that fails, they ask through Ray, and the log says why."""
    if not instance_id:
        return None
    try:
        return open_server(folders.socket_folder(), namespace, instance_id, supervisor)
    except (OSError, folders.UnsafeFolder) as error:
        log_sentence("warning", f"no local socket, so local commands ask through Ray, which takes seconds: {error}")
        return None


async def readable(listener: socket.socket) -> None:
    """Wait for a connection without accepting it: `sock_accept` loses one that arrives as its task is cancelled."""
    _refuse_closed(listener)
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(listener, readable)
    try:
        await came
    finally:
        loop.remove_reader(listener)


async def _send(connection: socket.socket, message: bytes) -> None:
    async with asyncio.timeout(MESSAGE_S):
        await asyncio.get_running_loop().sock_sendall(connection, message)


async def _receive(connection: socket.socket) -> bytes:
    """Receive the next request; empty if the client has closed the connection. Raises BadFrame, OSError."""
    async with asyncio.timeout(IDLE_S):
        first = await _receive_some(connection, 1)
    if not first:
        return b""
    async with asyncio.timeout(MESSAGE_S):
        head = first + await _receive_exactly(connection, HEAD.size - 1)
        body = await _receive_exactly(connection, length_of(head, MOST_REQUEST))
    if not body:
        raise BadFrame("an empty message")
    return body


async def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = await _receive_some(connection, size - len(parts))
        if not part:
            raise BadFrame("an incomplete message")
        parts += part
    return bytes(parts)


async def _receive_some(connection: socket.socket, most: int) -> bytes:
    _refuse_closed(connection)
    return await asyncio.get_running_loop().sock_recv(connection, most)


def _refuse_closed(one: socket.socket) -> None:
    """Raise ConnectionAbortedError for a socket that `LocalServer.close` has closed under its task.

    uvloop raises a ValueError there, which would end the supervisor.
    """
    if one.fileno() < 0:
        raise ConnectionAbortedError("the server has ended")
