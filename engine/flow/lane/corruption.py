"""Builds the event for a batch that violates Kafka's record format, or decompresses to more than the limit."""

from engine.base.errors import BatchTooLarge, WireError
from engine.core.events.events import AnyEvent, BatchRefused, CorruptSource, LaneRefused
from engine.flow.ports.options import FlowOptions
from policies.model import LaneName, TopicPartition


def corrupt_source(options: FlowOptions, lane: TopicPartition, error: WireError) -> AnyEvent:
    """Return the event for a source batch that is corrupt, or decompresses to more than the limit."""
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
    """Return the event for a corrupt batch, in either cluster's log, that was read to find where the lane resumes."""
    if TopicPartition(error.topic, error.partition) == name.source:
        return corrupt_source(options, name.source, error)
    return LaneRefused(flow=options.flow, lane=name.source, what=f"reading {error}")
