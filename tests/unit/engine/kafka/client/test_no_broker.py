"""Ports at which no broker serves clients: each kind has its own message, and so has a closed port."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.protocol.metadata import MetadataRequest

from engine.base.errors import BrokerRefuses, BrokerSilent, BrokerUnreachable, ClusterRefuses, KafkaRefusal, NoBroker
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection

pytestmark = pytest.mark.local

API_VERSIONS, METADATA, PRODUCE = 18, 3, 0
OPTIONS = HandshakeOptions(timeout_s=60.0)
HURRIED = HandshakeOptions(timeout_s=0.05)


@asynccontextmanager
async def listening(words: bytes, *, greets: bool = False, ends: bool = False) -> AsyncIterator[int]:
    """Listen on a port whose server answers one request with these words, or says them before it was asked."""
    served: list[asyncio.Task[None]] = []

    def began(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(serve(reader, writer)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not greets:
            await reader.read(4)
        writer.write(words)
        if ends:
            writer.close()
        await reader.read()  # until the client hangs up
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(began, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.wait_for(asyncio.gather(*served), 30)


def offering(*keys: int) -> bytes:
    """Encode the first answer of a broker that offers requests of these keys."""
    body = struct.pack(">ihi", 1, 0, len(keys)) + b"".join(struct.pack(">hhh", key, 0, 4) for key in keys)
    return struct.pack(">i", len(body)) + body


async def refused(port: int, options: HandshakeOptions = OPTIONS) -> BrokerUnreachable:
    with pytest.raises(BrokerUnreachable) as raised:
        async with asyncio.timeout(30):
            await Connection.open("127.0.0.1", port, options)
    return raised.value


async def test_a_controller_s_port_is_no_broker_s() -> None:
    async with listening(offering(API_VERSIONS, PRODUCE)) as port:
        error = await refused(port)
        assert type(error) is NoBroker
        assert str(error) == (
            f"127.0.0.1:{port} answers, but is no Kafka broker: it offers no Metadata request (a KRaft controller's"
            " port? clients need a broker's port)"
        )
        assert type(error.again()) is NoBroker


async def test_a_cluster_whose_address_is_a_controller_s_is_named_with_its_line() -> None:
    async with listening(offering(API_VERSIONS)) as port:
        client = ClusterClient("A", [("127.0.0.1", port)], OPTIONS, "mm2.properties:2: A.bootstrap.servers")
        with pytest.raises(ClusterRefuses) as raised:
            await client.open()
        await client.close()
    assert str(raised.value).startswith(
        "mm2.properties:2: A.bootstrap.servers: no broker of cluster 'A' accepts raymirror:"
        f" 127.0.0.1:{port} answers, but is no Kafka broker: it offers no Metadata request"
    )
    assert not raised.value.may_pass


@pytest.mark.parametrize(
    ("words", "greets", "says"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            False,
            "answers, but is no Kafka broker: it speaks HTTP; give",
        ),
        (b"SSH-2.0-Server_1\r\n", True, "answers, but is no Kafka broker: it says 'SSH-2.0-Server_1'"),
        (b"\xff\xfe\xfd\xfc\xfb", False, "answers, but is no Kafka broker: what it sends is not Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x50", False, "the port speaks TLS; set security.protocol = SSL or SASL_SSL"),
    ],
    ids=["HTTP", "a greeting", "bytes", "TLS"],
)
async def test_who_speaks_something_else_is_told_at_once(words: bytes, greets: bool, says: str) -> None:
    async with listening(words, greets=greets) as port:
        error = await refused(port)  # the server keeps the connection open, and the time-out is a minute
    assert isinstance(error, BrokerRefuses)
    assert says in str(error)


async def test_a_port_that_keeps_silent_was_connected_to() -> None:
    async with listening(b"") as port:
        error = await refused(port, HURRIED)
    assert type(error) is BrokerSilent
    assert error.may_pass
    assert str(error) == (
        f"127.0.0.1:{port} accepts the connection, but has not answered a Kafka request after 0.05 s; does a Kafka"
        " broker listen there, and does security.protocol = PLAINTEXT fit this port?"
    )


async def test_a_port_that_begins_an_answer_and_does_not_end_it() -> None:
    async with listening(offering(API_VERSIONS)[:8]) as port:
        error = await refused(port, HURRIED)
    assert str(error).endswith("accepts the connection, but does not end the handshake within 0.05 s")


async def test_a_port_that_hangs_up_was_connected_to() -> None:
    async with listening(b"", ends=True) as port:
        error = await refused(port)
    assert type(error) is BrokerSilent
    closed = "accepts the connection, and closes it without an answer"
    assert f"{closed}; does a Kafka broker listen there, and" in str(error)


async def test_a_port_where_nobody_listens_was_not() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = await refused(closed.getsockname()[1])
    assert "cannot connect: the connection is refused" in str(error)


@pytest.mark.parametrize(
    ("versions", "told"),
    [({}, "it does not offer it"), ({METADATA: (90, 91)}, "it offers versions 90 to 91 of it")],
)
async def test_a_request_that_a_broker_does_not_know_is_a_refusal(
    versions: dict[int, tuple[int, int]], told: str
) -> None:
    connection = Connection("h", 1, "me", versions)
    with pytest.raises(KafkaRefusal) as raised:
        await connection.call(MetadataRequest([], allow_auto_topic_creation=False))
    assert str(raised.value).startswith(f"h:1: MetadataRequest: UnsupportedVersion (35); {told}, ")
