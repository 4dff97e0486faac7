"""The network between a test and a store: slow, and away, while the test goes on in its own thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deploy.local.ports import HOST
from deploy.local.proxy import Proxy
from tests.harness.s3_server import S3Server


class StorePath:
    """A proxy in front of a store, in a thread with a loop of its own: clients of the store block the test's."""

    def __init__(self, server: S3Server) -> None:
        self._proxy = Proxy((HOST, server.port))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._open = threading.Event()
        self.port = 0

    def serve(self) -> None:
        """Serve until `end`."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._proxy:
            self.port = self._proxy.port
            self._open.set()
            await self._ended.wait()

    def wait_open(self, within_s: float) -> None:
        """Return when clients can connect."""
        assert self._open.wait(within_s), "the proxy did not start"

    def slow(self, delay_s: float) -> None:
        """Delay requests and answers."""

        def change() -> None:
            self._proxy.request_delay_s = self._proxy.response_delay_s = delay_s

        self._do(change)

    def go_away(self) -> None:
        """Cut every connection, and accept no other."""

        def change() -> None:
            self._proxy.refusing = True
            self._proxy.cut()

        self._do(change)

    def come_back(self) -> None:
        """Accept connections again."""

        def change() -> None:
            self._proxy.refusing = False

        self._do(change)

    def end(self) -> None:
        """Close the proxy."""
        self._do(self._ended.set)

    def _do(self, change: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(change)


@contextmanager
def store_path(server: S3Server, within_s: float = 60.0) -> Iterator[StorePath]:
    """Put a network in front of a store; clients use its port."""
    path = StorePath(server)
    thread = threading.Thread(target=path.serve, name="path to the store")
    thread.start()
    try:
        path.wait_open(within_s)
        yield path
    finally:
        path.end()
        thread.join(within_s)
