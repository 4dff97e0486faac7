"""A proxy in front of a cluster that makes its brokers less able: they offer fewer requests, or refuse some.

    client --requests--> [not offered: close] [refused: answer] --> broker
    client <-- [ApiVersions without them] [Metadata with the proxy's ports] <-- broker

Brokers that are not Apache's differ in this way: their list of API versions is shorter, or they answer that they do not
support what was asked. A request that is not offered closes its connection, as in Kafka (RequestContext.parseRequest),
and is remembered in `unasked`: raymirror should never send one. Whole frames are held in memory; plaintext only.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiokafka.protocol.admin import ApiVersionResponse_v0, ApiVersionResponse_v1
from aiokafka.protocol.metadata import MetadataRequest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST
from engine.kafka.protocol.requests import METADATA_7, METADATA_10, METADATA_12

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, LIST_GROUPS = 0, 1, 2, 3, 10, 16
CREATE_TOPICS, INIT_PRODUCER_ID, LEADER_EPOCHS, ADD_PARTITIONS, END_TXN = 19, 22, 23, 24, 26
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS = 61, 65
_API_VERSIONS, _FIRST_FLEXIBLE_METADATA = 18, 9
_HEAD = struct.Struct(">hhi")
_METADATA: dict[int, Any] = {
    one.API_VERSION: one.RESPONSE_TYPE for one in (*MetadataRequest._CLASSES, METADATA_7, METADATA_10, METADATA_12)
}
"""The answers to Metadata that can be changed, by version."""
_Asked = asyncio.Queue[tuple[int, int, bytes | None] | None]
"""Requests whose answers are due, in order: key, version, the proxy's own answer; None: close the connection."""
Answer = Callable[[bytes], bytes | None]
"""Makes the body of an answer from the body of a request, or None: the broker answers."""


class Rules(NamedTuple):
    """What brokers cannot do: API keys that they do not offer, the highest version of others, answers of the proxy."""

    without: frozenset[int] = frozenset()
    most: Mapping[int, int] = {}
    answers: Mapping[int, Answer] = {}

    def offers(self, key: int, version: int) -> bool:
        """Whether a request is offered."""
        return key not in self.without and version <= self.most.get(key, version)

    def offered(self, rows: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Return what is left of a broker's list: key, lowest and highest version."""
        kept = [(key, low, min(high, self.most.get(key, high))) for key, low, high in rows if key not in self.without]
        return [row for row in kept if row[1] <= row[2]]


def without(*keys: int) -> Rules:
    """Return the rules of brokers that do not offer some requests."""
    return Rules(frozenset(keys))


def no_transactional_id(body: bytes) -> bytes | None:
    """Answer an InitProducerId (v0) that names a transactional id with UNSUPPORTED_VERSION; let the others pass."""
    if body[:2] == b"\xff\xff":
        return None
    return struct.pack(">ihqh", 0, 35, -1, -1)


def unsupported_end(_body: bytes) -> bytes:
    """Answer an EndTxn (v0) with UNSUPPORTED_VERSION."""
    return struct.pack(">ih", 0, 35)


class RefusingProxy:
    """Stands in front of all brokers of a cluster, one port for each; an async context manager."""

    def __init__(self, cluster: EmbeddedCluster, rules: Rules) -> None:
        self.rules = rules
        self.unasked: list[tuple[int, int]] = []
        """Key and version of each request that came although it is not offered."""
        self._brokers = [broker.port for broker in cluster.brokers]
        self._ports: dict[int, int] = {}
        """The proxy's port by the broker's port."""
        self._servers: list[asyncio.Server] = []
        self._links: set[asyncio.Task[None]] = set()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients, as EmbeddedCluster has them."""
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    async def __aenter__(self) -> Self:
        for broker in self._brokers:
            server = await asyncio.start_server(partial(self._serve, broker), HOST, 0)
            self._servers.append(server)
            self._ports[broker] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            await self._link(broker, reader, writer)
        except* (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side is gone, or the test is over: the other side sees a closed connection
        finally:
            self._links.discard(link)
            writer.transport.abort()

    async def _link(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(HOST, broker)
        asked: _Asked = asyncio.Queue()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, broker_writer, asked))
                group.create_task(self._answers(broker_reader, writer, asked))
        finally:
            broker_writer.transport.abort()

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        broker: asyncio.StreamWriter,
        asked: _Asked,
    ) -> None:
        """Pass requests on, in order; the end of one that is not offered is the end of the connection."""
        while True:
            frame = await _frame(reader)
            key, version, correlation_id = _HEAD.unpack_from(frame)
            if not self.rules.offers(key, version):
                self.unasked.append((key, version))
                await asked.put(None)
                return
            answer = self._own_answer(key, frame)
            if answer is None:
                await asked.put((key, version, None))
                broker.write(struct.pack(">i", len(frame)) + frame)
                await broker.drain()
            else:
                await asked.put((key, version, struct.pack(">i", correlation_id) + answer))

    def _own_answer(self, key: int, frame: bytes) -> bytes | None:
        """Return the proxy's answer to a request of a classic version, if it has one."""
        make = self.rules.answers.get(key)
        if make is None:
            return None
        (client_id,) = struct.unpack_from(">h", frame, _HEAD.size)
        return make(frame[_HEAD.size + 2 + max(0, client_id) :])

    async def _answers(
        self,
        broker: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: _Asked,
    ) -> None:
        """Pass answers back, in the order of the requests."""
        while (request := await asked.get()) is not None:
            key, version, answer = request
            frame = answer if answer is not None else self._changed(key, version, await _frame(broker))
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()
        with suppress(OSError):
            writer.close()
        raise ConnectionResetError("a request was not offered")

    def _changed(self, key: int, version: int, frame: bytes) -> bytes:
        """Change an answer of a broker, whose first four bytes are its correlation id."""
        if key == _API_VERSIONS:
            kind: Any = ApiVersionResponse_v0 if version == 0 else ApiVersionResponse_v1
            assert version <= 2, "aiokafka asks for a classic version"
            code, rows, *rest = kind.SCHEMA.decode(BytesIO(frame[4:]))
            return frame[:4] + bytes(kind.SCHEMA.encode((code, self.rules.offered(rows), *rest)))
        return self._moved(version, frame) if key == METADATA else frame

    def _moved(self, version: int, frame: bytes) -> bytes:
        """Put the proxy's ports into an answer to Metadata."""
        head = 5 if version >= _FIRST_FLEXIBLE_METADATA else 4
        schema = _METADATA[version].SCHEMA
        values = list(schema.decode(BytesIO(frame[head:])))
        at = schema.names.index("brokers")
        values[at] = [(node, host, self._ports[port], *rest) for node, host, port, *rest in values[at]]
        return frame[:head] + bytes(schema.encode(values))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)
