"""Reads a partition from its followers, if its leader does not answer (KIP-392).

A record that was acknowledged with acks=all is in the log of every follower in sync. A follower returns the record when
it knows that the high watermark has passed it. It learns that with its next fetch: by default at most half a second
later (`replica.fetch.wait.max.ms`).
"""

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.logs import NO_END, TERMS, Log
from engine.wire.record import Record
from policies.model import TopicPartition


async def read_followers(client: ClusterClient, partition: TopicPartition, first: int) -> list[Record]:
    """Read a partition from offset `first` on, from the in-sync follower with the highest high watermark.

    Raises ConnectionLost if no follower answers that knows the log up to `first`.
    """
    metadata = await client.recent([partition.topic])
    found: dict[int, list[Record]] = {}
    reasons: list[str] = []

    async def ask(node: int) -> None:
        try:
            end, records = await _read(client, metadata, partition, node, first)
            found[end] = records
        except (BrokerUnreachable, ConnectionLost, KafkaRefusal) as error:
            reasons.append(str(error))

    await run_all(*(ask(node) for node in _followers(metadata, partition)))
    known = max(found, default=-1)
    if known < first:
        why = "; ".join(reasons) or "no follower in sync knows it"
        raise ConnectionLost(f"{partition} on cluster {client.alias!r} from offset {first}: no follower has it ({why})")
    return found[known]


def _followers(metadata: Metadata, partition: TopicPartition) -> list[int]:
    topic = metadata.topics.get(partition.topic)
    found = topic.partitions.get(partition.partition) if topic else None
    return [node for node in found.in_sync if node != found.leader] if found else []


async def _read(
    client: ClusterClient, metadata: Metadata, partition: TopicPartition, node: int, first: int
) -> tuple[int, list[Record]]:
    """Read one follower up to its high watermark; return that watermark too. Raises as `Log.read` does."""
    log, offset, records = Log(client, metadata, node), first, list[Record]()
    while True:
        found, batches = await log.batches(partition, offset, NO_END, TERMS)
        records += [record for batch in batches for record in batch.records]
        offset = batches[-1].header.next_offset if batches else offset
        if offset >= found.high_watermark:
            return found.high_watermark, records
        if not batches:
            raise ConnectionLost(f"broker {node} returns nothing of {partition} from offset {offset} on")
