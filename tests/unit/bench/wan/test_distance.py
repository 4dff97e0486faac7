"""The proxy of `bench wan`: it delays, limits, keeps the order and holds no more than it may. Upper bounds only.

What must not come too early is compared with the clock; how fast it comes is not.
"""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.wan.distance import Distance, DistanceProxy, compile_proxy
from deploy.local.ports import HOST, pick_ports

pytestmark = pytest.mark.local

MIB = 1024 * 1024
TIMEOUT_S = 60.0
RTT_S = 0.1
EARLY_S = 0.001
"""Clocks of two processes are read at slightly different moments."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_proxy(tmp_path_factory.mktemp("proxy"))


@contextmanager
def ends(program: Path, distance: Distance) -> Iterator[tuple[socket.socket, socket.socket, DistanceProxy]]:
    """A client and a server with a proxy between them."""
    (port,) = pick_ports(1)
    with (
        socket.create_server((HOST, 0)) as listener,
        DistanceProxy(program, distance, {port: listener.getsockname()[1]}) as proxy,
        socket.create_connection((HOST, port), timeout=TIMEOUT_S) as client,
    ):
        listener.settimeout(TIMEOUT_S)
        server, _ = listener.accept()
        with server:
            server.settimeout(TIMEOUT_S)
            yield client, server, proxy


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread, and wait for its end."""
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def receive(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        got = peer.recv(size - len(data))
        assert got, f"the stream ended after {len(data)} of {size} bytes"
        data += got
    return bytes(data)


def receive_all(peer: socket.socket) -> bytes:
    data = bytearray()
    while got := peer.recv(MIB):
        data += got
    return bytes(data)


def test_each_direction_takes_half_a_round_trip_and_the_first_byte_a_handshake_more(program: Path) -> None:
    began_at = time.monotonic()
    with ends(program, Distance(rtt_ms=RTT_S * 1000)) as (client, server, _):
        client.sendall(b"q")
        assert receive(server, 1) == b"q"
        assert time.monotonic() - began_at >= 1.5 * RTT_S - EARLY_S
        for _ in range(3):
            began_at = time.monotonic()
            client.sendall(b"q")
            receive(server, 1)
            there_at = time.monotonic()
            assert there_at - began_at >= RTT_S / 2 - EARLY_S
            server.sendall(b"a")
            receive(client, 1)
            assert time.monotonic() - there_at >= RTT_S / 2 - EARLY_S


@pytest.mark.parametrize("is_request", [True, False])
def test_no_more_than_the_window_is_under_way(program: Path, is_request: bool) -> None:
    window, size = 100_000, 400_000
    windows = {"request_window_bytes": window} if is_request else {"answer_window_bytes": window}
    with ends(program, Distance(rtt_ms=RTT_S * 1000, **windows)) as (client, server, _):
        sender, receiver = (client, server) if is_request else (server, client)
        # The handshake is over when a byte has come back, so that time begins with the first byte.
        client.sendall(b"q")
        receive(server, 1)
        server.sendall(b"a")
        receive(client, 1)
        with beside(lambda: sender.sendall(bytes(size))):
            began_at, got = time.monotonic(), 0
            while got < size:
                got += len(receiver.recv(MIB))
                # One window is sent at once, and another for each round trip since.
                rounds = (time.monotonic() - began_at + RTT_S / 2) / RTT_S
                assert got <= window * (1 + rounds)


def test_late_chunks_keep_the_order(program: Path) -> None:
    sent = random.Random(16).randbytes(8 * MIB)
    late = Distance(rtt_ms=2.0, late_share=0.2, late_ms=20.0)
    with ends(program, late) as (client, server, proxy):
        with beside(lambda: client.sendall(sent)):
            assert receive(server, len(sent)) == sent
        carried = proxy.read()
    assert 0 < carried.late_chunks < carried.chunks
    assert carried.request_bytes == len(sent)


def test_no_more_than_the_cap_is_held_for_a_receiver_that_does_not_read(program: Path) -> None:
    cap, size = MIB, 64 * MIB
    with ends(program, Distance(rtt_ms=2.0, cap_bytes=cap)) as (client, server, proxy):
        with beside(lambda: client.sendall(bytes(size))):
            held = 0
            while held < cap:
                held = max(held, proxy.read().held_most_bytes)
            assert len(receive(server, size)) == size
        assert max(held, proxy.read().held_most_bytes) <= cap


def test_the_end_of_a_stream_passes_behind_its_bytes_and_the_other_direction_stays(program: Path) -> None:
    with ends(program, Distance(rtt_ms=20.0, request_window_bytes=50_000)) as (client, server, proxy):

        def send() -> None:
            client.sendall(bytes(200_000))
            client.shutdown(socket.SHUT_WR)

        with beside(send):
            assert len(receive_all(server)) == 200_000
        server.sendall(b"a" * 300_000)
        server.close()
        assert receive_all(client) == b"a" * 300_000
        client.close()
        while proxy.read().connections:
            pass


def test_a_reset_passes(program: Path) -> None:
    with ends(program, Distance(rtt_ms=2.0)) as (client, server, _):
        client.sendall(b"q")
        receive(server, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        server.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_broker_that_is_down_refuses(program: Path) -> None:
    port, nobody = pick_ports(2)
    with DistanceProxy(program, Distance(rtt_ms=2.0), {port: nobody}) as proxy:
        # The reset may come while the client still connects.
        with (
            pytest.raises(ConnectionResetError),
            socket.create_connection((HOST, port), timeout=TIMEOUT_S) as client,
        ):
            client.recv(1)
        assert proxy.read().connections == 0


def test_a_proxy_that_has_ended_is_an_error(program: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(BenchError, match="the proxy ended with 1"),
            DistanceProxy(program, Distance(rtt_ms=2.0), {port: port}),
        ):
            pass


def test_no_compiler_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BenchError, match="no C compiler on PATH"):
        compile_proxy(tmp_path)
