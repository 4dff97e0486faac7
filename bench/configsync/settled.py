"""Stores positions as a mirror leaves them that has run: a new mirror asks five times for each partition without one.

With tens of thousands of partitions these questions would take longer than all rounds that are measured.
"""

from collections.abc import Iterator

import msgspec

from bench.admin import create_topic
from bench.producing import Sent, produce_all
from bench.systems.launch import Job, write_properties
from engine.config.config import load_config
from engine.config.settings import FlowConfig
from engine.core.position.position import Position, encode_value
from engine.kafka.client.metadata import Metadata
from engine.services.clients import copying_clients, opened
from engine.wire.murmur2 import partition_for_key
from policies.model import TopicPartition

_LEFT = Position(
    source_next=0,
    target_next=0,
    sequence=0,
    producer_id=0,
    producer_epoch=0,
    runs=((0, 0),),
    assignment_epoch=1,
    deployment_id="bench",
    map_source=0,
    map_target=0,
    map_first=True,
    left=True,
)
"""The position of an empty partition whose owner has left."""


async def store_positions(job: Job) -> None:
    """Store the position of each partition of the job's topics; all of them are empty on both sides.

    Raises BenchError, BrokerUnreachable.
    """
    config = load_config(write_properties(job, {}))
    flow = config.flows[0]
    await create_topic(job.target, flow.positions_topic, flow.positions_partitions, {"cleanup.policy": "compact"})
    source, target = copying_clients(config, flow.name, "bench-positions")
    async with opened(source, target):
        rows = list(_positions(flow, await source.metadata(None), await target.metadata(None)))
    produce_all(job.target, rows, {"linger.ms": 50})


def _positions(flow: FlowConfig, source: Metadata, target: Metadata) -> Iterator[Sent]:
    for topic, found in source.topics.items():
        copy = target.topics.get(flow.selection.target_topic(topic)) if flow.selection.wants(topic) else None
        if copy is None:
            continue
        position = msgspec.structs.replace(
            _LEFT,
            source_topic_id=str(found.topic_id),
            target_topic_id=str(copy.topic_id),
            source_cluster_id=source.cluster_id,
            target_cluster_id=target.cluster_id,
        )
        for partition in found.partitions:
            key = flow.position_keys.encode(TopicPartition(topic, partition))
            at = partition_for_key(key, flow.positions_partitions)
            yield Sent(flow.positions_topic, at, encode_value(position), key)
