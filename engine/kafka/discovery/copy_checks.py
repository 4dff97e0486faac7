"""Compares new copies with their sources, many at a time: finds what changes the copied data, e.g. a shorter retention.

    configs of both sides -> the age at which the target deletes or refuses a record -> are there older records?
    a request for 250 topics                                                            a request for each leader

A round of discovery ends behind this, and nothing is copied before the first one has ended. So no topic may cost round
trips of its own: leaders name the times of first records (ListOffsets), and no record is read. Of tens of thousands of
topics some are compared in each round: a mirror that starts again compares all of them.
"""

from collections.abc import Iterable, Mapping

import msgspec

from engine.base.clock import now_s, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.kafka.admin.admin import describe_each
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.first_records import FirstRecords, FirstTimes
from engine.kafka.discovery.request_parts import in_requests
from engine.kafka.protocol.faults import UNKNOWN_TOPIC_OR_PARTITION
from policies.model import TopicPartition
from policies.sync.creation import COMPARED_CONFIGS, age_limit_ms, compare
from policies.sync.topic_configs import ConfigEntry

_MOST_S = 5.0
"""Seconds that one round may compare, and a request more."""
Values = dict[str, str]


class CopyChecks(msgspec.Struct, frozen=True):
    """What was found, by source topic: differences (none: it is as it should be), or why a topic cannot be compared.

    A topic in neither is to be compared later: a broker did not answer, or does not know it yet.
    """

    differences: dict[str, list[str]] = msgspec.field(default_factory=dict)
    refused: dict[str, str] = msgspec.field(default_factory=dict)


async def check_copies(
    source: ClusterClient, target: ClusterClient, copies: Mapping[str, str], metadata: Metadata
) -> CopyChecks:
    """Compare topics with their copies (source name: target name); `metadata`: the source's, which has the topics.

    Ends after some seconds, or when a cluster does not answer; what was found until then counts. A leader that does not
    answer only makes the topics wait of which it leads partitions.
    """
    found, records, until_s = CopyChecks(), FirstRecords(source, metadata), now_s() + _MOST_S
    led = {topic: len(metadata.topics[topic].partitions) for topic in copies if _is_led(metadata, topic)}
    for part in in_requests(led):
        try:
            await _check(source, target, {topic: copies[topic] for topic in part}, metadata, records, found)
        except (BrokerUnreachable, ConnectionLost):
            break
        if now_s() >= until_s:
            break
    return found


def _is_led(metadata: Metadata, topic: str) -> bool:
    return all(metadata.leader(partition)[0] >= 0 for partition in _partitions(metadata, topic))


def _partitions(metadata: Metadata, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in metadata.topics[topic].partitions]


async def _check(
    source: ClusterClient,
    target: ClusterClient,
    copies: Mapping[str, str],
    metadata: Metadata,
    records: FirstRecords,
    found: CopyChecks,
) -> None:
    theirs = await describe_each(source, list(copies), COMPARED_CONFIGS)
    ours = await describe_each(target, list(copies.values()), COMPARED_CONFIGS)
    pairs: dict[str, tuple[Values, Values]] = {}
    for topic, copy in copies.items():
        one, other = theirs.get(topic), ours.get(copy)
        for side in (one, other):
            if isinstance(side, KafkaRefusal) and side.code != UNKNOWN_TOPIC_OR_PARTITION:
                found.refused[topic] = str(side)
        if isinstance(one, dict) and isinstance(other, dict):
            pairs[topic] = _values(one), _values(other)
    await _compare(pairs, metadata, records, found)


async def _compare(
    pairs: Mapping[str, tuple[Values, Values]], metadata: Metadata, records: FirstRecords, found: CopyChecks
) -> None:
    """Compare configs, with the ages of first records where the target has a limit for these."""
    now_ms = wall_ms()
    limited = {topic: _partitions(metadata, topic) for topic, (_, ours) in pairs.items() if _has_limit(ours, now_ms)}
    times = await records.times(one for partitions in limited.values() for one in partitions)
    for topic, (theirs, ours) in pairs.items():
        partitions = limited.get(topic, [])
        if refusal := _first(times.refused, partitions):
            found.refused[topic] = refusal
        elif times.unknown.isdisjoint(partitions):
            found.differences[topic] = compare(theirs, ours, _age_ms(times, partitions, now_ms))


def _has_limit(ours: Values, now_ms: int) -> bool:
    """Whether the target has a limit of age that any record may exceed: Kafka's own limit is 292 million years."""
    limit_ms = age_limit_ms(ours)
    return limit_ms is not None and limit_ms < now_ms


def _first(texts: Mapping[TopicPartition, str], partitions: Iterable[TopicPartition]) -> str:
    return next((texts[one] for one in partitions if one in texts), "")


def _age_ms(times: FirstTimes, partitions: Iterable[TopicPartition], now_ms: int) -> int | None:
    at_ms = min((times.at_ms[one] for one in partitions if one in times.at_ms), default=None)
    return None if at_ms is None else now_ms - at_ms


def _values(configs: Mapping[str, ConfigEntry]) -> Values:
    return {name: configs[name].value for name in COMPARED_CONFIGS if name in configs}
