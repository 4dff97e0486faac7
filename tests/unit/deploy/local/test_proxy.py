"""The proxy in front of an echo broker: every response carries the request's correlation id and its bytes."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from deploy.local.frames import FrameSplitter
from deploy.local.proxy import Proxy

pytestmark = pytest.mark.local

PRODUCE, FETCH = 0, 1
DEADLINE_S = 120


def encode_request(api: int, correlation: int, body: bytes = b"") -> bytes:
    frame = api.to_bytes(2) + bytes(2) + correlation.to_bytes(4) + body
    return len(frame).to_bytes(4) + frame


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            writer.write((len(frame) - 4).to_bytes(4) + frame[4:])
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    broker = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with broker, Proxy(broker.sockets[0].getsockname()[:2]) as started:
        yield started


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, proxy: Proxy) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    def send(self, api: int, correlation: int, body: bytes = b"") -> None:
        self.writer.write(encode_request(api, correlation, body))

    async def receive(self) -> tuple[int, bytes]:
        async with asyncio.timeout(DEADLINE_S):
            frame = await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4)))
        return int.from_bytes(frame[:4]), frame[4:]

    async def is_dead(self) -> bool:
        """True if the proxy ended the connection; closes this side of it too."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True
        finally:
            self.writer.close()


async def test_large_frames_pass_whole_and_in_order(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    bodies = [bytes([n]) * (n * 300_000) for n in range(1, 5)]
    for n, body in enumerate(bodies):
        client.send(PRODUCE, n, body)
    assert [await client.receive() for _ in bodies] == list(enumerate(bodies))
    client.writer.close()


async def test_hold_keeps_one_api_back_and_release_lets_it_go(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    proxy.hold(frozenset({PRODUCE}))
    client.send(FETCH, 1)
    assert await client.receive() == (1, b"")
    for n in (2, 3):
        client.send(PRODUCE, n, b"x")
    client.send(FETCH, 4)
    async with asyncio.timeout(DEADLINE_S):
        await proxy.wait_held(2)
    assert proxy.held_responses == 2
    proxy.release()
    assert [(await client.receive())[0] for _ in range(3)] == [2, 3, 4]
    client.writer.close()


async def test_requests_of_one_api_wait_with_what_is_behind_them(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    client.send(PRODUCE, 1)
    assert (await client.receive())[0] == 1
    proxy.hold_requests(frozenset({PRODUCE}))
    for n, api in enumerate((FETCH, PRODUCE, FETCH, PRODUCE), start=2):
        client.send(api, n, b"x" * 300_000)
    async with asyncio.timeout(DEADLINE_S):
        await proxy.wait_held_requests(2)
    assert (await client.receive())[0] == 2
    other = await Client.connect(proxy)
    other.send(PRODUCE, 9)
    assert (await other.receive())[0] == 9
    assert proxy.held_requests == 2
    proxy.release_requests()
    assert [(await client.receive())[0] for _ in range(3)] == [3, 4, 5]
    for one in (client, other):
        one.writer.close()


async def test_requests_of_new_connections_only(proxy: Proxy) -> None:
    before = await Client.connect(proxy)
    before.send(FETCH, 1)
    await before.receive()
    proxy.hold_on_new = frozenset({PRODUCE})
    held = await Client.connect(proxy)
    held.send(PRODUCE, 2)
    async with asyncio.timeout(DEADLINE_S):
        await proxy.wait_held_requests(1)
    before.send(PRODUCE, 3)
    assert (await before.receive())[0] == 3
    proxy.release_requests()
    assert (await held.receive())[0] == 2
    after = await Client.connect(proxy)
    after.send(PRODUCE, 4)
    assert (await after.receive())[0] == 4
    for one in (before, held, after):
        one.writer.close()


@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_held_requests_arrive_although_their_client_is_gone(proxy: Proxy, end: str) -> None:
    came: list[int] = []
    all_came = asyncio.Event()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if int.from_bytes(frame[:2]) == PRODUCE:
                    came.append(int.from_bytes(frame[4:8]))
                writer.write(len(frame).to_bytes(4) + frame)
                if len(came) == 5:
                    all_came.set()
        writer.close()

    broker = await asyncio.start_server(collect, "127.0.0.1", 0)
    async with broker:
        proxy.target = broker.sockets[0].getsockname()[:2]
        proxy.hold_on_new = frozenset({PRODUCE})
        client = await Client.connect(proxy)
        for n in range(5):
            client.send(PRODUCE, n, b"x" * 100_000)
        async with asyncio.timeout(DEADLINE_S):
            await proxy.wait_held_requests(5)
        if end == "reset":
            no_linger = struct.pack("ii", 1, 0)  # close then sends RST, as a killed process does that had not read all
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        client.writer.close()
        await client.writer.wait_closed()
        proxy.hold_on_new = frozenset()
        other = await Client.connect(proxy)  # while it is served, the proxy learns that the first one is gone
        other.send(FETCH, 0)
        await other.receive()
        other.writer.close()
        assert came == []
        proxy.release_requests()
        async with asyncio.timeout(DEADLINE_S):
            await all_came.wait()
    assert came == [0, 1, 2, 3, 4]


async def test_cut_drops_what_was_held_and_new_connections_are_served(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    proxy.hold()
    client.send(PRODUCE, 1)
    async with asyncio.timeout(DEADLINE_S):
        await proxy.wait_held(1)
    proxy.cut()
    assert await client.is_dead()
    proxy.release()
    again = await Client.connect(proxy)
    again.send(PRODUCE, 2)
    assert (await again.receive())[0] == 2
    again.writer.close()


async def test_a_refusing_proxy_and_a_dead_broker_close_the_connection(proxy: Proxy) -> None:
    proxy.refusing = True
    assert await (await Client.connect(proxy)).is_dead()
    proxy.refusing = False
    spare = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy.target = spare.sockets[0].getsockname()[:2]
    spare.close()
    await spare.wait_closed()
    assert await (await Client.connect(proxy)).is_dead()


@pytest.mark.parametrize("turns", range(8))
async def test_what_was_accepted_a_moment_ago_is_gone_with_the_proxy(turns: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        proxy = Proxy(broker.getsockname()[:2])
        before = asyncio.all_tasks()
        await proxy.start()
        with socket.create_connection(("127.0.0.1", proxy.port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            await proxy.close()
            for _ in range(10):
                assert asyncio.all_tasks() == before
                await asyncio.sleep(0)


async def test_delay_holds_each_way_for_its_time(proxy: Proxy) -> None:
    proxy.request_delay_s, proxy.response_delay_s = 0.1, 0.2
    client = await Client.connect(proxy)
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    client.send(PRODUCE, 1)
    await client.receive()
    assert loop.time() - began_at >= 0.3
    client.writer.close()


@pytest.mark.parametrize("chunk_bytes", [1, 3, 11, 12, 13, 1000])
def test_splitter_finds_every_header_whatever_the_chunks(chunk_bytes: int) -> None:
    stream = b"".join(encode_request(n % 3, n, bytes(n)) for n in range(40))
    splitter = FrameSplitter(header_bytes=8)
    chunks = [stream[at : at + chunk_bytes] for at in range(0, len(stream), chunk_bytes)]
    pieces = [piece for chunk in chunks for piece in splitter.split(chunk)]
    assert b"".join(piece.data for piece in pieces) == stream
    assert [int.from_bytes(p.header[4:8]) for p in pieces if p.header is not None] == list(range(40))
