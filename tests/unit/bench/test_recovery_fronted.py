"""A cluster behind proxies: one broker stops answering through its proxy, the others answer."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from bench.recovery.fronted import Fronts

pytestmark = pytest.mark.local

DEADLINE_S = 120.0


def frame(correlation: int) -> bytes:
    """A request of eight bytes: Produce of version 0."""
    return (8).to_bytes(4) + bytes(4) + correlation.to_bytes(4)


class Echo(threading.Thread):
    """A broker that answers each request with its correlation id, and notes it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.heard: list[int] = []

    def run(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as requests:
            while request := requests.read(12):
                self.heard.append(int.from_bytes(request[8:]))
                client.sendall((4).to_bytes(4) + request[8:])


@pytest.fixture
def echoes() -> Iterator[list[Echo]]:
    started = [Echo(), Echo()]
    for one in started:
        one.start()
    yield started
    for one in started:
        one.server.shutdown(socket.SHUT_RDWR)
        one.server.close()
        one.join(DEADLINE_S)


@pytest.fixture
def fronts(echoes: list[Echo]) -> Iterator[Fronts]:
    with closing(Fronts(2)) as made:
        for proxy, echo in zip(made.proxies, echoes, strict=True):
            proxy.target = echo.server.getsockname()[:2]
        yield made


@contextmanager
def connected(fronts: Fronts, at: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", fronts.proxies[at].port), timeout=DEADLINE_S) as client:
        yield client


def answered(client: socket.socket, correlation: int) -> bool:
    client.sendall(frame(correlation))
    return client.recv(8, socket.MSG_WAITALL) == (4).to_bytes(4) + correlation.to_bytes(4)


def test_one_broker_is_silent_and_hears_nothing_until_it_is_mended(fronts: Fronts, echoes: list[Echo]) -> None:
    with connected(fronts, 0) as healthy, connected(fronts, 1) as old:
        assert answered(old, 1)
        fronts.silence(1)
        with connected(fronts, 1) as new:
            old.sendall(frame(2))
            new.sendall(frame(3))
            held = asyncio.run_coroutine_threadsafe(fronts.proxies[1].wait_held_requests(2), fronts.loop)
            held.result(DEADLINE_S)
            assert answered(healthy, 4)
            assert echoes[1].heard == [1]
            fronts.mend()
            for client, correlation in ((old, 2), (new, 3)):
                assert client.recv(8, socket.MSG_WAITALL)[4:] == correlation.to_bytes(4)
        with connected(fronts, 1) as later:
            assert answered(later, 5)
    assert sorted(echoes[1].heard) == [1, 2, 3, 5]


def test_closing_twice_hides_no_other_error() -> None:
    fronts = Fronts(1)
    fronts.close()
    fronts.close()
    assert fronts.loop.is_closed()
