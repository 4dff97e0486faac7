"""One connection to one broker: aiokafka does TCP, TLS and ApiVersions, then raymirror's `BufferedProtocol` reads.

The SASL login comes after that (`authentication.py`), and again while the connection lives (`relogin.py`).

Answers come in the order of the requests. Small answers go into a scratch buffer. A large fetch answer goes directly
into the buffer of its request, so that Python copies no byte of a record batch. This module never retries: a lost
connection fails every request that waits on it, and the caller decides what that means.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.api import Request

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, NoBroker
from engine.config.security import Credentials, HandshakeOptions
from engine.config.tuning.client_tuning import ClientTuning
from engine.kafka.client.authentication import SASL_REQUESTS, MechanismRefused, authenticate, begin, present
from engine.kafka.client.refused_handshake import (
    FirstWords,
    check_broker,
    failure,
    first_words,
    login_failure,
)
from engine.kafka.client.relogin import Relogin
from engine.kafka.protocol.faults import UNSUPPORTED_VERSION, error_name
from engine.kafka.protocol.readable import readable
from engine.security.sasl.login import Exchange, LoginFailed

_SCRATCH_BYTES = 64 * 1024
_LONG_ANSWER_BYTES = 16 * 1024
"""A longer answer to a control request is decoded in a thread: metadata of 400 partitions take 1.6 ms."""
_FRAME = struct.Struct(">i")
_HEADER = struct.Struct(">ii")

Part = bytes | bytearray | memoryview
T = TypeVar("T")
Answer = Callable[[memoryview | None], None]
"""Called once: with the answer after the correlation id, or with None if the connection was lost; in the order of the
requests, also if it was lost.

