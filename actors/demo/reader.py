"""Reads topics for the proof with aiokafka's stock consumer, which shares no code with the engine.

It runs in a process of `concurrent.futures`, so that two cores read source and target at the same time.
"""

import asyncio
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, TopicPartition

from actors.demo.digest import PartitionDigest, record_digest
from actors.demo.topics import partitions_of

STALL_S = 20.0
FETCH_BYTES = 8 * 1024 * 1024


class ProofStalled(Exception):
    """A partition gave no record for `STALL_S` seconds, although it has more."""

    def __init__(self, bootstrap: str, partition: str, position: int, end: int) -> None:
        super().__init__(bootstrap, partition, position, end)
        self.bootstrap, self.partition, self.position, self.end = bootstrap, partition, position, end

    def __str__(self) -> str:
        return (
            f"{self.bootstrap}: {self.partition} gave no record for {STALL_S:.0f} s"
            f" at offset {self.position} of {self.end}"
        )


Digests = dict[tuple[str, int], PartitionDigest]


def read_topics(bootstrap: str, topics: list[str]) -> Digests:
    """Read and digest every committed record of some topics, from the first to the end at the time of the call."""
    return asyncio.run(_read(bootstrap, topics))


async def _read(bootstrap: str, topics: list[str]) -> Digests:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        check_crcs=True,
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_bytes=4 * FETCH_BYTES,
        max_poll_records=10_000,
    )
    partitions = await partitions_of(bootstrap, topics)
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        return await _drain(consumer, bootstrap, partitions)
    finally:
        await consumer.stop()


async def _drain(consumer: AIOKafkaConsumer, bootstrap: str, partitions: list[TopicPartition]) -> Digests:
    ends = await consumer.end_offsets(partitions)
    digests: defaultdict[TopicPartition, bytearray] = defaultdict(bytearray)
    payload: defaultdict[TopicPartition, int] = defaultdict(int)
    open_partitions = set(partitions)
    loop = asyncio.get_running_loop()
    last_at = loop.time()
    while True:
        for partition in list(open_partitions):
            if await consumer.position(partition) >= ends[partition]:
                open_partitions.discard(partition)
                consumer.pause(partition)
        if not open_partitions:
            break
        batches = await consumer.getmany(*open_partitions, timeout_ms=200)
        if batches:
            last_at = loop.time()
        elif loop.time() - last_at > STALL_S:
            stuck = min(open_partitions)
            raise ProofStalled(
                bootstrap, f"{stuck.topic}-{stuck.partition}", await consumer.position(stuck), ends[stuck]
            )
        for partition, records in batches.items():
            target = digests[partition]
            size = 0
            for record in records:
                if record.offset >= ends[partition]:
                    break
                key, value, headers = record.key, record.value, record.headers
                target += record_digest(key, value, headers, record.timestamp, record.timestamp_type)
                size += (len(key) if key else 0) + (len(value) if value else 0)
                for name, content in headers:
                    size += len(name) + (len(content) if content else 0)
            payload[partition] += size
    return {
        (partition.topic, partition.partition): PartitionDigest(
            digests=bytes(digests[partition]), payload_bytes=payload[partition]
        )
        for partition in partitions
    }
