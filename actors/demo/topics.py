"""Creates topics, writes hand-made records and reads end offsets for the demo, with aiokafka's stock clients."""

from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from engine.base.clock import wall_ms

LATE_TOPIC = "payments"
LATE_PARTITIONS = 2
LATE_RECORDS = 6_000
LATE_AGE_MS = 10_000  # timestamps of ten seconds ago: not the append time, and no strange lag in the report


async def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    """Create topics with one replica. Raises aiokafka's errors."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
        failed = [(topic, code, text) for topic, code, text in answer.topic_errors if code]
        if failed:
            raise LookupError(f"topics could not be created: {failed}")
    finally:
        await admin.close()


async def write_late_topic(bootstrap: str) -> None:
    """Create a topic unknown to the mirror; write what ProducerPerformance does not write: keys, headers, nulls."""
    await create_topics(bootstrap, {LATE_TOPIC: LATE_PARTITIONS})
    first_ms = wall_ms() - LATE_AGE_MS
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="zstd", linger_ms=20)
    await producer.start()
    try:
        for number in range(LATE_RECORDS):
            key, value, headers = hand_made(number)
            await producer.send(
                LATE_TOPIC,
                key=key,
                value=value,
                headers=headers,
                partition=number % LATE_PARTITIONS,
                timestamp_ms=first_ms + number,
            )
        await producer.flush()
    finally:
        await producer.stop()


def hand_made(number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Make one record: every seventh without a key or with an empty one, every eleventh a tombstone or empty."""
    key: bytes | None = b"customer-%d" % (number % 500)
    value: bytes | None = b'{"payment":%d,"cents":%d}' % (number, number * 37 % 99_991)
    if number % 7 == 0:
        key = None if number % 14 else b""
    if number % 11 == 0:
        value = (None if number % 22 else b"") if key is not None else b"-"
    headers = [("trace", b"%016x" % number)] if number % 3 else [("trace", b""), ("retry", b"%d" % (number % 5))]
    return key, value, headers


async def topic_names(bootstrap: str) -> set[str]:
    return set(await _partition_counts(bootstrap))


async def partitions_of(bootstrap: str, topics: Iterable[str]) -> list[TopicPartition]:
    """List the partitions of some topics. Raises LookupError for a topic that does not exist."""
    counts = await _partition_counts(bootstrap)
    wanted = list(topics)
    if missing := sorted(set(wanted) - counts.keys()):
        raise LookupError(f"{bootstrap} has no topic {', '.join(missing)}")
    return [TopicPartition(topic, number) for topic in wanted for number in range(counts[topic])]


async def _partition_counts(bootstrap: str) -> dict[str, int]:
    """Count the partitions of all topics: a request that names one topic makes a broker create it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
    finally:
        await admin.close()


async def end_offsets(bootstrap: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    """Return the end offset of every partition of some topics. Raises LookupError."""
    partitions = await partitions_of(bootstrap, topics)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        return {(key.topic, key.partition): end for key, end in (await consumer.end_offsets(partitions)).items()}
    finally:
        await consumer.stop()
