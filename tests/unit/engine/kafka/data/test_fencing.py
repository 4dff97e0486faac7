"""The end of a barrier, sent to its own coordinator: brokers of one cluster may be of different releases."""

from typing import Any

import pytest

from engine.base.errors import KafkaRefusal
from engine.config.security import HandshakeOptions
from engine.flow.ports.ports import NO_TRANSACTIONS, Producer
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import BrokerAddress
from engine.kafka.data.fencing import barrier
from engine.kafka.gateway import KafkaCluster
from engine.kafka.protocol.faults import UNSUPPORTED_VERSION
from policies.model import TopicPartition

PRODUCER = Producer(7, 3, fenced=True)
PART = TopicPartition("t", 0)
OLD = {10: (0, 3), 24: (0, 2), 26: (0, 2)}
"""FindCoordinator, AddPartitionsToTxn, EndTxn: a broker before 3.0, which has no DescribeTransactions."""
NEW = OLD | {65: (0, 0)}


class Row:
    """An answer with any fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


class Answering(Connection):
    """A connection to a broker of some release; it answers as a coordinator whose markers are all written."""

    def __init__(self, node: int, versions: dict[int, tuple[int, int]], asked: list[tuple[int, str]]) -> None:
        super().__init__("h", node, "c", versions)
        self._asked = asked
        self.answers: list[list[tuple[str, list[tuple[int, int]]]]] = []
        """Of AddPartitionsToTxn, before those that all is well."""
        self.refused: dict[str, int] = {}
        """The error codes of requests that name a transactional id, by request."""

    async def call(self, request: Any, timeout_s: float | None = None) -> Any:
        self.prepare(request)  # raises where this broker does not know the request
        name = type(request).__name__
        self._asked.append((self.port, name))
        if name in self.refused and None not in vars(request).values():
            return Row(error_code=self.refused[name], coordinator_id=-1)
        if name == "FindCoordinatorRequest":
            return Row(error_code=0, coordinator_id=2)
        if name == "InitProducerIdRequest":
            return Row(error_code=0, producer_id=PRODUCER.producer_id, producer_epoch=PRODUCER.epoch)
        if name == "AddPartitionsToTxnRequest":
            return Row(errors=self.answers.pop(0) if self.answers else [("t", [(0, 0)])])
        if name == "DescribeTransactions":
            return Row(states=[(0, "id", "CompleteAbort", 0, 0, PRODUCER.producer_id, PRODUCER.epoch, [], {})])
        return Row(error_code=0)


class Mixed(ClusterClient):
    """A cluster in the middle of an upgrade: broker 1 is asked first, broker 2 is the coordinator."""

    def __init__(self, versions: dict[int, dict[int, tuple[int, int]]]) -> None:
        super().__init__("b", [("h", 1)], HandshakeOptions(client_id="c"))
        self._brokers = {node: BrokerAddress("h", node, "") for node in versions}
        self._versions = versions
        self.asked: list[tuple[int, str]] = []
        self.answers: list[list[tuple[str, list[tuple[int, int]]]]] = []
        self.refused: dict[str, int] = {}

    async def open_connection(self, node: int) -> Connection:
        connection = Answering(node, self._versions[node], self.asked)
        connection.answers, connection.refused = self.answers, self.refused
        return connection


@pytest.mark.parametrize(("first", "coordinator"), [(NEW, OLD), (OLD, NEW), (OLD, OLD), (NEW, NEW)])
async def test_a_barrier_ends_as_its_own_coordinator_can_tell(
    first: dict[int, tuple[int, int]], coordinator: dict[int, tuple[int, int]]
) -> None:
    client = Mixed({1: first, 2: coordinator})
    await barrier(client, "id", PRODUCER, [PART])
    names = [name for node, name in client.asked if node == 2]
    once = ["AddPartitionsToTxnRequest", "EndTxnRequest"]
    # An older coordinator answers the second AddPartitionsToTxn when the markers of the first end are written.
    assert names == [*once, *(["DescribeTransactions"] if coordinator is NEW else once)]


async def test_a_partition_that_was_not_tried_because_of_another_is_no_refusal() -> None:
    """A copy that is made anew: some brokers do not know it yet, and its positions are not tried because of that."""
    client = Mixed({1: NEW, 2: NEW})
    client.answers = [[("positions", [(4, 55)]), ("t", [(0, 3)])], [("positions", [(4, 55)]), ("t", [(0, 51)])]]
    await barrier(client, "id", PRODUCER, [TopicPartition("positions", 4), PART])
    assert client.answers == []


@pytest.mark.parametrize("rows", [[(0, 55), (1, 3), (2, 29)], [(0, 29), (1, 55), (2, 3)]])
async def test_of_several_causes_the_one_that_waiting_does_not_mend_is_told(rows: list[tuple[int, int]]) -> None:
    client = Mixed({1: NEW, 2: NEW})
    client.answers = [[("t", rows)]]
    with pytest.raises(KafkaRefusal, match="TopicAuthorizationFailed") as refused:
        await barrier(client, "id", PRODUCER, [PART])
    assert refused.value.code == 29


@pytest.mark.parametrize("lacking", [10, 22, 24, 26])
async def test_brokers_without_transactions_give_a_plain_producer_id(lacking: int) -> None:
    """FindCoordinator, InitProducerId, AddPartitionsToTxn, EndTxn: each of them makes a fence."""
    versions = {10: (0, 3), 22: (0, 0), 24: (0, 0), 26: (0, 0)}
    del versions[lacking]
    client = Mixed({1: versions, 2: versions})
    if lacking == 22:
        with pytest.raises(KafkaRefusal, match="does not offer it"):
            await KafkaCluster(client).acquire("id", [PART])
        return
    producer = await KafkaCluster(client).acquire("id", [PART])
    assert (producer.fenced, producer.unfenced_by) == (False, NO_TRANSACTIONS)


@pytest.mark.parametrize("asked", ["FindCoordinatorRequest", "InitProducerIdRequest"])
async def test_brokers_that_offer_transactions_and_refuse_them_too(asked: str) -> None:
    client = Mixed({1: OLD | {22: (0, 0)}, 2: OLD | {22: (0, 0)}})
    client.refused[asked] = UNSUPPORTED_VERSION
    producer = await KafkaCluster(client).acquire("id", [PART])
    assert (producer.fenced, producer.unfenced_by) == (False, NO_TRANSACTIONS)


async def test_other_refusals_take_no_fence_away() -> None:
    client = Mixed({1: OLD | {22: (0, 0)}, 2: OLD | {22: (0, 0)}})
    client.refused["InitProducerIdRequest"] = 50  # InvalidTransactionTimeout
    with pytest.raises(KafkaRefusal, match="50"):
        await KafkaCluster(client).acquire("id", [PART])