Without a destination the memory is valid only during the call.
"""


class Destination(Protocol):
    """Provides the buffer for a large answer; asked once per answer."""

    def room(self, size: int) -> memoryview:
        """Return writable memory for `size` bytes; the protocol fills it and passes it to the caller."""


class _Pending:
    __slots__ = ("answer", "correlation_id", "destination")

    def __init__(self, correlation_id: int, answer: Answer, destination: Destination | None) -> None:
        self.correlation_id = correlation_id
        self.answer = answer
        self.destination = destination


class _Frames(asyncio.BufferedProtocol):
    """Cuts the byte stream into answers and hands each to the oldest request."""

    def __init__(self, on_lost: Callable[[Exception | None], None]) -> None:
        self.pending: deque[_Pending] = deque()
        self._on_lost = on_lost
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._have = 0
        self._body: memoryview | None = None
        self._body_have = 0
        self.heard_s = 0.0
        """When the last bytes arrived, by the time of the loop."""

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._body is not None:
            return self._body[self._body_have :]
        return self._scratch_view[self._have :]

    def buffer_updated(self, nbytes: int) -> None:
        self.heard_s = asyncio.get_running_loop().time()
        if self._body is not None:
            self._body_have += nbytes
            if self._body_have == len(self._body):
                body, self._body = self._body, None
                self._deliver(body)
            return
        self._have += nbytes
        self._cut()

    def _cut(self) -> None:
        """Deliver every whole frame in the scratch buffer; move the rest to its front, or to an own buffer if large."""
        at, have, scratch = 0, self._have, self._scratch_view
        while have - at >= 4:
            (size,) = _FRAME.unpack_from(scratch, at)
            end = at + 4 + size
            if end <= have:
                self._deliver(self._kept(scratch[at + 4 : end]))
                at = end
                continue
            if size > _SCRATCH_BYTES - 4:
                self._body = self._room(size)
                self._body_have = have - at - 4
                self._body[: self._body_have] = scratch[at + 4 : have]
                at = have
            break
        self._have = have - at
        if at and self._have:
            self._scratch[: self._have] = self._scratch[at:have]

    def _kept(self, frame: memoryview) -> memoryview:
        """Return the frame in its destination, if it has one, because the next data overwrites the scratch buffer."""
        if not self.pending or self.pending[0].destination is None:
            return frame
        body = self._room(len(frame))
        body[:] = frame
        return body

    def _room(self, size: int) -> memoryview:
        destination = self.pending[0].destination if self.pending else None
        return destination.room(size) if destination is not None else memoryview(bytearray(size))

    def _deliver(self, frame: memoryview) -> None:
        pending = self.pending[0]
        number = _FRAME.unpack_from(frame, 0)[0] if len(frame) >= _FRAME.size else None
        if number != pending.correlation_id:  # this ends the connection; `connection_lost` answers all, in their order
            raise ConnectionLost(f"answer {number} to request {pending.correlation_id}")
        self.pending.popleft()
        pending.answer(frame[4:])

    def abandon(self, pending: _Pending) -> bool:
        """Drop an answer that no caller waits for; return False if its destination is being written to."""
        if self._body is not None and pending.destination is not None and self.pending and self.pending[0] is pending:
            return False
        pending.destination = None
        return True

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        waiting, self.pending = self.pending, deque()
        self._on_lost(exc)
        for pending in waiting:
            pending.answer(None)


class Connection:
    """An open connection: `send` for the data path, `call` for everything else."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        versions: dict[int, tuple[int, int]],
        tuning: ClientTuning | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.versions = versions
        self.closed = asyncio.Event()
        self._tuning = tuning or ClientTuning()
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._frames = _Frames(self._on_lost)
        self._transport: asyncio.Transport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._held: list[tuple[_Pending, list[Part]]] | None = None
        """Requests that wait while the connection logs in again; None at any other time."""
        self.relogin: Relogin | None = None
        """The login, if the broker asked for one."""

    @classmethod
    async def open(cls, host: str, port: int, options: HandshakeOptions) -> "Connection":
        """Connect and do the handshake. Raises BrokerUnreachable with the reason, never with a secret.

        Raises NoBroker if the port belongs to something else, BrokerSilent if the port sends nothing.
        """
        address = f"{host}:{port}"
        try:
            credentials = await present(options) if options.has_tls or options.has_login else None
            login = credentials.login if credentials is not None else None
            # A token or ticket is fetched first: no broker waits for other servers.
            exchange = None if login is None else await begin(login, host)
        except LoginFailed as error:
            raise login_failure(address, error) from error
        handshake = AIOKafkaConnection(host, port, **options.aiokafka(credentials or Credentials()))
        words = first_words(handshake)
        try:
            await handshake.connect()
            check_broker(address, handshake._versions)
        except NoBroker:
            handshake.close()
            raise
        except (OSError, TimeoutError, KafkaError, UnicodeError) as error:  # UnicodeError: of the name of the host
            raise failure(address, error, options, words) from error
        connection = cls(host, port, options.client_id, dict(handshake._versions), options.tuning)
        # Keep the writer, because its finalizer would close the transport.
        connection._writer = handshake._writer
        connection._adopt(await _take_transport(handshake))
        if login is not None and exchange is not None:
            await connection._log_in(login.mechanism, exchange, options, words)
        return connection

    async def _log_in(self, mechanism: str, exchange: Exchange, options: HandshakeOptions, words: FirstWords) -> None:
        """Log in, and plan the next login. Raises BrokerUnreachable."""
        try:
            lifetime_s = await authenticate(self, mechanism, exchange, options.timeout_s)
        except LoginFailed as error:
            await self.close()
            raise login_failure(self.address, error) from error
        except (OSError, TimeoutError, KafkaError, KafkaRefusal, MechanismRefused) as error:
            await self.close()
            raise failure(self.address, error, options, words) from error
        except BaseException:
            self.abort()
            raise
        self.relogin = Relogin(self, options)
        self.relogin.start(lifetime_s)

    def _adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        _set_buffers(transport, self._tuning)
        self._frames.heard_s = asyncio.get_running_loop().time()
        transport.set_protocol(self._frames)
        transport.resume_reading()

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.port}"

    @property
    def answer_s(self) -> float:
        """How long a broker may be silent while it owes an answer."""
        return self._tuning.answer_s

    @property
    def is_stale(self) -> bool:
        """Whether nothing is in flight, and the connection was idle for longer than it may be (`idle_s`).

        Something between here and the broker may have dropped it without a word.
        """
        idle_s, frames = self._tuning.idle_s, self._frames
        return 0 < idle_s < asyncio.get_running_loop().time() - frames.heard_s and not frames.pending

    @property
    def flushed(self) -> bool:
        """Whether the operating system has all bytes that were sent, so that no part of a request is still read."""
        return not self._held and (self._transport is None or self._transport.get_write_buffer_size() == 0)

    def supports(self, api_key: int, version: int) -> bool:
        """Whether the broker speaks this version of this request."""
        low, high = self.versions.get(api_key, (0, -1))
        return low <= version <= high

    def send(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        parts: Sequence[Part],
        answer: Answer,
        destination: Destination | None = None,
    ) -> _Pending:
        """Write a request that consists of `parts` (not copied; do not change them before the answer).

        Raises ConnectionLost if the connection is already closed; `answer` is not called then.
        """
        transport = self._transport
        if transport is None or self.closed.is_set():
            raise ConnectionLost(self.address)
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        head = struct.pack(">hhih", api_key, version, correlation_id, len(self._client_id)) + self._client_id
        if flexible:
            head += b"\0"
        size = len(head) + sum(map(len, parts))
        pending = _Pending(correlation_id, answer, destination)
        frame = [_FRAME.pack(size) + head, *parts]
        if self._held is not None and api_key not in SASL_REQUESTS:
            self._held.append((pending, frame))
        else:
            self._frames.pending.append(pending)
            transport.writelines(frame)
        return pending

    def hold(self) -> None:
        """Let every request but those of a login wait: a broker accepts no other one in between."""
        self._held = []

    def release(self) -> None:
        """Send the requests that waited, in their order; nobody gets an answer if the connection was lost meanwhile.

        Even without an answer the order stays: older requests of a connection that is closing learn of it first.
        """
        held, self._held = self._held or [], None
        for pending, frame in held:
            if self._transport is None or self.closed.is_set():
                pending.answer(None)
                continue
            self._frames.pending.append(pending)
            if not self._transport.is_closing():
                self._transport.writelines(frame)

    async def request(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        parts: Sequence[Part],
        timeout_s: float,
        destination: Destination | None = None,
    ) -> memoryview:
        """Send a request and return the body of the answer; a time-out closes the connection. Raises ConnectionLost.

        The time counts from the last bytes that arrived: a large answer over a slow path is no silent broker.
        """
        future: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()

        def answer(body: memoryview | None) -> None:
            if not future.done():
                future.set_result(memoryview(bytes(body)) if body is not None and destination is None else body)

        pending = self.send(api_key, version, flexible, parts, answer, destination)
        try:
            await self._wait(future, timeout_s)
        except TimeoutError:
            self.abort()
            raise ConnectionLost(f"{self.address}: no answer within {timeout_s:.0f} s") from None
        except asyncio.CancelledError:
            if not self._frames.abandon(pending):
                self.abort()  # this fails other requests too, but nothing may write to the buffer any more
            raise
        body = future.result()
        if body is None:
            raise ConnectionLost(self.address)
        return body

    async def _wait(self, future: "asyncio.Future[memoryview | None]", timeout_s: float) -> None:
        """Wait for a result. Raises TimeoutError when nothing has arrived on the connection for `timeout_s` seconds."""
        loop = asyncio.get_running_loop()
        from_s = loop.time()
        while not future.done():
            left_s = max(from_s, self._frames.heard_s) + timeout_s - loop.time()
            if left_s <= 0:
                raise TimeoutError
            await asyncio.wait((future,), timeout=left_s)

    async def call(self, request: Request[Any], timeout_s: float | None = None) -> Any:
        """Send a request of aiokafka or of `protocol.requests` and decode its answer; without a time: `answer_s`.

        Raises ConnectionLost, and KafkaRefusal if the broker does not know the request.
        """
        prepared = self.prepare(request)
        skip = 1 if prepared.FLEXIBLE_VERSION else 0  # the empty tag section of a flexible response header
        return await self.ask(
            prepared.API_KEY,
            prepared.API_VERSION,
            prepared.FLEXIBLE_VERSION,
            [prepared.encode()],
            lambda body: prepared.RESPONSE_TYPE.decode(body[skip:]),
            timeout_s,
        )

    async def ask(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        parts: Sequence[Part],
        read: Callable[[bytes], T],
        timeout_s: float | None = None,
    ) -> T:
        """Send a request and read its answer, a long one in a thread; without a time: `answer_s`.

        Raises ConnectionLost, also if `read` cannot read the answer.
        """
        within_s = self.answer_s if timeout_s is None else timeout_s
        answer = bytes(await self.request(api_key, version, flexible, parts, within_s))
        try:
            with readable(self.address):
                if len(answer) <= _LONG_ANSWER_BYTES:
                    return read(answer)
                return await asyncio.to_thread(read, answer)
        except ConnectionLost:
            self.abort()
            raise

    def prepare(self, request: Request[Any]) -> Any:
        """Return a request in the newest version that both sides know. Raises KafkaRefusal if none exists."""
        try:
            return request.prepare(self.versions)
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            offered = self.versions.get(request.API_KEY)
            told = f"it offers versions {offered[0]} to {offered[1]} of it" if offered else "it does not offer it"
            raise KafkaRefusal(
                f"{self.address}: {type(request).__name__}",
                UNSUPPORTED_VERSION,
                error_name(UNSUPPORTED_VERSION),
                f"{told}, which raymirror cannot use; use brokers of a supported Kafka release",
            ) from error

    def abort(self) -> None:
        """Close at once; every waiting request gets None."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close and wait until the transport is closed."""
        self.abort()
        if self._transport is not None:
            await self.closed.wait()

    def _on_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        if self.relogin is not None:
            self.relogin.end()


