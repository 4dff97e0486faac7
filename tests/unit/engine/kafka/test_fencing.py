"""The end of a barrier, asked of the coordinator that knows it: brokers of one cluster may be of different releases."""

from typing import Any

import pytest

from engine.flow.ports import Producer
from engine.kafka.cluster import ClusterClient
from engine.kafka.connection import Connection
from engine.kafka.fencing import barrier
from engine.kafka.metadata import BrokerAddress
from engine.kafka.security import HandshakeOptions
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

    async def call(self, request: Any, timeout_s: float = 30.0) -> Any:
        request.prepare(self.versions)  # raises where this broker does not know the request
        name = type(request).__name__
        self._asked.append((self.port, name))
        if name == "FindCoordinatorRequest":
            return Row(error_code=0, coordinator_id=2)
        if name == "AddPartitionsToTxnRequest":
            return Row(errors=[("t", [(0, 0)])])
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

    async def open_connection(self, node: int) -> Connection:
        return Answering(node, self._versions[node], self.asked)


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
