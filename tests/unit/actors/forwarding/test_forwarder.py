"""A forwarder in front of a server, over real sockets: what passes, what is answered without a leader, what is bounded.

The leader listens at 127.0.0.1, the forwarder at 127.0.0.2, at the same port: as two nodes do.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.forwarding import forwarder
from actors.forwarding.forwarder import Forwarder
from actors.http import connections
from bench.tls import make_certificates
from engine.config.settings import NODE_ADDRESS, HttpConfig, HttpUser
from policies.roles import Role
from tests.harness.eventually import until, until_equal
from tests.unit.actors.http.http_servers import DEADLINE_S, ServedMirror, free_port, served
from tests.unit.actors.rest.rest_views import NAMES

pytestmark = pytest.mark.local

LEADER, NODE = "127.0.0.1", "127.0.0.2"
GET = b"GET /connectors HTTP/1.1\r\nHost: 127.0.0.2\r\n"
END = b"Connection: close\r\n\r\n"
Told = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is logged: severities and sentences."""
    said: Told = []
    monkeypatch.setattr(forwarder, "log_sentence", lambda severity, text: said.append((severity, text)))
    return said


class Node:
    """A forwarder that runs, and clients of it."""

    def __init__(self, config: HttpConfig) -> None:
        self.config = msgspec.structs.replace(config, bind=NODE_ADDRESS, port=config.port or free_port())
        self.forwarder = Forwarder(self.config, NODE, again_s=0.02)

    def config_at(self, address: str) -> HttpConfig:
        """The configuration of a leader of this node."""
        return msgspec.structs.replace(self.config, bind=address)

    def lead(self, host: str = LEADER, port: int = 0) -> None:
        self.forwarder.follow(host, port or self.config.port)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, as soon as it listens."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    return await asyncio.open_connection(NODE, self.config.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)

    async def send(self, data: bytes) -> bytes:
        """Send bytes over a connection of its own, and return all that comes until it is closed."""
        reader, writer = await self.connect()
        writer.write(data)
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def status(self) -> int:
        """The status of a request for the connectors; 0 if none is answered."""
        answer = await self.send(GET + END)
        return int(answer.split(b" ", 2)[1]) if answer else 0


@asynccontextmanager
async def node(config: HttpConfig | None = None) -> AsyncIterator[Node]:
    """Run a forwarder until the end of the block."""
    one = Node(config or HttpConfig())
    task = asyncio.create_task(one.forwarder.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def both(config: HttpConfig | None = None) -> AsyncIterator[tuple[ServedMirror, Node]]:
    """Run a leader and a forwarder that follows it."""
    async with served(config) as mirror, node(mirror.config) as one:
        (await mirror.connect())[1].close()  # so that it listens
        one.lead()
        yield mirror, one


def body_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_without_a_leader_a_request_is_answered_as_connect_does_in_a_rebalance() -> None:
    async with node() as one:
        answer = await one.send(GET + b"\r\n")
        head = answer.partition(b"\r\n\r\n")[0]
        assert answer.startswith(b"HTTP/1.1 409 ")
        assert body_of(answer)["error_code"] == 409
        assert body_of(answer)["message"].startswith("Cannot complete request momentarily")
        assert b"\r\nConnection: close" in head, "the next request may find a leader"
        assert b"\r\nContent-Type: application/json" in head


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
async def test_without_a_leader_a_body_is_not_read(method: str) -> None:
    async with node() as one:
        request = f"{method} /connectors HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{{"
        assert (await one.send(request.encode())).startswith(b"HTTP/1.1 409 ")


async def test_without_a_leader_a_client_that_is_silent_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "HEAD_S", 0.2)
    async with node() as one:
        assert await one.send(GET) == b""


async def test_requests_and_answers_pass_as_they_are() -> None:
    async with both() as (mirror, one):
        direct = await mirror.send(GET + END)
        assert direct.startswith(b"HTTP/1.1 200 ")
        assert _undated(await one.send(GET + END)) == _undated(direct)
        reader, writer = await one.connect()
        writer.write((GET + b"\r\n") * 3 + GET.replace(b"/connectors", b"/x") + END)
        async with asyncio.timeout(DEADLINE_S):
            answers = (await reader.read()).split(b"HTTP/1.1 ")[1:]
        writer.close()
    assert [answer[:3] for answer in answers] == [b"200", b"200", b"200", b"404"]


