"""A TCP proxy in front of one broker that delays, holds and cuts on demand: distance and faults for tests and benches.

    client --requests---> [delay] -----------> broker
    client <--[gate] <--- [delay] <--responses-- broker

Requests are read along only as far as Kafka's framing goes, to learn which API a correlation id belongs to, so that
`hold({0})` holds Produce responses and lets everything before them pass. Responses of one connection are in order, so
what comes behind a held one waits too. Plaintext connections only. The broker must advertise the proxy's address, or
clients go round it; for an embedded cluster of one broker:

    async with Proxy(("127.0.0.1", 0)) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        cluster = Cluster("target", folder, overrides=advertised)
        proxy.target = ("127.0.0.1", cluster.brokers[0].port)
        await asyncio.to_thread(cluster.start)  # clients then bootstrap from the proxy's port
"""

import asyncio
from types import TracebackType
from typing import Self

from deploy.local.delay import Delay
from deploy.local.frames import FrameSplitter, Piece

_CHUNK_BYTES = 256 * 1024


class Proxy:
    """Forward every connection to one broker; an async context manager, bounded in memory per connection.

    `target` (host, port) and the delays may be changed at any time; a new target serves connections made from then on,
    a new delay the bytes that arrive from then on. `refusing` closes new connections at once. Raises OSError from
    `start` if the port to listen on is taken.
    """

    def __init__(self, target: tuple[str, int], *, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.target = target
        self.request_delay_s = 0.0
        self.response_delay_s = 0.0
        self.refusing = False
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], Delay] = {}
        self._held_apis: frozenset[int] | None = frozenset()
        self._changed = asyncio.Event()

    @property
    def port(self) -> int:
        """The port clients connect to; RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the proxy is not started: use `async with` or call start()")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """Client connections open now."""
        return len(self._links)

    @property
    def held_responses(self) -> int:
        """Responses that the broker has sent and `hold` keeps back, those queued behind one of them not counted."""
        return sum(1 for way in self._links.values() for piece in way.waiting if self._holds(piece))

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, *self._listen, limit=_CHUNK_BYTES)

    def hold(self, apis: frozenset[int] | None = None) -> None:
        """Keep back responses to these API keys (0 = Produce, 1 = Fetch; None = all) until `release` or `cut`."""
        self._held_apis = apis
        self._wake()

    def release(self) -> None:
        """Let held responses go on, in order."""
        self.hold(frozenset())

    async def wait_held(self, count: int) -> None:
        """Return when at least `count` responses are kept back at the same time."""
        while self.held_responses < count:
            await self._changed.wait()

    def cut(self) -> None:
        """Abort every connection, both sides, and drop what was held or under way; new connections are served."""
        for link in self._links:
            link.cancel()

    async def close(self) -> None:
        """Stop listening, cut every connection and return when all of them are gone."""
        if self._server is None:
            return
        self._server.close()
        links = tuple(self._links)
        self.cut()
        await asyncio.gather(*links, return_exceptions=True)
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _holds(self, piece: Piece) -> bool:
        return piece.header is not None and (self._held_apis is None or piece.api in self._held_apis)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        if link is None or self.refusing:
            writer.transport.abort()
            return
        responses = self._links[link] = Delay()
        try:
            await self._link(reader, writer, responses)
        except* (OSError, asyncio.CancelledError):
            pass  # a side went away, or `cut`: the client sees a dead connection, which is all a proxy can say
        finally:
            del self._links[link]
            writer.transport.abort()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, responses: Delay) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*self.target, limit=_CHUNK_BYTES)
        apis: dict[int, int] = {}
        requests = Delay()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_requests(reader, requests, apis))
                group.create_task(_write_requests(requests, broker_writer))
                group.create_task(self._read_responses(broker_reader, responses, apis))
                group.create_task(self._write_responses(responses, writer))
        finally:
            broker_writer.transport.abort()

    async def _read_requests(self, reader: asyncio.StreamReader, way: Delay, apis: dict[int, int]) -> None:
        splitter = FrameSplitter(header_bytes=8)
        while chunk := await reader.read(_CHUNK_BYTES):
            for piece in splitter.split(chunk):
                if piece.header is not None:
                    apis[int.from_bytes(piece.header[4:8])] = int.from_bytes(piece.header[:2])
                await way.put(piece, self.request_delay_s)
        way.end()

    async def _read_responses(self, reader: asyncio.StreamReader, way: Delay, apis: dict[int, int]) -> None:
        splitter = FrameSplitter(header_bytes=4)
        while chunk := await reader.read(_CHUNK_BYTES):
            for piece in splitter.split(chunk):
                if piece.header is not None:
                    piece.api = apis.pop(int.from_bytes(piece.header), -1)
                await way.put(piece, self.response_delay_s)
            self._wake()
        way.end()

    async def _write_responses(self, way: Delay, writer: asyncio.StreamWriter) -> None:
        while piece := await way.next_due():
            while self._holds(piece):
                await self._changed.wait()
            writer.write(piece.data)
            await writer.drain()
            way.pop()
        writer.write_eof()


async def _write_requests(way: Delay, writer: asyncio.StreamWriter) -> None:
    while piece := await way.next_due():
        writer.write(piece.data)
        await writer.drain()
        way.pop()
    writer.write_eof()
