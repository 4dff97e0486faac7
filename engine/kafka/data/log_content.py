"""Counts what a range of a partition holds, by batch headers alone; it inflates nothing."""

from engine.base.clock import Turns
from engine.core.reports.log_content import ContentCounter, ContentRange, LogContent
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import TERMS, Log
from engine.wire.batch import control_type, split_batches
from policies.model import TopicPartition


async def read_content(client: ClusterClient, partition: TopicPartition, wanted: ContentRange) -> LogContent:
    """Count the committed records of a range.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, OffsetGone if the log starts after `wanted.since`.
    """
    counter, turns = ContentCounter(wanted), Turns()
    log = await Log.of(client, partition.topic)
    while not counter.is_done:
        before = counter.next_offset
        buffer, found = await log.read(partition, before, TERMS)
        counter.stable_to(found.last_stable_offset)
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            counter.add(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            await turns.rest()
        if counter.next_offset == before:
            return counter.content(is_end_reached=True)
    return counter.content(is_end_reached=False)
