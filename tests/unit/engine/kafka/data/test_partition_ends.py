"""The ends of a source's partitions, from the newest leader that any broker knows."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.base.errors import BrokerUnreachable
from engine.kafka.client.metadata import NO_ID, Metadata, PartitionMeta, TopicMeta
from engine.kafka.data import partition_ends as module
from engine.kafka.data.partition_ends import known_ends, partition_ends
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection

LANE = TopicPartition("t", 0)
ALL = TopicSelection(FlowName("a", "b"), DefaultNaming())
ENDS = {1: 7, 2: 10}
"""Broker 1 led in the past, and tells its old end."""


class Client:
    """The part of ClusterClient that ends need: one broker's metadata are old until all are asked."""

    alias = "a"

    def __init__(self) -> None:
        self.leader = 1
        self.is_away = False

    async def survey(self, topics: list[str]) -> bool:
        assert topics == ["t"]
        self.leader = 2
        return True

    async def metadata(self, topics: list[str] | None) -> Metadata:
        if self.is_away:
            raise BrokerUnreachable("cluster 'a'", "down")
        leaders = {0: PartitionMeta(self.leader, 5, (1, 2))}
        return Metadata("id", 1, {}, {"t": TopicMeta(0, NO_ID, False, leaders)})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    async def ask(_client: Any, node: int, led: Sequence[TopicPartition], *_rest: Any) -> dict[TopicPartition, Any]:
        return dict.fromkeys(led, (0, ENDS[node]))

    monkeypatch.setattr(module, "ask_offsets", ask)
    return Client()


async def test_a_leader_of_the_past_is_not_asked(client: Client) -> None:
    assert (await known_ends(client, [LANE], 5.0)).ends == {LANE: 10}  # type: ignore[arg-type]
    client.leader = 1
    assert (await partition_ends(client, ALL, [], 5.0)).ends == {LANE: 10}  # type: ignore[arg-type]


async def test_a_source_of_which_no_broker_answers_tells_nothing(client: Client) -> None:
    client.is_away = True
    assert (await known_ends(client, [LANE], 5.0)).unknown.keys() == {LANE}  # type: ignore[arg-type]
    assert "down" in (await partition_ends(client, ALL, [], 5.0)).gone  # type: ignore[arg-type]