def _undated(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date:")]


async def test_the_leader_is_asked_who_may_and_no_header_of_a_proxy_is_believed(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    config = HttpConfig(users=(HttpUser(name="bob", role=Role.ADMIN, token="t0ken"),))
    said: Told = []
    monkeypatch.setattr("actors.http.server.log_sentence", lambda severity, text: said.append((severity, text)))
    async with both(config) as (_, one):
        forged = b"X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Host: localhost\r\nForwarded: for=10.1.2.3\r\n"
        assert (await one.send(GET + forged + END)).startswith(b"HTTP/1.1 401 ")
        assert (await one.send(GET + b"Authorization: Bearer t0ken\r\n" + END)).startswith(b"HTTP/1.1 200 ")
    assert "10.1.2.3" not in str(said)
    assert "t0ken" not in str(said + told)


async def test_tls_is_between_the_client_and_the_leader(tmp_path: Path) -> None:
    authority, chain = make_certificates(tmp_path)
    config = HttpConfig(certificate=str(chain), key=str(chain), client_ca=str(authority))
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    async with both(config) as (_, one), aiohttp.ClientSession() as session:
        url = f"https://{NODE}:{one.config.port}/connectors"
        with pytest.raises(aiohttp.ClientError):
            await session.get(url, ssl=context)
        context.load_cert_chain(str(chain))
        async with session.get(url, ssl=context) as answer:
            assert (answer.status, await answer.json()) == (200, list(NAMES))
    async with node(config) as one, aiohttp.ClientSession() as session:
        (await one.connect())[1].close()
        async with session.get(f"https://{NODE}:{one.config.port}/connectors", ssl=context) as answer:
            assert answer.status == 409


async def test_a_node_without_the_certificate_forwards_all_the_same(tmp_path: Path, told: Told) -> None:
    authority, chain = make_certificates(tmp_path)
    config = HttpConfig(certificate=str(chain), key=str(chain))
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    async with served(config) as mirror:
        (await mirror.connect())[1].close()
        absent = msgspec.structs.replace(mirror.config, certificate="/nowhere.pem", key="/nowhere.pem")
        async with node(absent) as one, aiohttp.ClientSession() as session:
            one.lead()
            (await one.connect())[1].close()
            async with session.get(f"https://{NODE}:{one.config.port}/connectors", ssl=context) as answer:
                assert answer.status == 200
            one.lead(port=free_port())
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"https://{NODE}:{one.config.port}/connectors", ssl=context)
    assert "connections are closed instead of answered" in told[0][1]


class Streaming:
    """A leader that sends a piece of a body whenever it is told to, as an event stream does."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened.set_result(writer)
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.closed.set()
        writer.close()


@asynccontextmanager
async def streaming() -> AsyncIterator[tuple[Streaming, Node]]:
    leader = Streaming()
    server = await asyncio.start_server(leader.answer, LEADER, 0)
    async with server, node() as one:
        one.lead(port=server.sockets[0].getsockname()[1])
        yield leader, one


async def test_a_stream_arrives_piece_by_piece_and_ends_at_both_sides_when_its_reader_goes() -> None:
    async with streaming() as (leader, one), asyncio.timeout(DEADLINE_S):
        reader, writer = await one.connect()
        writer.write(GET + b"\r\n")
        events = await leader.opened
        for number in range(3):
            events.write(b"data: %d\n\n" % number)
            assert await reader.readuntil(b"\n\n") == b"data: %d\n\n" % number
        writer.transport.abort()
        await leader.closed.wait()


async def test_a_reader_that_does_not_read_holds_its_leader_up_and_not_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder, "IDLE_S", 0.3)
    async with streaming() as (leader, one), asyncio.timeout(DEADLINE_S):
        _, writer = await one.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport can
        writer.write(GET + b"\r\n")
        events = await leader.opened
        with pytest.raises(ConnectionError):  # noqa: PT012 - which of them meets the closed connection is not certain
            while True:
                events.write(b"x" * 1024 * 1024)
                await events.drain()
        writer.transport.abort()


async def test_a_connection_on_which_nothing_moves_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "IDLE_S", 0.2)
    async with streaming() as (leader, one), asyncio.timeout(DEADLINE_S):
        assert await one.send(GET) == b""
        await leader.closed.wait()


async def test_a_leader_that_moves_is_followed_and_streams_of_the_former_are_cut() -> None:
    async with streaming() as (_, one), served() as mirror, asyncio.timeout(DEADLINE_S):
        (await mirror.connect())[1].close()
        reader, writer = await one.connect()
        writer.write(GET + b"\r\n")
        await until(lambda: bool(one.forwarder._links), "the stream is joined")
        one.lead(port=mirror.port)
        assert await reader.read() == b""
        writer.close()
        assert await one.status() == 200


async def test_a_leader_that_ends_is_409_and_the_next_one_is_found_without_a_word() -> None:
    async with node() as one:
        one.lead()
        assert await one.status() == 409, "nothing listens there"
        async with served(one.config_at(LEADER)) as mirror:
            (await mirror.connect())[1].close()
            assert await one.status() == 200
        await until_equal(one.status, 409)


async def test_a_leader_that_was_not_named_for_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with both() as (_, one):
        assert await one.status() == 200
        monkeypatch.setattr(forwarder, "LED_S", -1.0)
        assert await one.status() == 409


async def test_a_forwarder_never_forwards_to_itself() -> None:
    async with node() as one:
        one.lead(host=NODE)
        assert await one.status() == 409


async def test_an_answer_to_a_body_that_is_too_large_arrives() -> None:
    """The leader answers and closes while the client still sends."""
    async with both() as (_, one):
        reader, writer = await one.connect()
        writer.write(b"POST /connectors HTTP/1.1\r\nHost: 127.0.0.2\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 1000000000\r\n\r\n" + b" " * 4_000_000)
        async with asyncio.timeout(DEADLINE_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.transport.abort()


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    async with streaming() as (leader, one), asyncio.timeout(DEADLINE_S):
        opened = [await one.connect() for _ in range(3)]
        await leader.opened
        await until(lambda: len(one.forwarder._links) == 3, "three are joined")
        assert await one.send(GET + END) == b""
        for _, writer in opened:
            writer.transport.abort()
        await until(lambda: not one.forwarder._links, "their places are free")
        reader, writer = await one.connect()
        await until(lambda: len(one.forwarder._links) == 1, "another is joined")
        del reader
        writer.transport.abort()


async def test_a_port_that_is_taken_is_reported_once_and_tried_again(told: Told) -> None:
    async with node() as first:
        (await first.connect())[1].close()
        async with node(first.config) as second:
            await until(lambda: bool(second.forwarder.trouble), "it says why")
            await asyncio.sleep(0.1)
            assert f"{NODE}:{second.config.port} cannot be opened (Address already in use)" in second.forwarder.trouble
            assert len(told) == 1
