"""A source broker over a connection that a test answers: sessions on the wire, and invalid answers."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest
from aiokafka.protocol.fetch import FetchResponse_v11

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import FetchOptions, PartitionFetch
from engine.kafka.client.connection import Connection
from engine.kafka.data.source import KafkaSourceBroker
from engine.kafka.protocol.codec import FETCH_KEY
from engine.kafka.protocol.schema import Uuid
from policies.model import TopicPartition
from tests.unit.engine.kafka.schemas import TEXT, fetch_request, fetch_response

TERMS = FetchOptions(rack="r")
ID = UUID(int=5)


class Fresh:
    """New memory for every answer."""

    def room(self, size: int) -> memoryview:
        """Return new memory."""
        return memoryview(bytearray(size))


class Wire:
    """A connection: keeps what is sent, answers what a test has put there."""

    address = "here:9092"
    answer_s = 30.0

    def __init__(self, *versions: int) -> None:
        self.versions = versions
        self.sent: list[tuple[int, bytes]] = []
        self.answers: list[bytes] = []

    def supports(self, api_key: int, version: int) -> bool:
        return api_key == FETCH_KEY and version in self.versions

    async def request(
        self, _key: int, version: int, flexible: bool, parts: Sequence[bytes], _timeout_s: float, _room: Fresh
    ) -> memoryview:
        assert flexible is (version >= 12)
        self.sent.append((version, b"".join(parts)))
        return memoryview(bytearray(self.answers.pop(0)))


def broker(wire: Wire, **ids: UUID) -> KafkaSourceBroker:
    return KafkaSourceBroker(cast("Connection", wire), ids)


def want(partition: int, offset: int = 0) -> PartitionFetch:
    return PartitionFetch(TopicPartition("t", partition), offset, 3, 2, 1000)


def request(version: int, session: tuple[int, int], named: list[tuple[int, int]], forgotten: list[int]) -> bytes:
    name: Any = ID if version == 13 else "t"
    topics: list[Any] = [(name, [(partition, 3, offset, 2, -1, 1000, {}) for partition, offset in named], {})]
    gone: list[Any] = [(name, forgotten, {})]
    rows = (topics if named else [], gone if forgotten else [])
    schema = fetch_request(Uuid if version == 13 else TEXT)
    return bytes(schema.encode((-1, 500, 1, 4 << 20, 1, *session, *rows, "r", {})))


def answer(version: int, session_id: int, *partitions: int, code: int = 0, name: Any = None) -> bytes:
    found: list[Any] = [(partition, 0, 9, 9, 0, None, -1, b"", {}) for partition in partitions]
    topics: list[Any] = [(name or (ID if version == 13 else "t"), found, {})] if found else []
    return bytes(fetch_response(Uuid if version == 13 else TEXT).encode(({}, 0, code, session_id, topics, {})))


@pytest.mark.parametrize("version", [12, 13])
async def test_a_session_on_the_wire(version: int) -> None:
    wire = Wire(11, 12, version)
    source = broker(wire, t=ID)
    rounds = [
        ([want(0), want(1)], answer(version, 77, 0, 1), request(version, (0, 0), [(0, 0), (1, 0)], []), [0, 1]),
        ([want(1), want(0)], answer(version, 77), request(version, (77, 1), [], []), []),
        ([want(1, 5), want(2)], answer(version, 77, 2), request(version, (77, 2), [(1, 5), (2, 0)], [0]), [2]),
        ([want(1, 5), want(2)], answer(version, 0, code=71), request(version, (77, 3), [], []), []),
        ([want(1, 5), want(2)], answer(version, 0, 1, 2), request(version, (77, 0), [(1, 5), (2, 0)], []), [1, 2]),
        ([want(1, 5), want(2)], answer(version, 78, 1, 2), request(version, (0, 0), [(1, 5), (2, 0)], []), [1, 2]),
        ([want(1, 6), want(2)], answer(version, 78, 1), request(version, (78, 1), [(1, 6)], []), [1]),
    ]
    for wanted, answered, expected, told in rounds:
        wire.answers.append(answered)
        found = await source.fetch(wanted, TERMS, Fresh())
        assert [one.partition.partition for one in found.slices] == told
        assert wire.sent.pop() == (version, expected)


async def test_a_session_by_names_of_a_broker_from_before_flexible_versions() -> None:
    wire = Wire(11)
    source = broker(wire, t=ID)
    row = (0, 0, 9, 9, 0, None, -1, b"")
    wire.answers = [FetchResponse_v11(0, 0, 5, [("t", [row])]).encode(), FetchResponse_v11(0, 0, 5, []).encode()]
    assert len((await source.fetch([want(0), want(1)], TERMS, Fresh())).slices) == 1
    assert (await source.fetch([want(0)], TERMS, Fresh())).slices == []
    (_, whole), (_, changes) = wire.sent
    assert (whole[17:25], changes[17:25]) == (bytes(8), bytes([0, 0, 0, 5, 0, 0, 0, 1]))
    assert changes[25:] == bytes(4) + bytes([0, 0, 0, 1, 0, 1]) + b"t" + bytes([0, 0, 0, 1, 0, 0, 0, 1, 0, 1]) + b"r"


@pytest.mark.parametrize("version", [12, 13])
async def test_what_was_not_asked_for_ends_the_connection(version: int) -> None:
    stranger = UUID(int=6) if version == 13 else "other"
    for answered in (answer(version, 7, 1), answer(version, 7, 0, name=stranger)):
        wire = Wire(version)
        wire.answers = [answered]
        with pytest.raises(ConnectionLost, match="which was not asked for"):
            await broker(wire, t=ID).fetch([want(0)], TERMS, Fresh())


@pytest.mark.parametrize(("code", "name"), [(71, "InvalidFetchSessionEpoch"), (29, "TopicAuthorizationFailed")])
async def test_a_whole_fetch_that_is_refused_ends_the_connection(code: int, name: str) -> None:
    wire = Wire(12)
    wire.answers = [answer(12, 0, code=code)]
    with pytest.raises(ConnectionLost, match=f"here:9092: fetch refused: {name}"):
        await broker(wire).fetch([want(0)], TERMS, Fresh())


async def test_a_broker_without_a_fetch_version_of_ours() -> None:
    with pytest.raises(ConnectionLost, match="speaks none of Fetch"):
        await broker(Wire(4)).fetch([want(0)], TERMS, Fresh())
