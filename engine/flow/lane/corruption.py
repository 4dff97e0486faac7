"""Events of a lane that reads a batch which breaks Kafka's record format, or is larger inside than it may be."""

from engine.base.errors import BatchTooLarge, WireError
from engine.core.events.events import AnyEvent, BatchRefused, CorruptSource, LaneRefused
from engine.flow.ports.options import FlowOptions
from policies.model import LaneName, TopicPartition


def corrupt_source(options: FlowOptions, lane: TopicPartition, error: WireError) -> AnyEvent:
    """Return the event for a source batch that is corrupt, or larger inside than it may be."""
    if isinstance(error, BatchTooLarge):
        return BatchRefused(
            flow=options.flow,
            lane=lane,
            source_offset=error.offset,
            limit_bytes=options.inflated_bytes,
            what=error.what,
        )
    return CorruptSource(flow=options.flow, lane=lane, source_offset=error.offset, what=error.what)


def corrupt_log(options: FlowOptions, name: LaneName, error: WireError) -> AnyEvent:
    """Return the event for a corrupt batch in the log, of either cluster, that was read to find a lane's place."""
    if TopicPartition(error.topic, error.partition) == name.source:
        return corrupt_source(options, name.source, error)
    return LaneRefused(flow=options.flow, lane=name.source, what=f"reading {error}")
