"""A cluster that the mirror reaches through proxies, one per broker; load, watch and reader connect to it directly.

Each broker has a second listener that advertises the address of its proxy. So a client that connects through a proxy
gets proxies for every other broker too. The proxies run on their own loop, in one thread.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from bench.fronted_broker import Front, FrontedBroker
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST
from deploy.local.proxy import Proxy

T = TypeVar("T")
_EVERY_API = frozenset(range(1000))
_CALL_S = 20.0


class Fronts:
    """The proxies of one cluster and the thread of their loop."""

    def __init__(self, count: int) -> None:
        self.loop = asyncio.new_event_loop()
        """Where the proxies run."""
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.proxies = [Proxy((HOST, 9)) for _ in range(count)]
        for proxy in self.proxies:
            self._wait(asyncio.run_coroutine_threadsafe(proxy.start(), self.loop))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for the mirror."""
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.proxies)

    def cut(self) -> None:
        """Abort every connection and refuse new ones until `mend`."""
        self._each(_cut)

    def stall(self) -> None:
        """Let requests pass but no answers, until `mend`; connections stay."""
        self._each(Proxy.hold)

    def silence(self, at: int) -> None:
        """Let nothing pass to one broker or back, until `mend`; connections are accepted and stay."""
        self._on_loop(lambda: _silence(self.proxies[at]))

    def mend(self) -> None:
        """Serve again: accept new connections, send the held requests and answers."""
        self._each(_mend)

    def close(self) -> None:
        """End the proxies and their thread; harmless if they are gone."""
        if self.loop.is_closed():
            return
        for proxy in self.proxies:
            self._wait(asyncio.run_coroutine_threadsafe(proxy.close(), self.loop))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CALL_S)
        self.loop.close()

    def _each(self, do: Callable[[Proxy], Any]) -> None:
        self._on_loop(lambda: [do(proxy) for proxy in self.proxies])

    def _on_loop(self, do: Callable[[], Any]) -> None:
        async def on_loop() -> None:
            do()

        self._wait(asyncio.run_coroutine_threadsafe(on_loop(), self.loop))

    @staticmethod
    def _wait(future: "Future[T]") -> T:
        return future.result(_CALL_S)


class FrontedCluster(EmbeddedCluster):
    """A cluster of which every broker has a proxy."""

    def __init__(self, name: str, folder: Path, *, brokers: int, overrides: Mapping[str, str], heap_mib: int) -> None:
        super().__init__(name, folder, brokers=brokers, overrides=overrides, heap_mib=heap_mib)
        self.fronts = Fronts(brokers)
        addresses = [broker.address for broker in self.brokers]
        self.brokers = [
            FrontedBroker(broker.address, addresses, broker.folder, self.cluster_id, front)
            for broker, front in zip(self.brokers, self._stand_before(), strict=True)
        ]

    @property
    def mirror_servers(self) -> str:
        """The addresses for the mirror: those of the proxies."""
        return self.fronts.bootstrap_servers

    def stop(self) -> None:
        """Stop brokers and proxies."""
        super().stop()
        self.fronts.close()

    def _stand_before(self) -> Sequence[Front]:
        return self.fronts.proxies


def _cut(proxy: Proxy) -> None:
    proxy.refusing = True
    proxy.cut()


def _silence(proxy: Proxy) -> None:
    proxy.hold_on_new = _EVERY_API
    proxy.hold_requests(_EVERY_API)
    proxy.hold()


def _mend(proxy: Proxy) -> None:
    proxy.refusing = False
    proxy.release_requests()
    proxy.release()
