"""Counts what a range of a partition holds, by batch headers alone; it inflates nothing."""

from engine.base.clock import Turns
from engine.base.errors import ConnectionLost
from engine.core.reports.log_content import ContentCounter, ContentRange, LogContent
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import TERMS, Log
from engine.wire.batch import control_type, split_batches
from policies.model import TopicPartition


async def read_content(client: ClusterClient, partition: TopicPartition, wanted: ContentRange) -> LogContent:
    """Count the committed records of a range.

    Raises ConnectionLost (also if the log ends before the range), BrokerUnreachable, KafkaRefusal, OffsetGone if the
    log starts after `wanted.since`.
    """
    counter, turns = ContentCounter(wanted), Turns()
    log = await Log.of(client, partition.topic)
    while not counter.is_done:
        before = counter.next_offset
        buffer, found = await log.read_some(partition, before, wanted.end, TERMS)
        counter.stable_to(found.last_stable_offset)
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            counter.add(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            await turns.rest()
        if counter.next_offset == before:
            if found.high_watermark < wanted.end:  # a leader that was just elected does not know its log's end yet
                raise ConnectionLost(f"{partition}: its leader has only {found.high_watermark} of {wanted.end}")
            return counter.content(is_end_reached=True)
    return counter.content(is_end_reached=False)
