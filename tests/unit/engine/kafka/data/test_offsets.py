"""Requests for offsets name the known leader and epoch, so that an old leader refuses."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from aiokafka.protocol.api import Request
from aiokafka.protocol.offset import OffsetRequest

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data.offsets import FirstTimes, first_times, list_offsets
from engine.kafka.protocol.requests import LIST_OFFSETS_4, ListOffsetsWithEpochs
from policies.model import TopicPartition

WHERE = TopicPartition("t", 3)
UNKNOWN_LEADER_EPOCH = 75


class Broker:
    """A connection to a broker that answers one question about WHERE."""

    def __init__(self, newest: int, code: int) -> None:
        self.asked: list[Request[Any]] = []
        self._newest, self._code = newest, code
        self.at_ms = -1

    def supports(self, api_key: int, version: int) -> bool:
        return api_key == 2 and version <= self._newest

    async def call(self, request: Request[Any]) -> Any:
        self.asked.append(request)
        row = (WHERE.partition, self._code, self.at_ms, 12)
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


ELSEWHERE, LEADERLESS = TopicPartition("t", 4), TopicPartition("t", 5)


async def times(broker: Broker, *partitions: TopicPartition) -> FirstTimes:
    """Ask for first records while broker 2 is dead."""

    class Some(Client):
        async def control(self, node: int, *, within_s: float = 0.0) -> Connection:
            if node == 2:
                raise BrokerUnreachable("b:2", "dead")
            return await super().control(node)

    led = {3: PartitionMeta(1, 6, (1,)), 4: PartitionMeta(2, 6, (2,)), 5: PartitionMeta(-1, 6, (1,))}
    metadata = Metadata(cluster_id="i", controller=1, brokers={}, topics={"t": TopicMeta(0, UUID(int=7), False, led)})
    return await first_times(Some(broker), partitions, metadata)


async def test_a_leader_names_the_time_of_the_first_record() -> None:
    broker = Broker(newest=4, code=0)
    broker.at_ms = 1_700_000_000_000
    assert await times(broker, WHERE) == FirstTimes(at_ms={WHERE: 1_700_000_000_000})
    (request,) = broker.asked
    assert isinstance(request, ListOffsetsWithEpochs)
    assert request.build(LIST_OFFSETS_4).topics == [("t", [(3, 6, 0)])], "from 1970 on"


async def test_an_empty_partition_has_no_first_record() -> None:
    assert await times(Broker(newest=4, code=0), WHERE) == FirstTimes()


async def test_partitions_without_an_answer_hide_no_other() -> None:
    broker = Broker(newest=4, code=0)
    broker.at_ms = 5
    found = await times(broker, ELSEWHERE, WHERE, LEADERLESS)
    assert found == FirstTimes(at_ms={WHERE: 5}, unknown={ELSEWHERE, LEADERLESS})


@pytest.mark.parametrize("code", [3, 6, 7, UNKNOWN_LEADER_EPOCH])
async def test_a_leader_that_moved_is_asked_again_later(code: int) -> None:
    assert await times(Broker(newest=4, code=code), WHERE) == FirstTimes(unknown={WHERE})


async def test_a_missing_right_is_of_its_partition() -> None:
    found = await times(Broker(newest=4, code=29), WHERE)
    assert "grant Describe on topic t" in found.refused[WHERE]
    assert not found.unknown


async def test_records_without_a_time_have_no_age() -> None:
    """UNSUPPORTED_FOR_MESSAGE_FORMAT: a topic whose message.format.version is older than 0.10 (UnifiedLog)."""
    assert await times(Broker(newest=4, code=43), WHERE) == FirstTimes()
