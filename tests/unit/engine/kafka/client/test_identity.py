"""The first reported cluster id counts for every connection; another one is refused, and reported once."""

import asyncio
import pickle

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.config.security import HandshakeOptions
from engine.kafka.client import cluster, connection
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.identity import ClusterIdentity
from engine.kafka.client.metadata import BrokerAddress, Metadata


def test_the_first_id_counts_and_another_is_refused_and_handed_over_once() -> None:
    identity = ClusterIdentity("A")
    identity.admit("", "h:1")
    identity.admit("one", "h:1")
    for found in ("one", ""):
        identity.admit(found, "h:2")
    for _ in range(3):
        with pytest.raises(OtherCluster) as caught:
            identity.admit("two", "h:2")
    text = str(caught.value)
    assert "cluster 'A' at h:2: this is cluster two" in text
    assert "A.bootstrap.servers lead to cluster one again" in text
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.found, copy.address) == (text, "two", "cluster 'A' at h:2")
    assert [other.found for other in identity.take_others()] == ["two"]
    assert identity.take_others() == []
    identity.forget()
    identity.admit("two", "h:2")
    assert identity.id == "two"


class Network:
    """Addresses whose brokers name a cluster id, hang up, or are silent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **ids: str) -> None:
        self.ids = ids
        self.aborted: list[str] = []

        async def connect(host: str, port: int, _options: HandshakeOptions) -> Connection:
            if host not in self.ids:
                raise BrokerUnreachable(host, "refused")
            opened = Connection(host, port, "c", {})
            monkeypatch.setattr(opened, "abort", lambda: self.aborted.append(host))
            return opened

        async def answer(asked: Connection, _topics: list[str] | None) -> Metadata:
            named = self.ids[asked.host]
            if named == "hangs up":
                raise ConnectionLost(asked.address)
            if named == "silent":
                await asyncio.Event().wait()
            brokers = {1: BrokerAddress("b", 1, ""), 2: BrokerAddress("c", 1, "")}
            return Metadata(cluster_id=named, controller=1, brokers=brokers, topics={})

        monkeypatch.setattr(connection.Connection, "open", connect)
        monkeypatch.setattr(cluster, "ask_metadata", answer)

    def client(self, *hosts: str, timeout_s: float = 30.0) -> ClusterClient:
        options = HandshakeOptions(client_id="c", timeout_s=timeout_s)
        return ClusterClient("A", [(host, 1) for host in hosts], options)


async def test_every_connection_must_be_of_the_cluster_that_the_first_one_led_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(monkeypatch, b="one", c="two")
    client = network.client("b")
    await client.open()
    assert (await client.open_connection(1)).host == "b"
    with pytest.raises(OtherCluster, match="this is cluster two"):
        await client.open_connection(2)
    assert network.aborted == ["b", "c"]  # what `open` asked on, and what was refused


@pytest.mark.parametrize("named", ["hangs up", "silent"])
async def test_a_broker_that_names_no_cluster_in_time_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    network = Network(monkeypatch, b="one", c=named)
    client = network.client("b", timeout_s=0.05)
    await client.open()
    with pytest.raises(BrokerUnreachable, match="does not say which cluster it belongs to"):
        await client.open_connection(2)
    assert network.aborted[-1] == "c"


async def test_a_bootstrap_address_that_leads_elsewhere_is_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, b="one", c="two")
    client = network.client("b")
    await client.open()
    client._bootstrap = [("c", 1), ("b", 1)]
    assert (await client.open()).cluster_id == "one"
    client._bootstrap = [("gone", 1), ("c", 1)]
    with pytest.raises(OtherCluster):
        await client.open()
    assert [other.found for other in client.identity.take_others()] == ["two"]


async def test_a_cluster_that_was_left_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, b="one", c="two")
    client = network.client("b")
    await client.open()
    await client.leave()
    assert (client.identity.id, client.nodes) == ("", [])
    client._bootstrap = [("c", 1)]
    assert (await client.open()).cluster_id == "two"
