"""Metadata that many lanes share is asked for once a second, and anew when a leader was wrong."""

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
