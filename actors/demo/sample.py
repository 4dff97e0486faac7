"""Creates sample data on fresh clusters: two topics, and a consumer group that has read a part of one."""

from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from actors.demo.topics import create_topics
from engine.base.errors import MirrorError

TOPICS: Final = {"orders": 3, "clicks": 1}
"""Partitions of each topic."""
RECORDS: Final = 1000
"""Records in each topic."""
GROUP: Final = "billing"
READ: Final = 100
"""Records of each partition of `orders` that the group has read."""


class SampleFailed(MirrorError):
    """The clusters run, but the sample could not be created on the source."""

    exit_code = 1

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"the clusters run, but the sample was not created: {self.cause};"
            " to get fresh clusters, first run: raymirror cluster down"
        )


async def make_sample(bootstrap: str) -> str:
    """Create the topics, write their records, commit for the group; do nothing if one of the topics exists.

    Returns a sentence on the result. Raises SampleFailed.
    """
    try:
        if there := await _topics_of(bootstrap) & TOPICS.keys():
            return f"no sample created: the source already has {', '.join(sorted(there))}"
        await create_topics(bootstrap, TOPICS)
        await _write(bootstrap)
        await _commit(bootstrap)
    except (KafkaError, LookupError) as error:
        raise SampleFailed(str(error)) from error
    return f"sample on the source: topics {' and '.join(TOPICS)} of {RECORDS:,} records each, consumer group {GROUP}"


async def _topics_of(bootstrap: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


async def _write(bootstrap: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
    await producer.start()
    try:
        for number in range(RECORDS):
            await producer.send("orders", b"order %d" % number, key=b"%d" % number)
            await producer.send("clicks", b"click %d" % number)
        await producer.flush()
    finally:
        await producer.stop()


async def _commit(bootstrap: str) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False)
    await consumer.start()
    try:
        read = {TopicPartition("orders", number): READ for number in range(TOPICS["orders"])}
        consumer.assign(list(read))
        await consumer.commit(read)
    finally:
        await consumer.stop()