def _set_buffers(transport: asyncio.BaseTransport, tuning: ClientTuning) -> None:
    """Set the sizes of the socket's buffers, if they are not left to the operating system."""
    for option, size in ((socket.SO_SNDBUF, tuning.send_bytes), (socket.SO_RCVBUF, tuning.receive_bytes)):
        if size > 0:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, size)


async def _take_transport(handshake: AIOKafkaConnection) -> asyncio.Transport:
    """Detach the open transport from aiokafka, whose reader task and close callbacks must not touch it any more.

    Raises BrokerUnreachable if the broker has closed the connection by then: nothing else would notice it.
    """
    transport = cast("asyncio.Transport", handshake._writer.transport)
    transport.pause_reading()
    reader_task = handshake._read_task
    handshake._reader = handshake._writer = None  # aiokafka now counts itself as closed
    if handshake._idle_handle is not None:
        handshake._idle_handle.cancel()
    reader_task.cancel()
    try:
        await asyncio.wait([reader_task])  # awaiting the task would not distinguish our cancellation from the reader's
    except asyncio.CancelledError:
        transport.abort()
        raise
    if transport.is_closing() or not reader_task.cancelled():
        transport.abort()
        raise BrokerUnreachable(f"{handshake.host}:{handshake.port}", "the broker hung up right after the handshake")
    return transport
