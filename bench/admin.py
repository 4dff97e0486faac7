"""Topics of a bench's clusters, created and deleted."""

import contextlib
from collections.abc import AsyncIterator, Mapping

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.errors import BenchError


@contextlib.asynccontextmanager
async def _admin(address: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create_topic(address: str, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic; raises BenchError if the cluster refuses."""
    async with _admin(address) as admin:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))])
    for name, code, *rest in answer.topic_errors:
        if code:
            raise BenchError("dataset", f"topic {name} not created: error {code} {rest}")


async def delete_topics(address: str, *, containing: str) -> None:
    """Delete every topic whose name holds this text."""
    async with _admin(address) as admin:
        if doomed := [name for name in await admin.list_topics() if containing in name]:
            await admin.delete_topics(doomed)
