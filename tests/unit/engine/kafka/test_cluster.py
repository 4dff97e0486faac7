"""Metadata that many lanes share is asked for once a second, and anew when a leader was wrong."""

import asyncio
from typing import Any

import pytest

from engine.errors import BrokerUnreachable, ConnectionLost
from engine.kafka import cluster
from engine.kafka.cluster import NO_ID, ClusterClient, Metadata, PartitionMeta, TopicMeta
from engine.kafka.security import HandshakeOptions


class Client(ClusterClient):
    """A client that counts what it asks."""

    def __init__(self) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self.asked: list[list[str]] = []
        self.missing: set[str] = set()

    async def metadata(self, topics: list[str] | None) -> Metadata:
        assert topics is not None
        self.asked.append(topics)
        known = {name: TopicMeta(0, NO_ID, False, {0: PartitionMeta(1, 1, (1,))}) for name in topics}
        gone = {name: TopicMeta(3, NO_ID, False, {}) for name in topics if name in self.missing}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=known | gone)


async def test_what_was_asked_just_now_is_not_asked_again() -> None:
    client = Client()
    assert (await client.recent(["t"])).topics.keys() == {"t"}
    assert (await client.recent(["t", "u"])).topics.keys() == {"t", "u"}
    assert (await client.recent(["u"])).topics.keys() == {"u"}
    assert client.asked == [["t"], ["u"]]


async def test_what_was_asked_a_while_ago_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RECENT_S", 0.0)
    client = Client()
    for _ in range(2):
        await client.recent(["t"])
    assert client.asked == [["t"], ["t"]]


@pytest.mark.parametrize("error", [ConnectionLost("h:1"), BrokerUnreachable("h:1", "down")])
async def test_a_leader_that_was_wrong_is_asked_for_anew(error: Exception) -> None:
    client = Client()
    await client.recent(["t", "u"])
    with pytest.raises(type(error)), client.believing(["t"]):
        raise error
    await client.recent(["t", "u"])
    assert client.asked == [["t", "u"], ["t"]]


async def test_a_topic_that_was_not_there_may_be_there_now() -> None:
    client = Client()
    client.missing = {"t"}
    assert (await client.recent(["t"])).topics["t"].partitions == {}
    client.missing = set()
    assert (await client.recent(["t"])).topics["t"].partitions != {}


class Open:
    """A connection that does nothing but close."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


class Connecting(Client):
    """A client that counts its connections."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[int, Open]] = []

    async def open_connection(self, node: int) -> Any:
        self.opened.append((node, Open()))
        return self.opened[-1][1]


async def test_a_few_connections_lie_beside_the_shared_one() -> None:
    client = Connecting()
    shared = await client.control(1)
    beside = [await client.beside(1, f"lane-{number}") for number in range(100)]
    assert shared not in beside
    assert [await client.beside(1, f"lane-{number}") for number in range(100)] == beside
    assert len(client.opened) == 1 + cluster._BESIDE
    assert await client.beside(2, "lane-0") not in beside
    assert await client.control(1) is shared
    await client.close()
    assert all(one.closed.is_set() for _, one in client.opened)


async def test_a_connection_that_was_lost_is_opened_anew() -> None:
    client = Connecting()
    lost = await client.beside(1, "lane")
    await lost.close()
    assert await client.beside(1, "lane") is not lost
