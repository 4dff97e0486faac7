"""A TCP proxy in front of one broker that delays, holds and cuts traffic: distance and faults for tests and benches.

    client --requests---> [delay] ---> [gate] -> broker
    client <--[gate] <--- [delay] <--responses-- broker

The proxy reads only the header of each request, to learn which API a correlation id belongs to, so that `hold({0})`
holds Produce responses and lets everything before them pass. Both directions of a connection are in order, so bytes
behind a held message wait too. Plaintext connections only. The broker must advertise the proxy's address, or clients
bypass the proxy. For an embedded cluster of one broker:

    async with Proxy(("127.0.0.1", 0)) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        cluster = Cluster("target", folder, overrides=advertised)
        proxy.target = ("127.0.0.1", cluster.brokers[0].port)
        await asyncio.to_thread(cluster.start)  # clients then bootstrap from the proxy's port
"""

import asyncio
from contextlib import nullcontext, suppress
from types import TracebackType
from typing import Self

from deploy.local.delay import Delay
from deploy.local.frames import FramePart, FrameSplitter

_CHUNK_BYTES = 256 * 1024
_TURNS_TO_SERVE = 4
"""Turns of the event loop between accepting a connection and the first step of the task that serves it."""


class _Link:
    """Both directions of one connection, and the APIs whose requests it holds. `stays`: it has held requests; it
    delivers them even if its client has disconnected by then, as a network would.
    """

    def __init__(self, held_apis: frozenset[int]) -> None:
        self.requests, self.responses = Delay(), Delay()
        self.held_apis = held_apis
        self.stays = bool(held_apis)

    def holds(self, request: FramePart) -> bool:
        """Whether this request must wait."""
        return request.header is not None and request.api in self.held_apis

    def client_may_go(self) -> suppress | nullcontext[None]:
        """Ignore that the client has disconnected, if the connection stays."""
        return suppress(ConnectionError) if self.stays else nullcontext()


class Proxy:
    """Forward every connection to one broker; an async context manager, bounded in memory per connection.

    `target` (host, port) and the delays may be changed at any time; a new target applies to connections opened after
    that, a new delay to bytes that arrive after that. `refusing` closes new connections at once. `start` raises OSError
    if the port to listen on is taken.
    """

    def __init__(self, target: tuple[str, int], *, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.target = target
        self.request_delay_s = 0.0
        self.response_delay_s = 0.0
        self.refusing = False
        self.hold_on_new: frozenset[int] = frozenset()
        """API keys whose requests are held on connections that are opened from now on."""
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], _Link] = {}
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
        """Number of responses that `hold` holds, without the responses queued behind them."""
        return sum(1 for link in self._links.values() for piece in link.responses.waiting if self._holds(piece))

    @property
    def held_requests(self) -> int:
        """Number of requests that are held, without the requests queued behind them."""
        return sum(1 for link in self._links.values() for piece in link.requests.waiting if link.holds(piece))

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, *self._listen, limit=_CHUNK_BYTES)

    def hold(self, apis: frozenset[int] | None = None) -> None:
        """Hold responses to these API keys (0 = Produce, 1 = Fetch; None = all) until `release` or `cut`."""
        self._held_apis = apis
        self._wake()

    def release(self) -> None:
        """Deliver held responses, in order."""
        self.hold(frozenset())

    async def wait_held(self, count: int) -> None:
        """Return when at least `count` responses are held at the same time."""
        while self.held_responses < count:
            await self._changed.wait()

    def hold_requests(self, apis: frozenset[int]) -> None:
        """Hold requests of these APIs on the connections that are open now, until `release_requests` or `cut`.

        `hold_on_new` applies to connections opened later. Held requests are delivered even if their client disconnects.
        """
        for link in self._links.values():
            link.held_apis = apis
            link.stays = link.stays or bool(apis)
        self._wake()

    def release_requests(self) -> None:
        """Deliver held requests, in order, and hold none on new connections."""
        self.hold_on_new = frozenset()
        self.hold_requests(frozenset())

    async def wait_held_requests(self, count: int) -> None:
        """Return when at least `count` requests are held at the same time."""
        while self.held_requests < count:
            await self._changed.wait()

    def cut(self) -> None:
        """Abort every connection, both sides, and drop all held and delayed bytes; new connections are served."""
        for serving in self._links:
            serving.cancel()

    async def close(self) -> None:
        """Stop listening, cut every connection and return when all of them are gone."""
        if self._server is None:
            return
        # Not `Server.close` first: before Python 3.12 it leaves connections open that were accepted a moment ago.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening)
        for _ in range(_TURNS_TO_SERVE):
            await asyncio.sleep(0)
        links = tuple(self._links)
        self.cut()
        await asyncio.gather(*links, return_exceptions=True)
        self._server.close()
        await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _holds(self, piece: FramePart) -> bool:
        return piece.header is not None and (self._held_apis is None or piece.api in self._held_apis)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        if serving is None or self.refusing:
            writer.transport.abort()
            return
        link = self._links[serving] = _Link(self.hold_on_new)
        try:
            await self._connect(link, reader, writer)
        except* (OSError, asyncio.CancelledError):
            pass  # a side disconnected, or `cut`: the client sees a dead connection, as intended
        finally:
            del self._links[serving]
            writer.transport.abort()

    async def _connect(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(*self.target, limit=_CHUNK_BYTES)
        apis: dict[int, int] = {}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_requests(link, reader, apis))
                group.create_task(self._write(link, link.requests, broker_writer))
                group.create_task(self._read_responses(link, broker_reader, apis))
                group.create_task(self._write(link, link.responses, writer))
        finally:
            broker_writer.transport.abort()

    async def _read_requests(self, link: _Link, reader: asyncio.StreamReader, apis: dict[int, int]) -> None:
        splitter = FrameSplitter(header_bytes=8)
        with link.client_may_go():
            while chunk := await reader.read(_CHUNK_BYTES):
                for piece in splitter.split(chunk):
                    if piece.header is not None:
                        piece.api = int.from_bytes(piece.header[:2])
                        apis[int.from_bytes(piece.header[4:8])] = piece.api
                    await link.requests.put(piece, self.request_delay_s)
                self._wake()
        link.requests.end()

    async def _read_responses(self, link: _Link, reader: asyncio.StreamReader, apis: dict[int, int]) -> None:
        splitter = FrameSplitter(header_bytes=4)
        while chunk := await reader.read(_CHUNK_BYTES):
            for piece in splitter.split(chunk):
                if piece.header is not None:
                    piece.api = apis.pop(int.from_bytes(piece.header), -1)
                await link.responses.put(piece, self.response_delay_s)
            self._wake()
        link.responses.end()

    async def _write(self, link: _Link, way: Delay, writer: asyncio.StreamWriter) -> None:
        """Write one direction of a connection, in order; a lost client may be ignored, a lost broker never."""
        is_requests = way is link.requests
        while piece := await way.next_due():
            while link.holds(piece) if is_requests else self._holds(piece):
                await self._changed.wait()
            with nullcontext() if is_requests else link.client_may_go():
                writer.write(piece.data)
                await writer.drain()
            way.pop()
        writer.write_eof()
