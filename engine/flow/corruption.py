"""What becomes of a lane that meets a batch which is not what Kafka's format says."""

from engine.core.events import AnyEvent, BatchRefused, CorruptSource, LaneRefused
from engine.errors import BatchTooLarge, WireError
from engine.flow.terms import FlowTerms
from policies.model import LaneName, TopicPartition


def corrupt_source(terms: FlowTerms, lane: TopicPartition, error: WireError) -> AnyEvent:
    """Return the event for a source batch that is corrupt, or larger inside than it may be."""
    if isinstance(error, BatchTooLarge):
        return BatchRefused(
            flow=terms.flow,
            lane=lane,
            source_offset=error.offset,
            limit_bytes=terms.inflated_bytes,
            what=error.what,
        )
    return CorruptSource(flow=terms.flow, lane=lane, source_offset=error.offset, what=error.what)


def corrupt_log(terms: FlowTerms, name: LaneName, error: WireError) -> AnyEvent:
    """Return the event for such a batch in whichever log was read to find a lane's place."""
    if TopicPartition(error.topic, error.partition) == name.source:
        return corrupt_source(terms, name.source, error)
    return LaneRefused(flow=terms.flow, lane=name.source, what=f"reading {error}")
