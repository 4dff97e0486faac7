"""The network between a test and a store of objects: slow, throttled and away, while the test goes on in its thread.

    client --request--> [delay] --> refuse this one? --> store
           <--------------503 SlowDown--/

HTTP/1.1 without TLS.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

from deploy.local.ports import HOST

CHUNK_BYTES = 64 * 1024
_END = b"\r\n"
_BODY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_HEAD = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


class RequestHead:
    """The first line and the headers of a request."""

    def __init__(self, data: bytes) -> None:
        line, *rest = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.data, self.method = data, line.partition(" ")[0]
        headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        self._body_bytes = int(headers.get("content-length", "0"))
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.waits = headers.get("expect", "").lower() == "100-continue"
        """Whether the body comes only after an answer."""

    async def body(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield the body as it is on the wire. Raises IncompleteReadError."""
        if not self._is_chunked:
            async for data in _exactly(self._body_bytes, reader):
                yield data
            return
        while True:
            line = await reader.readuntil(_END)
            yield line
            size = int(line.partition(b";")[0], 16)
            if not size:
                break
            async for data in _exactly(size + len(_END), reader):
                yield data
        while line != _END:  # trailers, if any, and an empty line
            line = await reader.readuntil(_END)
            yield line

    def refusal(self) -> bytes:
        """Return an answer as Amazon's S3 gives it if requests come too fast; that to HEAD has no body."""
        body = b"" if self.method == "HEAD" else _BODY
        return _HEAD % len(body) + body


async def _exactly(size: int, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size:
        data = await reader.readexactly(min(size, CHUNK_BYTES))
        size -= len(data)
        yield data


class StorePath:
    """A proxy in front of a store, in a thread with a loop of its own: clients of the store block the test's."""

    def __init__(self, store_port: int) -> None:
        self._store_port = store_port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._open = threading.Event()
        self._serving = set[asyncio.Task[None]]()
        self._delay_s, self._one_in, self._is_away = 0.0, 0, False
        self._last_request = b""
        self._gone = threading.Event()
        self._seen = 0
        self.refused = 0
        """Requests that were answered with 503."""
        self.turned_away = 0
        """Connections that were not accepted."""
        self.port = 0

    def serve(self) -> None:
        """Serve until `end`."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._accept, HOST, 0, limit=CHUNK_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        self._open.set()
        await self._ended.wait()
        server.close()
        self._cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def wait_open(self, within_s: float) -> None:
        """Return when clients can connect."""
        assert self._open.wait(within_s), "the proxy did not start"

    def slow(self, delay_s: float) -> None:
        """Delay each request."""

        def change() -> None:
            self._delay_s = delay_s

        self._do(change)

    def throttle(self, one_in: int) -> None:
        """Refuse one of so many requests with 503 (SlowDown); 0: none."""

        def change() -> None:
            self._one_in = one_in

        self._do(change)

    def go_away(self) -> None:
        """Cut every connection, and accept no other."""
        self._do(self._leave)

    def go_away_after(self, request: bytes) -> None:
        """Go away when the store has answered a request that begins so; nobody gets that answer."""

        def change() -> None:
            self._last_request = request

        self._do(change)

    def wait_gone(self, within_s: float) -> None:
        """Return when the store is away."""
        assert self._gone.wait(within_s), f"no request began with {self._last_request!r}"

    def come_back(self) -> None:
        """Accept connections again."""
        self._gone.clear()

        def change() -> None:
            self._is_away, self._last_request = False, b""

        self._do(change)

    def end(self) -> None:
        """Close the proxy."""
        self._do(self._ended.set)

    def _do(self, change: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(change)

    def _leave(self) -> None:
        self._is_away = True
        self._gone.set()
        self._cut()

    def _cut(self) -> None:
        for one in self._serving:
            one.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to serve a connection; it is closed also if it is cut before that has begun."""
        if self._is_away:
            self.turned_away += 1
            writer.transport.abort()
            return

        def over(served: asyncio.Task[None]) -> None:
            self._serving.discard(served)
            writer.transport.abort()

        serving = asyncio.create_task(self._connected(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(over)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store_reader, store_writer = await asyncio.open_connection(HOST, self._store_port, limit=CHUNK_BYTES)
        is_last = asyncio.Event()
        answers = asyncio.create_task(self._answers(store_reader, writer, is_last))
        try:
            while not reader.at_eof():
                head = RequestHead(await reader.readuntil(b"\r\n\r\n"))
                await asyncio.sleep(self._delay_s)
                if self._refuses():
                    await self._refuse(head, reader, writer)
                    return
                if self._last_request and head.data.startswith(self._last_request):
                    is_last.set()
                store_writer.write(head.data)
                async for data in head.body(reader):
                    store_writer.write(data)
                    await store_writer.drain()
        finally:
            store_writer.transport.abort()  # first: this task may be cancelled while it waits for the other one
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)

    def _refuses(self) -> bool:
        self._seen += 1
        return self._one_in > 0 and self._seen % self._one_in == 0

    async def _refuse(self, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request that the store never sees, after its body: a connection with unread bytes would be reset."""
        if not head.waits:
            async for _ in head.body(reader):
                pass
        self.refused += 1
        writer.write(head.refusal())
        writer.close()
        await writer.wait_closed()

    async def _answers(
        self, store_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_last: asyncio.Event
    ) -> None:
        try:
            while data := await store_reader.read(CHUNK_BYTES):
                if is_last.is_set():
                    self._leave()
                    return
                writer.write(data)
                await writer.drain()
        finally:
            if store_reader.at_eof():
                writer.close()  # the store ended the connection


@contextmanager
def store_path(store_port: int, within_s: float = 60.0) -> Iterator[StorePath]:
    """Put a network in front of a store on this machine; clients use its port."""
    path = StorePath(store_port)
    thread = threading.Thread(target=path.serve, name="path to the store")
    thread.start()
    try:
        path.wait_open(within_s)
        yield path
    finally:
        path.end()
        thread.join(within_s)
