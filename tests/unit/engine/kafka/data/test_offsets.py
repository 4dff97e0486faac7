"""Requests for offsets name the known leader and epoch, so that an old leader refuses."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from aiokafka.protocol.api import Request
from aiokafka.protocol.offset import OffsetRequest

from engine.base.errors import ConnectionLost
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data.offsets import list_offsets
from engine.kafka.protocol.requests import LIST_OFFSETS_4, ListOffsetsWithEpochs
from policies.model import TopicPartition

WHERE = TopicPartition("t", 3)
UNKNOWN_LEADER_EPOCH = 75


class Broker:
    """A connection to a broker that answers one question about WHERE."""

    def __init__(self, newest: int, code: int) -> None:
        self.asked: list[Request[Any]] = []
        self._newest, self._code = newest, code

    def supports(self, api_key: int, version: int) -> bool:
        return api_key == 2 and version <= self._newest

    async def call(self, request: Request[Any]) -> Any:
        self.asked.append(request)
        row = (WHERE.partition, self._code, -1, 12)
        rows = [(*row, 6)] if isinstance(request, ListOffsetsWithEpochs) else [row]
        return SimpleNamespace(topics=[(WHERE.topic, rows)])


class Client(ClusterClient):
    """A client that knows the leader of WHERE, at epoch 6."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self._broker = broker

    async def metadata(self, topics: list[str] | None) -> Metadata:
        led = {WHERE.partition: PartitionMeta(1, 6, (1,))}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics={"t": TopicMeta(0, UUID(int=7), False, led)})

    async def control(self, node: int, *, within_s: float = 0.0) -> Connection:
        return cast("Connection", self._broker)


async def test_the_leaders_epoch_is_named() -> None:
    broker = Broker(newest=4, code=0)
    assert await list_offsets(Client(broker), [WHERE], -1) == {WHERE: 12}
    (request,) = broker.asked
    assert isinstance(request, ListOffsetsWithEpochs)
    sent = request.build(LIST_OFFSETS_4)
    assert sent.topics == [("t", [(3, 6, -1)])]


async def test_brokers_that_know_no_epochs_are_asked_without() -> None:
    broker = Broker(newest=3, code=0)
    assert await list_offsets(Client(broker), [WHERE], -1) == {WHERE: 12}
    assert isinstance(broker.asked[0], OffsetRequest)


async def test_a_leader_of_the_past_gives_no_answer() -> None:
    with pytest.raises(ConnectionLost, match="UnknownLeaderEpoch"):
        await list_offsets(Client(Broker(newest=4, code=UNKNOWN_LEADER_EPOCH)), [WHERE], -1)


def test_the_bytes_are_those_of_the_protocol() -> None:
    sent = ListOffsetsWithEpochs([("t", [(3, 6, -1)])]).build(LIST_OFFSETS_4).encode()
    assert sent == b"\xff\xff\xff\xff\0" + b"\0\0\0\1\0\1t" + b"\0\0\0\1" + b"\0\0\0\3\0\0\0\6" + b"\xff" * 8
    answer = b"\0\0\0\0" + b"\0\0\0\1\0\1t" + b"\0\0\0\1" + b"\0\0\0\3\0\0" + b"\xff" * 8 + b"\0" * 7 + b"\x0c\0\0\0\6"
    assert LIST_OFFSETS_4.RESPONSE_TYPE.decode(answer).topics == [("t", [(3, 0, -1, 12, 6)])]
