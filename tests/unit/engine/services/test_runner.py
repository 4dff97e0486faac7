"""A copier whose cluster does not answer: it waits, reports that, and ends on request."""

import asyncio
import socket
from collections.abc import Iterator

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.core.position.position import encode_value
from engine.flow.lane import bounded_retry as patience
from engine.kafka.admin import flow_clusters
from engine.kafka.client.identity import ClusterIdentity
from engine.kafka.data.positions import PositionsRead
from engine.services import runner
from engine.services.runner import Copier
from policies.model import LaneName, PartitionSet, TopicPartition
from tests.unit.engine.core.positions import position


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and refuses every connection: nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.local
async def test_it_waits_for_its_cluster_and_may_be_drained_meanwhile(closed_port: int) -> None:
    text = f"""clusters = A, B
A.bootstrap.servers = 127.0.0.1:{closed_port}
B.bootstrap.servers = 127.0.0.1:{closed_port}
A->B.enabled = true
"""
    config = read_config(parse_properties(text, "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id="d")
    lane = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        copier.assign(PartitionSet(set_id="A->B/000", flow=config.flows[0].name, epoch=1, lanes=(lane,)))
        while not copier.progress().waits_for:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        assert f"127.0.0.1:{closed_port}: cannot connect" in copier.progress().waits_for
        beat = copier.progress().beat
        while copier.progress().beat == beat:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        assert not running.done()
        await copier.drain()
        await running
    assert [one.state for one in copier.progress().lanes] == ["stopped"]


CONFIG = "clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\nA->B.topics = t\n"


class Client:
    """A client of a cluster that answers when a test says so."""

    def __init__(self, alias: str, cluster_id: str) -> None:
        self.alias, self.nodes = alias, tuple[int, ...]()
        self.identity = ClusterIdentity(alias)
        self.identity.admit(cluster_id, "h:1")
        self.opened, self.answers = asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        self.opened.set()
        await self.answers.wait()

    async def leave(self) -> None:
        """Of another cluster."""

    async def close(self) -> None:
        """Nothing is open."""


async def test_it_opens_both_clusters_at_once_and_copies_nothing_between_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lane without a position has nothing that names its clusters: the other positions of the flow do."""
    named = encode_value(msgspec.structs.replace(position(), source_cluster_id="one", target_cluster_id="two"))

    async def read_positions(_client: object, _topic: str) -> PositionsRead:
        key = config.flows[0].position_keys.encode(TopicPartition("t", 1))
        return PositionsRead([(key, named)], complete=True)

    async def shortest_expiry_s(_client: object) -> None:
        """Nobody is allowed to ask."""

    clients = {"A": Client("A", "three"), "B": Client("B", "two")}
    monkeypatch.setattr(flow_clusters, "read_positions", read_positions)
    monkeypatch.setattr(runner, "shortest_expiry_s", shortest_expiry_s)
    monkeypatch.setattr(runner, "copying_clients", lambda _config, flow, _client_id: [clients[one] for one in flow])
    config = read_config(parse_properties(CONFIG, "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id="d")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        for client in clients.values():
            await client.opened.wait()
        for client in clients.values():
            client.answers.set()
        while not copier.progress().waits_for:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        assert "this is cluster three" in copier.progress().waits_for
        assert "were written for cluster one" in copier.progress().waits_for
        await copier.drain()
        await running


async def test_the_client_of_offset_syncs_is_opened_and_closed_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = list[str]()

    class Closing(Client):
        async def close(self) -> None:
            closed.append(self.alias)

    clients = [Closing(alias, "one") for alias in ("A", "B", "syncs")]
    monkeypatch.setattr(runner, "copying_clients", lambda _config, _flow, _client_id: clients[:2])
    monkeypatch.setattr(runner, "syncs_client", lambda _config, _flow, _client_id: clients[2])
    config = read_config(parse_properties(CONFIG, "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id="d")
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        for client in clients:
            await client.opened.wait()
        await copier.drain()
        await running
    assert closed == ["A", "B", "syncs"]


async def test_a_broker_that_does_not_say_when_it_forgets_does_not_hold_the_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[object]()

    async def read_positions(_client: object, _topic: str) -> PositionsRead:
        return PositionsRead([], complete=True)

    async def shortest_expiry_s(client: object) -> None:
        asked.append(client)
        if len(asked) == 1:
            raise BrokerUnreachable("h:1", "refused")
        await asyncio.Event().wait()

    async def at_once(_attempt: int) -> None:
        await asyncio.sleep(0)

    clients = {"A": Client("A", "one"), "B": Client("B", "two")}
    for client in clients.values():
        client.answers.set()
    monkeypatch.setattr(flow_clusters, "read_positions", read_positions)
    monkeypatch.setattr(runner, "shortest_expiry_s", shortest_expiry_s)
    monkeypatch.setattr(patience, "pause", at_once)
    monkeypatch.setattr(runner, "copying_clients", lambda _config, flow, _client_id: [clients[one] for one in flow])
    config = read_config(parse_properties(CONFIG, "mm2.properties"))
    copier = Copier(config, config.flows[0], copier_id="copier-1", deployment_id="d")
    assert not copier.progress().is_open
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(copier.run())
        while not (copier.progress().is_open and len(asked) == 2):  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        await copier.drain()
        await running
