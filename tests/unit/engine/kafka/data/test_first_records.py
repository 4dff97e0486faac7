"""Leaders name the times of first records; a partition without an answer hides no other."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from aiokafka.protocol.api import Request

from engine.base.errors import BrokerUnreachable
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data.first_records import FirstRecords, FirstTimes
from engine.kafka.protocol.requests import LIST_OFFSETS_4, ListOffsetsWithEpochs
from policies.model import TopicPartition

HERE, ELSEWHERE, LEADERLESS = (TopicPartition("t", number) for number in (3, 4, 5))
UNKNOWN_LEADER_EPOCH = 75


class Client(ClusterClient):
    """Broker 1 answers about HERE with one code and time; broker 2, which leads ELSEWHERE, is dead."""

    def __init__(self, code: int = 0, at_ms: int = -1) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self.code, self.at_ms = code, at_ms
        self.nodes_asked: list[int] = []
        self.requests: list[ListOffsetsWithEpochs] = []
        led = {3: PartitionMeta(1, 6, (1,)), 4: PartitionMeta(2, 6, (2,)), 5: PartitionMeta(-1, 6, (1,))}
        topics = {"t": TopicMeta(0, UUID(int=7), False, led)}
        self.records = FirstRecords(self, Metadata(cluster_id="i", controller=1, brokers={}, topics=topics))

    async def control(self, node: int, *, within_s: float = 0.0) -> Connection:
        self.nodes_asked.append(node)
        if node == 2:
            raise BrokerUnreachable("b:2", "dead")
        return cast("Connection", self)

    def supports(self, _api_key: int, _version: int) -> bool:
        return True

    async def call(self, request: Request[Any]) -> Any:
        assert isinstance(request, ListOffsetsWithEpochs)
        self.requests.append(request)
        return SimpleNamespace(topics=[("t", [(3, self.code, self.at_ms, 12, 6)])])


async def test_a_leader_names_the_time_of_the_first_record() -> None:
    client = Client(at_ms=1_700_000_000_000)
    assert await client.records.times([HERE]) == FirstTimes(at_ms={HERE: 1_700_000_000_000})
    (request,) = client.requests
    assert request.build(LIST_OFFSETS_4).topics == [("t", [(3, 6, 0)])], "from 1970 on"


async def test_an_empty_partition_has_no_first_record() -> None:
    assert await Client().records.times([HERE]) == FirstTimes()


async def test_partitions_without_an_answer_hide_no_other() -> None:
    client = Client(at_ms=5)
    for _ in range(2):
        found = await client.records.times([ELSEWHERE, HERE, LEADERLESS])
        assert found == FirstTimes(at_ms={HERE: 5}, unknown={ELSEWHERE, LEADERLESS})
    assert sorted(client.nodes_asked) == [1, 1, 2], "hundreds of requests do not each wait for a dead broker"


@pytest.mark.parametrize("code", [3, 6, 7, UNKNOWN_LEADER_EPOCH])
async def test_a_leader_that_moved_is_asked_again_later(code: int) -> None:
    assert await Client(code=code).records.times([HERE]) == FirstTimes(unknown={HERE})


async def test_a_missing_right_is_of_its_partition() -> None:
    found = await Client(code=29).records.times([HERE])
    assert "grant Describe on topic t" in found.refused[HERE]
    assert not found.unknown


async def test_records_without_a_time_have_no_age() -> None:
    """UNSUPPORTED_FOR_MESSAGE_FORMAT: a topic whose message.format.version is older than 0.10 (UnifiedLog)."""
    assert await Client(code=43).records.times([HERE]) == FirstTimes()
