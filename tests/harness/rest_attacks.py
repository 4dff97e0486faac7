"""What clients that mean harm send to an HTTP server: tables of bytes, and clients that send without end.

A port is all that an attack needs, so the same ones go against a server without a mirror and against a live mirror.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

HOST: Final = b"Host: localhost\r\n"
DEADLINE_S: Final = 300.0
SMUGGLED: Final = b"PUT {steer} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
"""The request that must not be seen: whoever asks for it has not sent it as a request of its own."""
_PIECE: Final = b" " * 1024 * 1024


class Smuggling(NamedTuple):
    """A request whose end is not certain."""

    name: str
    data: bytes


def smugglings(steer: str) -> tuple[Smuggling, ...]:
    """Return requests of which a server and a proxy before it may disagree where they end; `steer`: a path to PUT."""
    inner = SMUGGLED.replace(b"{steer}", steer.encode())
    chunked = b"0\r\n\r\n" + inner
    validate = b"PUT /connector-plugins/MirrorSourceConnector/config/validate HTTP/1.1\r\n" + HOST
    post = validate + b"Content-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n" % len(chunked)
    te = b"Transfer-Encoding: chunked\r\n"
    return (
        Smuggling("length and chunked", post + length + te + b"\r\n" + chunked),
        Smuggling("chunked and length", post + te + length + b"\r\n" + chunked),
        Smuggling("two lengths", post + b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}" + inner),
        Smuggling("a list of lengths", post + b"Content-Length: 2, 0\r\n\r\n{}" + inner),
        Smuggling("a length with a sign", post + b"Content-Length: +2\r\n\r\n{}" + inner),
        Smuggling("a negative length", post + b"Content-Length: -1\r\n\r\n" + inner),
        Smuggling("a length in hex", post + b"Content-Length: 0x2\r\n\r\n{}" + inner),
        Smuggling("a space before the colon", post + b"Content-Length : 0\r\n\r\n" + inner),
        Smuggling("a folded length", post + b"Content-Length:\r\n 0\r\n\r\n" + inner),
        Smuggling("another coding", post + b"Transfer-Encoding: xchunked\r\n\r\n" + chunked),
        Smuggling("chunked before another coding", post + b"Transfer-Encoding: chunked, identity\r\n\r\n" + chunked),
        Smuggling("chunked twice", post + te + te + b"\r\n" + chunked),
        Smuggling("a hidden coding", post + length + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + chunked),
        Smuggling("a chunk of no number", post + te + b"\r\nzz\r\n{}\r\n" + chunked),
        Smuggling("a chunk of a negative size", post + te + b"\r\n-1\r\n" + inner),
        Smuggling("a chunk that overflows", post + te + b"\r\n" + b"f" * 20 + b"\r\n" + inner),
        Smuggling("a chunk longer than it says", post + te + b"\r\n2\r\n{}x" + inner),
        Smuggling("a line that ends with LF in a header", post + b"X: y\nContent-Length: 0\r\n\r\n" + inner),
        Smuggling("a zero byte in a header", post + b"X: \x00\r\n\r\n" + inner),
        Smuggling("a header without a name", post + b": y\r\n\r\n" + inner),
        Smuggling("a header without a colon", post + b"nothing\r\n\r\n" + inner),
        Smuggling("HTTP/1.0 with chunks", post.replace(b"HTTP/1.1", b"HTTP/1.0") + te + b"\r\n" + chunked),
    )


class Flood(NamedTuple):
    """Bytes without end that one connection sends."""

    name: str
    head: bytes
    piece: bytes


def floods() -> tuple[Flood, ...]:
    """Return bodies of a GiB, and heads without an end."""
    post = b"POST /connectors HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    get = b"GET /connectors HTTP/1.1\r\n" + HOST
    chunk = b"%x\r\n" % len(_PIECE) + _PIECE + b"\r\n"
    small = b"".join(b"1;%s\r\n \r\n" % (b"x" * 100) for _ in range(1000))
    return (
        Flood("a length of a GiB", post + b"Content-Length: 1073741824\r\n\r\n", _PIECE),
        Flood("chunks of a GiB", post + b"Transfer-Encoding: chunked\r\n\r\n", chunk),
        Flood("chunks with extensions", post + b"Transfer-Encoding: chunked\r\n\r\n", small),
        Flood("one chunk of a GiB", post + b"Transfer-Encoding: chunked\r\n\r\n40000000\r\n", _PIECE),
        Flood("trailers without end", post + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 10_000),
        Flood("a target without end", b"GET /", b"x" * 65536),
        Flood("a method without end", b"", b"X" * 65536),
        Flood("a header without end", get + b"X: ", b"x" * 65536),
        Flood("a name without end", get, b"x" * 65536),
        Flood("headers without end", get, b"".join(b"x-%d: y\r\n" % number for number in range(5000))),
        Flood("folded lines without end", get + b"X: y\r\n", b" y\r\n" * 10_000),
        Flood("a body that no route reads", get + b"Content-Length: 1073741824\r\n\r\n", _PIECE),
        Flood("zeros", b"", b"\0" * 65536),
    )


class AttackedPort:
    """A port of this machine, and clients of it that mean harm."""

    def __init__(self, port: int, headers: bytes = b"") -> None:
        self.port, self._headers = port, headers

    async def status(self, method: str = "GET", path: str = "/connectors") -> int:
        """Send an honest request over a connection of its own; give its status, 0 if it is not answered."""
        head = f"{method} {path} HTTP/1.1\r\n".encode() + HOST + self._headers + b"Connection: close\r\n\r\n"
        answer = await self.send(head)
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0

    async def send(self, data: bytes) -> bytes:
        """Send bytes over a connection of its own, and give all that comes until the server closes it."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return b""
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(data)
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def flood(self, flood: Flood) -> int:
        """Send without end until the server cuts the connection; give how many bytes were sent."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent = 0
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(flood.head)
                while True:
                    writer.write(flood.piece)
                    await writer.drain()
                    sent += len(flood.piece)
        except ConnectionError:
            return sent
        finally:
            writer.transport.abort()

    async def drip(self, count: int) -> None:
        """Open connections that send a header byte by byte, and wait until the server has closed each of them."""
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._drip_one())

    async def _drip_one(self) -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                async with asyncio.timeout(DEADLINE_S):
                    writer.write(b"GET /connectors HTTP/1.1\r\nX: ")
                    while True:
                        writer.write(b"x")
                        await writer.drain()
                        await asyncio.sleep(0.1)
            finally:
                writer.transport.abort()

    async def pipeline(self, count: int) -> int:
        """Send requests of one connection, without reading an answer before the last; give how many were answered."""
        one = b"GET /connectors HTTP/1.1\r\n" + HOST + self._headers
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        answered = asyncio.create_task(self._count_answers(reader))
        try:
            with contextlib.suppress(ConnectionError):
                for _ in range(count - 1):
                    writer.write(one + b"\r\n")
                    await writer.drain()
                writer.write(one + b"Connection: close\r\n\r\n")
            return await answered
        finally:
            writer.transport.abort()

    @staticmethod
    async def _count_answers(reader: asyncio.StreamReader) -> int:
        found, rest = 0, b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(DEADLINE_S):
                while data := await reader.read(65536):
                    found += (rest + data).count(b"HTTP/1.1 200")
                    rest = (rest + data)[-11:]
                    found -= rest.count(b"HTTP/1.1 200")
        return found

    @contextlib.asynccontextmanager
    async def crowd(self, count: int) -> AsyncIterator[int]:
        """Open so many connections, a hundred at a time, and hold those that are let in; give how many were opened."""
        opened: list[asyncio.StreamWriter] = []
        turns = asyncio.Semaphore(100)

        async def enter() -> None:
            async with turns:
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(DEADLINE_S):
                        opened.append((await asyncio.open_connection("127.0.0.1", self.port))[1])

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(count):
                    group.create_task(enter())
            yield len(opened)
        finally:
            for one in opened:
                one.transport.abort()
