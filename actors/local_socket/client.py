"""The command's side of the supervisor's socket: imports no Ray and starts no driver."""

import contextlib
import socket
import time
from pathlib import Path

from actors.local.session import MirrorPlace
from actors.local_socket.folder import UnsafeFolder, is_of_this_user, refuse_unsafe
from actors.local_socket.frames import (
    HEAD,
    MOST_ANSWER,
    MOST_REQUEST,
    PROTOCOL,
    Answer,
    BadFrame,
    Reply,
    length_of,
    pack,
    read_hello,
    read_reply,
)
from actors.model.requests import CALL_TIMEOUT_S, AnsweringMirror, AnyRequest, MirrorLost
from actors.model.status import MirrorStatus
from engine.base.errors import MirrorError

HELLO_S = 2.0
"""Seconds to wait for the Hello of the supervisor, which a frozen one cannot send; after that, ask through Ray."""


class RequestRefused(MirrorError):
    """The supervisor refused a request, in its own words."""

    def __init__(self, text: str, exit_code: int | None) -> None:
        super().__init__(text, exit_code)
        self.text = text
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return self.text


class LocalMirror(AnsweringMirror):
    """A mirror on this machine, over an open connection to its supervisor."""

    def __init__(self, connection: socket.socket, namespace: str) -> None:
        self.namespace = namespace
        self._connection = connection

    def send(self, request: AnyRequest, timeout_s: float = CALL_TIMEOUT_S) -> bytes | None:
        """Ask over the socket. Raises MirrorLost, RequestRefused."""
        reply = self._ask(request, timeout_s)
        if isinstance(reply, Answer):
            return reply.body
        if reply.meant:
            raise RequestRefused(reply.text, reply.exit_code)
        raise MirrorLost(self.namespace, reply.text)

    def _ask(self, request: AnyRequest, timeout_s: float) -> Reply:
        give_up_at_s = time.monotonic() + timeout_s
        message = pack(request)
        if len(message) - HEAD.size > MOST_REQUEST:
            size = f"{len(message):,} bytes, {MOST_REQUEST:,} are allowed"
            raise RequestRefused(f"the command has {size}: name fewer topics at a time", None)
        try:
            self._connection.settimeout(timeout_s)
            self._connection.sendall(message)
            return read_reply(_receive(self._connection, MOST_ANSWER, give_up_at_s))
        except TimeoutError:
            raise MirrorLost(self.namespace, f"no answer in {timeout_s:.0f} s") from None
        except (OSError, BadFrame) as error:
            raise MirrorLost(self.namespace, f"its local socket: {error}") from error

    def close(self) -> None:
        self._connection.close()


def reach(place: MirrorPlace) -> LocalMirror | None:
    """Connect to the mirror of a place by its socket; None if the command must ask through Ray.

    That is so if it has no socket on this machine, if no process listens there (it was killed, or the machine was
    rebooted), or if another mirror answers: one of the same name, of another Ray, or of another user.
    """
    if not place.socket:
        return None
    path = Path(place.socket)
    connection = socket.socket(socket.AF_UNIX)
    with contextlib.ExitStack() as stack:
        stack.callback(connection.close)
        try:
            refuse_unsafe(path.parent)
            connection.settimeout(HELLO_S)
            connection.connect(str(path))
            if not is_of_this_user(connection):
                return None
            hello = read_hello(_receive(connection, MOST_REQUEST, time.monotonic() + HELLO_S))
        except (OSError, BadFrame, UnsafeFolder):
            return None
        if (hello.protocol, hello.namespace, hello.instance_id) != (PROTOCOL, place.namespace, place.instance_id):
            return None
        stack.pop_all()
    return LocalMirror(connection, place.namespace)


def status_of(place: MirrorPlace, *, lanes: bool = False) -> MirrorStatus | None:
    """Ask the mirror of a place for its status by its socket; None if the command must ask through Ray.

    Raises MirrorLost.
    """
    mirror = reach(place)
    if mirror is None:
        return None
    with contextlib.closing(mirror):
        return mirror.status(lanes=lanes)


def _receive(connection: socket.socket, most: int, give_up_at_s: float) -> bytes:
    """Receive the next message. Raises BadFrame, OSError; TimeoutError at `give_up_at_s` of the monotonic clock."""
    head = _receive_exactly(connection, HEAD.size, give_up_at_s)
    return _receive_exactly(connection, length_of(head, most), give_up_at_s)


def _receive_exactly(connection: socket.socket, size: int, give_up_at_s: float) -> bytes:
    found = bytearray(size)
    view, filled = memoryview(found), 0
    while filled < size:
        left_s = give_up_at_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        count = connection.recv_into(view[filled:])
        if not count:
            raise BadFrame("it was closed")
        filled += count
    return bytes(found)
