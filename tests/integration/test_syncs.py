"""Offset syncs on a source without a right to write them, and MM2's topics that raymirror creates as MM2 does."""

import asyncio
import contextlib

import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import NoError, TopicAuthorizationFailedError

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import Mm2TopicFailed
from engine.core.mm2.mm2_records import decode_offset_sync
from engine.flow.ports.options import SyncOptions
from engine.flow.replication import syncs as writer
from engine.flow.replication.heartbeats import HeartbeatPlan, Heartbeats
from engine.kafka.admin.admin import describe_topic_configs
from engine.kafka.admin.internal_topics import ensure_mm2_topic
from engine.kafka.data.logs import read_topic
from engine.kafka.gateway import KafkaCluster
from engine.services.topic_service import TopicService
from policies.model import FlowName
from tests.harness.admin import admin, create_topics, delete_topic
from tests.harness.compare import assert_identical
from tests.harness.eventually import until_equal
from tests.harness.keeping import config_of
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, cluster_client

pytestmark = pytest.mark.integration

SYNCS = "mm2-offset-syncs.b.internal"
_ACLS = "org.apache.kafka.tools.AclCommand"
_DENIED = ("--deny-principal", "User:ANONYMOUS", "--operation", "Write", "--topic", SYNCS)


def deny(cluster: EmbeddedCluster, *, action: str) -> None:
    cluster.tool(_ACLS, "--bootstrap-server", cluster.bootstrap_servers, action, "--force", *_DENIED)


async def until_told(cluster: EmbeddedCluster, topic: str, code: int) -> None:
    """Wait until the brokers have heard who may make a topic: that to make it would be answered so."""
    async with admin(cluster) as client:

        async def asked() -> int:
            answer = await client.create_topics([NewTopic(topic, 1, 1)], validate_only=True)
            return int(answer.topic_errors[0][1])

        await until_equal(asked, code)


async def newest_sync(cluster: EmbeddedCluster, topic: str) -> int:
    client = cluster_client("a", cluster.bootstrap_servers)
    await client.open()
    try:
        found = [decode_offset_sync(*record) for record in await read_topic(client, SYNCS)]
    finally:
        await client.close()
    return max((sync.source_offset for sync in found if sync.topic == topic), default=-1)


