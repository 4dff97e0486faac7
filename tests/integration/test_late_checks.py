"""Checks that a start could not make, on real brokers: a flow whose cluster comes later starts only if it passes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.demo.topics import topic_names
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from engine.base.errors import ClusterAway, NotReady
from engine.checks.late_checks import LateChecks
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.core.events.events import StartDoubt
from engine.services.topic_service import TopicService
from policies.model import FlowName
from tests.harness.admin import create_topics

pytestmark = pytest.mark.integration

THERE, BACK = FlowName("home", "away"), FlowName("away", "house")


def config(home: EmbeddedCluster, away: EmbeddedCluster, house: str, topics: str, replicas: int = 1) -> MirrorConfig:
    text = [
        "clusters = home, away, house",
        f"home.bootstrap.servers = {home.bootstrap_servers}",
        f"away.bootstrap.servers = {away.bootstrap_servers}",
        f"house.bootstrap.servers = {house}",
        "home->away.enabled = true",
        "away->house.enabled = true",
        f"topics = {topics}",
        "replication.policy.class = IdentityReplicationPolicy",
        f"replication.factor = {replicas}",
        "offset.storage.replication.factor = 1",
    ]
    return read_config(parse_properties("\n".join(text) + "\n", "mm2.properties"))


@asynccontextmanager
async def forwarded(port: int, to: str) -> AsyncIterator[None]:
    """Listen on a port of this machine and hand everything on to another address."""
    host, _, number = to.partition(":")
    open_ends: set[asyncio.StreamWriter] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(host, int(number))
        open_ends.update((writer, here))
        await asyncio.gather(pump(reader, here), pump(there, writer), return_exceptions=True)

    server = await asyncio.start_server(connect, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for end in open_ends:
            end.close()


async def test_a_circle_that_an_alias_hides_is_found_when_its_cluster_comes(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    """home -> away was checked by `run`; house, another name of home, was away then: away -> house does not begin."""
    await create_topics(source_cluster, {"comes-back": 1})
    (port,) = pick_ports(1)
    asked = config(source_cluster, target_cluster, f"127.0.0.1:{port}", ".*comes-back")
    checks = LateChecks(asked, [BACK])
    there, back = (TopicService(asked, asked.flow(name), checks.admit) for name in (THERE, BACK))
    before = await topic_names(source_cluster.bootstrap_servers)
    try:
        await there.open()
        with pytest.raises(ClusterAway, match=r"mm2\.properties:4: house\.bootstrap\.servers: no broker of"):
            await back.open()
        async with forwarded(port, source_cluster.bootstrap_servers):
            with pytest.raises(NotReady, match="'home' and 'house' lead to one cluster, so topic 'comes-back' would"):
                await back.open()
    finally:
        await there.close()
        await back.close()
    assert await topic_names(source_cluster.bootstrap_servers) == before, "nothing was made there"


async def test_a_flow_that_is_in_order_begins_and_tells_what_is_to_be_known(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster
) -> None:
    await create_topics(source_cluster, {"begins-late": 1})
    clusters = source_cluster, target_cluster, "127.0.0.1:1", "begins-late, nobody-has-this"
    wrong = config(*clusters, replicas=7)
    keeper = TopicService(wrong, wrong.flow(THERE), LateChecks(wrong, [THERE]).admit)
    try:
        with pytest.raises(NotReady, match=r"mm2\.properties:9: replication\.factor: 7 replicas of topic begins-late"):
            await keeper.open()
    finally:
        await keeper.close()
    right = config(*clusters)
    keeper = TopicService(right, right.flow(THERE), LateChecks(right, [THERE]).admit)
    try:
        await keeper.open()
        found = await keeper.step()
    finally:
        await keeper.close()
    assert [lane.source.topic for lane in found.lanes] == ["begins-late"]
    doubts = [event.what for event in found.events if isinstance(event, StartDoubt)]
    assert any("'nobody-has-this' matches no topic" in doubt for doubt in doubts), doubts
