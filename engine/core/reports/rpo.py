"""Computes how far a flow is behind when a failover cuts it, per topic: the records that are lost, or still to copy."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from engine.core.reports.progress import LaneProgress
from policies.model import TopicPartition


class TopicRpo(msgspec.Struct, frozen=True, kw_only=True):
    """One topic: records (source offsets) that are not on the target, and the age of the oldest in seconds.

    `known` is false if the source did not answer. Then both numbers come from its last report, and the truth is at
    least that much. -1: it never reported.
    """

    topic: str
    partitions: int
    records: int
    seconds: float
    known: bool


def rpo_of(lanes: Iterable[LaneProgress], ends: Mapping[TopicPartition, int], at_ms: int) -> tuple[TopicRpo, ...]:
    """Sum up lanes by topic; `ends`: the source's ends as it reported them just now; `at_ms`: now (Unix time)."""
    topics: defaultdict[str, list[LaneProgress]] = defaultdict(list)
    for lane in lanes:
        topics[lane.lane.topic].append(lane)
    return tuple(_topic(topic, found, ends, at_ms) for topic, found in sorted(topics.items()))


def _topic(topic: str, lanes: list[LaneProgress], ends: Mapping[TopicPartition, int], at_ms: int) -> TopicRpo:
    behind = [_behind(lane, ends.get(lane.lane, lane.source_end)) for lane in lanes]
    ages = [
        0 if not left and lane.lane in ends else lane.least_lag_ms(at_ms)
        for lane, left in zip(lanes, behind, strict=True)
    ]
    return TopicRpo(
        topic=topic,
        partitions=len(lanes),
        records=-1 if -1 in behind else sum(behind),
        seconds=-1.0 if -1 in ages or -1 in behind else max(ages) / 1000 if any(behind) else 0.0,
        known=all(lane.lane in ends for lane in lanes),
    )


def _behind(lane: LaneProgress, end: int) -> int:
    return max(0, end - lane.source_next) if lane.source_next >= 0 and end >= 0 else -1
