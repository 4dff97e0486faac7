"""Consumer groups created by stock clients: aiokafka's consumer, and Kafka's own Java one (KIP-848)."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, OffsetAndMetadata
from aiokafka import TopicPartition as KafkaPartition

from deploy.local.cluster import EmbeddedCluster
from deploy.local.tools import QUICK_FLAGS, start_tool

_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SHARE_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_END_S = 120.0
_DEADLINE_S = 180.0


@asynccontextmanager
async def joined(cluster: EmbeddedCluster, group: str, topic: str, **options: Any) -> AsyncIterator[Any]:
    """Run a stock aiokafka consumer that is a member of a group until the block ends; it commits when told to."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **{"session_timeout_ms": 60_000, **options},  # heartbeats share a loop, and a machine, with all the rest
    )
    await consumer.start()
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not consumer.assignment():  # noqa: ASYNC110 - aiokafka tells nobody when it is done
                await asyncio.sleep(0.02)
        yield consumer
    finally:
        await consumer.stop()


async def commit(
    cluster: EmbeddedCluster, group: str, topic: str, offsets: Mapping[int, int], metadata: str = ""
) -> None:
    """Commit as a member of the group that then leaves cleanly."""
    async with joined(cluster, group, topic) as consumer:
        rows = {KafkaPartition(topic, n): OffsetAndMetadata(offset, metadata) for n, offset in offsets.items()}
        await consumer.commit(rows)


async def commit_alone(cluster: EmbeddedCluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit as a consumer with assign() does: without a member, and so without the wait for a rebalance."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False)
    rows = {KafkaPartition(topic, n): OffsetAndMetadata(offset, "") for n, offset in offsets.items()}
    await consumer.start()
    try:
        consumer.assign(list(rows))
        async with asyncio.timeout(_DEADLINE_S):
            await consumer.commit(rows)
    finally:
        await consumer.stop()


async def read_from(cluster: EmbeddedCluster, group: str, topic: str, count: int) -> list[Any]:
    """Join, read records from where the group stands until there are that many, commit and leave cleanly."""
    records: list[Any] = []
    async with joined(cluster, group, topic) as consumer, asyncio.timeout(_DEADLINE_S):
        while len(records) < count:
            records.append(await consumer.getone())
        ends = {KafkaPartition(topic, one.partition): one.offset + 1 for one in records}
        await consumer.commit(ends)
    return records


@asynccontextmanager
async def console_consumer(cluster: EmbeddedCluster, group: str, topic: str, log: Path) -> AsyncIterator[Path]:
    """Run Kafka's console consumer as a member of a KIP-848 group; give the file that it prints records to."""
    words = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group", group, "--from-beginning")
    properties = (
        "--consumer-property",
        "group.protocol=consumer",
        "--consumer-property",
        "auto.commit.interval.ms=100",
    )
    async with _running(_CONSOLE, *words, *properties, log=log):
        yield log


@asynccontextmanager
async def share_consumer(cluster: EmbeddedCluster, group: str, topic: str, log: Path) -> AsyncIterator[Path]:
    """Run Kafka's console share consumer (KIP-932) from the start of a topic; give the file that it prints to."""
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    config = ("--alter", "--entity-type", "groups", "--entity-name", group, "--add-config")
    start = "share.auto.offset.reset=earliest"
    await asyncio.to_thread(cluster.tool, "kafka.admin.ConfigCommand", *where, *config, start)
    async with _running(_SHARE_CONSOLE, *where, "--topic", topic, "--group", group, log=log):
        yield log


@asynccontextmanager
async def _running(main_class: str, *words: str, log: Path) -> AsyncIterator[None]:
    """Run one of Kafka's programs until the block ends."""
    process = start_tool(main_class, *words, log_file=log, heap_mib=128, flags=QUICK_FLAGS)
    try:
        yield
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
