"""Counts what a range of a partition holds, by batch headers alone; it inflates nothing."""

from engine.base.clock import Turns
from engine.core.reports.log_content import ContentCounter, LogContent
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import TERMS, Log
from engine.wire.batch import control_type, split_batches
from policies.model import TopicPartition


async def read_content(
    client: ClusterClient, partition: TopicPartition, first: int, end: int, *, most_bytes: int, without: int
) -> LogContent:
    """Count the committed records from offset `first` up to `end`, and stop after about `most_bytes`.

    `without`: the producer id whose batches do not count. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal,
    OffsetGone if retention deletes `first` during the read.
    """
    counter, turns = ContentCounter(first, end, without), Turns()
    log = await Log.of(client, partition.topic)
    is_end_reached = False
    while counter.read_to < end and counter.read_bytes < most_bytes and not is_end_reached:
        buffer, found = await log.read(partition, counter.read_to, TERMS)
        counter.stable_to(found.last_stable_offset)
        before = counter.read_to
        for at, header in split_batches(buffer, found.start, found.end, *partition):
            counter.add(header, control_type(buffer, at, header, *partition) if header.is_control else None)
            await turns.rest()
        is_end_reached = counter.read_to == before
    return counter.content(is_end_reached=is_end_reached)
