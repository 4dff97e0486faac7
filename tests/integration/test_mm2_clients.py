"""A one-way mirror as MM2's own client and Kafka's console tools see it: heartbeats, hops, syncs, checkpoints."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.core.mm2.mm2_records import Checkpoint, Heartbeat, decode_offset_sync, encode_checkpoint, encode_heartbeat
from engine.core.mm2.sync_store import SyncStore
from engine.core.offset_map.map_blocks import decode_tail
from policies.model import TopicPartition
from tests.harness.admin import admin, create_topics
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import Sent, numbered, produce
from tests.harness.places import read_places
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

PARTITIONS, COUNT = 2, 500
SYNCS, CHECKPOINTS = "mm2-offset-syncs.west.internal", "east.checkpoints.internal"
FORMATTERS = "org.apache.kafka.connect.mirror.formatters"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EmbeddedCluster]]:
    """Two clusters of the test's own: a heartbeats topic has one name, and is copied whatever the filter."""
    folder = tmp_path_factory.mktemp("heartbeats")
    found = {alias: EmbeddedCluster(alias, folder / alias) for alias in ("east", "west")}
    with running_clusters(*found.values()):
        yield found


async def prepare(clusters: dict[str, EmbeddedCluster]) -> None:
    """Records to copy, a heartbeat that came to the source from farther away, a checkpoint as a group would have it."""
    east, west = clusters["east"], clusters["west"]
    await create_topics(east, {"orders": PARTITIONS, "north.heartbeats": 1})
    await create_topics(west, {CHECKPOINTS: 1}, configs={"cleanup.policy": "compact"})
    for partition in range(PARTITIONS):
        await produce(east, "orders", partition, numbered(COUNT))
    await produce(east, "north.heartbeats", 0, [Sent(*encode_heartbeat(Heartbeat("north", "east", 1)))])
    checkpoint = Checkpoint("readers", "east.orders", 1, 400, 401, "seen")
    await produce(west, CHECKPOINTS, 0, [Sent(*encode_checkpoint(checkpoint))])


async def records(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> list[tuple[int, bytes, bytes, int]]:
    """Read (offset, key, value, timestamp) of a partition to its present end, with a stock consumer."""
    where = KafkaPartition(topic, partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    found: list[tuple[int, bytes, bytes, int]] = []
    try:
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        end = (await consumer.end_offsets([where]))[where]
        while await consumer.position(where) < end:
            for many in (await consumer.getmany(timeout_ms=100)).values():
                found += [(one.offset, one.key, one.value, one.timestamp) for one in many]
    finally:
        await consumer.stop()
    return found


def wait_for_syncs(live: LiveMirror, clusters: dict[str, EmbeddedCluster]) -> None:
    """Wait until the newest sync of each partition is its last record's."""

    def told() -> bool:
        found = [decode_offset_sync(key, value) for _, key, value, _ in asyncio.run(records(clusters["east"], SYNCS))]
        newest = {sync.partition: sync.source_offset for sync in found if sync.topic == "orders"}
        return newest == dict.fromkeys(range(PARTITIONS), COUNT - 1)

    live.until(told, "the last record of each partition is told")


def wait_for_beats(live: LiveMirror, clusters: dict[str, EmbeddedCluster]) -> None:
    """Wait until all that `check_client` and `check_consoles` want to see of heartbeats is there."""
    east, west = clusters["east"], clusters["west"]
    wanted = [(west, "heartbeats", 2), (east, "heartbeats", 2), (west, "east.heartbeats", 2)]
    wanted.append((west, "east.north.heartbeats", 1))

    def beaten() -> bool:
        return all(
            len(asyncio.run(read_places(cluster, topic)).get(0, ())) >= count for cluster, topic, count in wanted
        )

    live.until(beaten, "heartbeats of both clusters, and copies of those of the source")


def printed(cluster: EmbeddedCluster, topic: str, formatter: str, count: int) -> list[str]:
    """Print the first records of a topic with Kafka's console consumer."""
    words = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "100000")
    out = cluster.tool(
        CONSOLE,
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, *words),
        *("--formatter", f"{FORMATTERS}.{formatter}"),
    )
    return [line for line in out.splitlines() if line.startswith(formatter.removesuffix("Formatter"))]


async def topic_settings(cluster: EmbeddedCluster, topic: str) -> int:
    async with admin(cluster) as client:
        (described,) = await client.describe_topics([topic])
    return len(described["partitions"])


def test_what_a_mirror_leaves_is_what_mm2s_client_and_consoles_expect(
    clusters: dict[str, EmbeddedCluster], shared_ray: RayCluster, java: Any, tmp_path: Path
) -> None:
    east, west = clusters["east"], clusters["west"]
    asyncio.run(prepare(clusters))
    settings = {"emit.heartbeats.enabled": "true", "offset.lag.max": "50"}
    config = write_properties(tmp_path / "mm2.properties", clusters, {"east->west": "orders"}, settings)
    live = LiveMirror(tmp_path, config, env=shared_ray.env)
    try:
        live.until(lambda: live.flow("east->west")["records"] >= PARTITIONS * COUNT + 3, "records and heartbeats")
        wait_for_syncs(live, clusters)
        wait_for_beats(live, clusters)
        check_client(java, east, west)
        assert not live.told("raymirror cannot write to this topic"), live.describe()
        live.end()
    finally:
        live.close()
    check_consoles(east, west)
    asyncio.run(check_heartbeats(east, west))
    asyncio.run(check_syncs(east, west))