async def test_a_source_that_may_not_be_written_costs_one_event(
    guarded_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_REFUSED_S", 0.2)
    await create_topics(guarded_cluster, {SYNCS: 1}, configs={"cleanup.policy": "compact"})
    deny(guarded_cluster, action="--add")
    options = SyncOptions(topic=SYNCS, on_source=True, lag_max=100, every_s=0.1)
    mirror = Mirror(guarded_cluster, target_cluster, "guarded", syncs=options)
    await mirror.open()
    copied = await mirror.topic("guarded-orders")
    await produce(guarded_cluster, "guarded-orders", 0, numbered(300))
    async with mirror.run() as run:
        event = await run.until_told(Mm2TopicFailed)
        assert (event.topic, event.cluster) == (SYNCS, "guarded")
        assert "TopicAuthorizationFailed" in event.text()
        await run.until_copied()
        assert await newest_sync(guarded_cluster, "guarded-orders") == -1
        deny(guarded_cluster, action="--remove")
        await produce(guarded_cluster, "guarded-orders", 0, numbered(100, first=300))
        await run.until_copied()
        syncs = run.copier._syncs
        assert syncs is not None
        await run.until(lambda: not syncs.trouble, "syncs are written once they may be")
        await until_equal(lambda: newest_sync(guarded_cluster, "guarded-orders"), 399)
        assert len(run.told(Mm2TopicFailed)) == 1
    assert await assert_identical(guarded_cluster, target_cluster, "guarded-orders", copied) == 400


async def test_a_topic_that_may_not_be_made_is_taken_to_be_there_only_if_it_may_not_be_seen(
    guarded_cluster: EmbeddedCluster,
) -> None:
    who = ("--deny-principal", "User:ANONYMOUS")
    unmade = (*who, "--operation", "Create", "--cluster", "--topic", "heartbeats")
    unseen = (*who, "--operation", "Describe", "--topic", "heartbeats")
    acls = ("--bootstrap-server", guarded_cluster.bootstrap_servers)
    guarded_cluster.tool(_ACLS, *acls, "--add", *unmade)
    client = cluster_client("guarded", guarded_cluster.bootstrap_servers)

    async def code() -> int:
        return (await client.metadata(["heartbeats"])).topics["heartbeats"].error_code

    try:
        await until_told(guarded_cluster, "heartbeats", TopicAuthorizationFailedError.errno)
        await client.open()
        with pytest.raises(KafkaRefusal, match=r"creating topic heartbeats .*grant Create on topic heartbeats"):
            await ensure_mm2_topic(client, "heartbeats", 1, "a.key")
        guarded_cluster.tool(_ACLS, *acls, "--add", *unseen)
        await until_equal(code, TopicAuthorizationFailedError.errno)
        await ensure_mm2_topic(client, "heartbeats", 1, "a.key")
    finally:
        await client.close()
        for words in (unmade, unseen):
            guarded_cluster.tool(_ACLS, *acls, "--remove", "--force", *words)
    await until_told(guarded_cluster, "heartbeats", NoError.errno)


async def test_topics_are_made_as_mm2_makes_them(target_cluster: EmbeddedCluster) -> None:
    client = cluster_client("b", target_cluster.bootstrap_servers)
    await client.open()
    try:
        await ensure_mm2_topic(client, "made-for-mm2", 0, "a.key")
        async with asyncio.timeout(60):
            while not (found := (await client.metadata(["made-for-mm2"])).topics["made-for-mm2"]).partitions:  # noqa: ASYNC110 - a broker hears of it later
                await asyncio.sleep(0.05)
        assert len(found.partitions) == 1
        assert len(found.partitions[0].replicas) == 1
        configs = (await describe_topic_configs(client, ["made-for-mm2"]))["made-for-mm2"]
        assert configs["cleanup.policy"].value == "compact"
        await ensure_mm2_topic(client, "made-for-mm2", 3, "a.key")  # it is there: as it is, it stays
        with pytest.raises(
            KafkaRefusal, match=r"creating topic more-replicas-for-mm2 .*set a\.key to at most .*\(asked: 3\)"
        ):
            await ensure_mm2_topic(client, "more-replicas-for-mm2", 3, "a.key")
    finally:
        await client.close()


async def test_heartbeats_go_on_in_a_topic_that_was_made_anew(target_cluster: EmbeddedCluster) -> None:
    topic, client = "beats-made-anew", cluster_client("b", target_cluster.bootstrap_servers)
    reader = cluster_client("reader", target_cluster.bootstrap_servers)

    async def ready() -> None:
        await client.open()
        await ensure_mm2_topic(client, topic, 0, "a.key")

    async def has_records() -> bool:
        with contextlib.suppress(ConnectionLost):  # a broker that has not heard of the new topic yet
            return bool(await read_topic(reader, topic))
        return False

    async def beaten() -> None:
        async with asyncio.timeout(60):
            while not await has_records():  # noqa: ASYNC110 - a broker tells nobody
                await asyncio.sleep(0.05)

    pair = FlowName("a", "b")
    beats = Heartbeats(HeartbeatPlan(pair, topic, 0.05, pair), KafkaCluster(client), ready, lambda _event: None)
    try:
        await reader.open()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(beats.run())
            await beaten()
            await delete_topic(target_cluster, topic)
            await create_topics(target_cluster, {topic: 1})
            await beaten()
            running.cancel()
    finally:
        await reader.close()
        await client.close()


async def test_an_offset_syncs_topic_that_was_deleted_is_made_by_the_next_round(mirror: Mirror) -> None:
    config = config_of(mirror)
    keeper, client = TopicService(config, config.flows[0]), cluster_client("source", mirror.source_servers)
    await client.open()

    async def until_there(*, there: bool) -> None:
        async with asyncio.timeout(60):
            while bool((await client.metadata([SYNCS])).topics[SYNCS].partitions) is not there:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    try:
        await keeper.open()
        await keeper.step()
        await until_there(there=True)
        await delete_topic(mirror.source, SYNCS)
        await until_there(there=False)
        await keeper.step()
        await until_there(there=True)
    finally:
        await keeper.close()
        await client.close()
