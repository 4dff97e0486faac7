"""A TCP relay in front of a listener that speaks TLS: it cuts connections, so that clients must shake hands again.

It runs in a thread with a loop of its own. `deploy.local.proxy` reads the requests that pass, which TLS hides.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports

_CHUNK_BYTES = 256 * 1024
_START_S = 30.0


class Relay:
    """Connections to `address` go to the listener of a cluster, which advertises that address."""

    def __init__(self, cluster: EmbeddedCluster, listener: str) -> None:
        """Change what a cluster that has not started advertises for the listener at `listener` (host:port)."""
        (self._port,) = pick_ports(1)
        self._to = listener.rpartition(":")[2]
        self.address = f"{HOST}:{self._port}"
        self.accepted = 0
        """Connections so far."""
        advertised = cluster.overrides["advertised.listeners"]
        assert f"//{listener}" in advertised, advertised
        cluster.overrides["advertised.listeners"] = advertised.replace(f"//{listener}", f"//{self.address}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open, self._ended = threading.Event(), asyncio.Event()
        self._serving = set[asyncio.Task[None]]()

    def cut(self) -> None:
        """Close every connection; new ones are served."""
        self._do(self._cut)

    def _cut(self) -> None:
        for serving in self._serving:
            serving.cancel()

    def serve(self) -> None:
        """Serve until `end`."""
        asyncio.run(self._serve())

    def wait_open(self) -> None:
        """Return when clients can connect."""
        assert self._open.wait(_START_S), "the relay did not start"

    def end(self) -> None:
        """Stop."""
        self._do(self._ended.set)

    def _do(self, change: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(change)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, HOST, self._port, limit=_CHUNK_BYTES)
        self._open.set()
        await self._ended.wait()
        server.close()
        self._cut()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        try:
            with suppress(OSError, asyncio.CancelledError):  # a side disconnected, or `cut`
                await self._forward(reader, writer)
        finally:
            self._serving.discard(serving)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(HOST, self._to, limit=_CHUNK_BYTES)
        try:
            ways = [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            back.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


@contextmanager
def relaying(*relays: Relay) -> Iterator[None]:
    """Let relays serve."""
    threads = [threading.Thread(target=one.serve, daemon=True) for one in relays]
    for thread in threads:
        thread.start()
    try:
        for one in relays:
            one.wait_open()
        yield
    finally:
        for one, thread in zip(relays, threads, strict=True):
            one.end()
            thread.join()
