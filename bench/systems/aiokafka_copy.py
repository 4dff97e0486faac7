"""A plain aiokafka consumer and producer, as a Python team would write it: copies record by record.

`python -m bench.systems.aiokafka_copy SOURCE TARGET TOPIC TARGET_TOPIC CODEC [AUTHORITY]`; copies until it is ended.
AUTHORITY is the certificate to trust: then it connects by TLS.
"""

import asyncio
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.systems.launch import Job, Launch


def launch(job: Job) -> Launch:
    """Start this module as a process of its own."""
    source, target = job.source, job.target
    trust: tuple[str, ...] = ()
    if job.tls is not None:
        source, target, trust = job.tls.source, job.tls.target, (str(job.tls.authority),)
    places = (source, target, job.backlog.topic, job.target_topic, job.backlog.codec, *trust)
    return Launch(command=(sys.executable, "-m", "bench.systems.aiokafka_copy", *places), needs_topic=True)


async def copy(source: str, target: str, topic: str, target_topic: str, codec: str, authority: str = "") -> None:
    """Copy every record of a topic, in order, to the same partition of another, with what aiokafka tunes for it."""
    trust: dict[str, Any] = {}
    if authority:
        trust = {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(cafile=authority)}
    # Without a group every partition of the topic is assigned, and no commit is made.
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=source,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1024 * 1024,
        fetch_max_bytes=50 * 1024 * 1024,
        **trust,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=target,
        acks="all",
        enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
        max_batch_size=65536,
        linger_ms=20,
        **trust,
    )
    async with consumer, producer:
        while True:
            for place, records in (await consumer.getmany(timeout_ms=200, max_records=5000)).items():
                for record in records:
                    await producer.send(
                        target_topic,
                        record.value,
                        key=record.key,
                        partition=place.partition,
                        timestamp_ms=record.timestamp,
                        headers=record.headers,
                    )


if __name__ == "__main__":
    asyncio.run(copy(*sys.argv[1:7]))