def check_client(java: Any, east: EmbeddedCluster, west: EmbeddedCluster) -> None:
    """MM2's answers on a one-way flow: its heartbeats run both ways, its data one."""
    utils = java.org.apache.kafka.connect.mirror.RemoteClusterUtils
    here, there = ({"bootstrap.servers": cluster.bootstrap_servers} for cluster in (east, west))
    assert set(utils.heartbeatTopics(there)) == {"heartbeats", "east.heartbeats", "east.north.heartbeats"}
    assert set(utils.heartbeatTopics(here)) == {"heartbeats", "north.heartbeats"}
    assert set(utils.upstreamClusters(there)) == {"east", "north"}
    assert set(utils.upstreamClusters(here)) == {"north"}
    hops = {alias: utils.replicationHops(there, alias) for alias in ("east", "north", "west", "nobody")}
    assert hops == {"east": 1, "north": 2, "west": -1, "nobody": -1}
    assert set(utils.checkpointTopics(there)) == {CHECKPOINTS}
    wait = java.java.time.Duration.ofSeconds(120)
    found = utils.translateOffsets(there, "east", "readers", wait)
    assert {str(where): (what.offset(), what.metadata()) for where, what in found.items()} == {
        "east.orders-1": (401, "seen")
    }
    assert not utils.translateOffsets(there, "east", "others", wait)


def check_consoles(east: EmbeddedCluster, west: EmbeddedCluster) -> None:
    """Kafka's own formatters print our records; bytes behind a sync's do not disturb them."""
    beats = printed(west, "heartbeats", "HeartbeatFormatter", 2)
    assert len(beats) == 2
    assert all(re.fullmatch(r"Heartbeat\{sourceClusterAlias=east, targetClusterAlias=west, .*\}", one) for one in beats)
    (checkpoint,) = printed(west, CHECKPOINTS, "CheckpointFormatter", 1)
    where = "consumerGroupId=readers, topicPartition=east.orders-1"
    assert checkpoint == f"Checkpoint{{{where}, upstreamOffset=400, downstreamOffset=401, metadata=seen}}"
    syncs = asyncio.run(records(east, SYNCS))
    decoded = [decode_offset_sync(key, value) for _, key, value, _ in syncs]
    assert printed(east, SYNCS, "OffsetSyncFormatter", len(syncs)) == [
        f"OffsetSync{{topicPartition={sync.topic}-{sync.partition}, upstreamOffset={sync.source_offset},"
        f" downstreamOffset={sync.target_offset}}}"
        for sync in decoded
    ]
    assert any(sync.tail for sync in decoded)


async def check_heartbeats(east: EmbeddedCluster, west: EmbeddedCluster) -> None:
    """One partition each; the copy on the target is the source's, byte for byte."""
    for cluster, topic in ((west, "heartbeats"), (east, "heartbeats"), (west, "east.heartbeats"), (east, SYNCS)):
        assert await topic_settings(cluster, topic) == 1
    back, copied = await records(east, "heartbeats"), await records(west, "east.heartbeats")
    keys = {key for _, key, _, _ in back}
    assert keys == {encode_heartbeat(Heartbeat("west", "east", 0))[0]}
    assert [one[1:] for one in copied] == [one[1:] for one in back][: len(copied)]
    assert len(copied) >= 2


async def check_syncs(east: EmbeddedCluster, west: EmbeddedCluster) -> None:
    """Every sync is true, and what MM2 makes of all of them is never ahead; the tail tells the same records."""
    store, newest = SyncStore(), {}
    store.read_to_end()
    pairs: dict[int, dict[int, int]] = {}
    for partition in range(PARTITIONS):
        sent, got = await records(east, "orders", partition), await records(west, "east.orders", partition)
        pairs[partition] = {source[0]: target[0] for source, target in zip(sent, got, strict=True)}
    for _, key, value, _ in await records(east, SYNCS):
        sync = decode_offset_sync(key, value)
        store.add(sync)
        if sync.topic == "orders":
            assert pairs[sync.partition][sync.source_offset] == sync.target_offset
            newest[sync.partition] = sync
    for partition, true in pairs.items():
        answers = {source: store.translate(TopicPartition("orders", partition), source) for source in true}
        assert all(answer is not None and answer <= true[source] for source, answer in answers.items())
        assert answers[COUNT - 1] == true[COUNT - 1]
        head = decode_tail(newest[partition].tail)
        assert head is not None
        assert {run.source + at: run.target + at for run in head.runs for at in range(run.count)} == true
        assert head.source_next == COUNT
