"""Compares new copies with their sources, many at a time: finds what changes the copied data, e.g. a shorter retention.

    configs of both sides -> the age at which the target deletes or refuses a record -> are there older records?
    a request for 250 topics                                                            a request for each leader

Only of a topic that has such records, records are read. Nothing is copied before this has ended, so no topic may cost
round trips of its own.
"""

from collections.abc import Iterable, Mapping

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts
from engine.flow.ports.ports import EARLIEST, LATEST
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.admin.admin import describe_each
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.logs import oldest_timestamp_ms
from engine.kafka.data.offsets import list_offsets
from engine.kafka.protocol.faults import UNKNOWN_TOPIC_OR_PARTITION
from policies.model import TopicPartition
from policies.sync.creation import COMPARED_CONFIGS, age_limit_ms, compare
from policies.sync.topic_configs import ConfigEntry

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

    Ends at the first broker that does not answer; what was found until then counts.
    """
    found = CopyChecks()
    led = sorted(topic for topic in copies if _is_led(metadata, topic))
    for part in parts(led, TOPICS_AT_ONCE):
        try:
            await _check(source, target, {topic: copies[topic] for topic in part}, metadata, found)
        except (BrokerUnreachable, ConnectionLost):
            break
    return found


def _is_led(metadata: Metadata, topic: str) -> bool:
    return all(metadata.leader(partition)[0] >= 0 for partition in _partitions(metadata, [topic]))


def _partitions(metadata: Metadata, topics: Iterable[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in metadata.topics[topic].partitions]


async def _check(
    source: ClusterClient, target: ClusterClient, copies: Mapping[str, str], metadata: Metadata, found: CopyChecks
) -> None:
    theirs = await describe_each(source, list(copies), COMPARED_CONFIGS)
    ours = await describe_each(target, list(copies.values()), COMPARED_CONFIGS)
    pairs: dict[str, tuple[Values, Values]] = {}
    for topic, copy in copies.items():
        one, other = theirs[topic], ours[copy]
        for side in (one, other):
            if isinstance(side, KafkaRefusal) and side.code != UNKNOWN_TOPIC_OR_PARTITION:
                found.refused[topic] = str(side)
        if not isinstance(one, KafkaRefusal) and not isinstance(other, KafkaRefusal):
            pairs[topic] = _values(one), _values(other)
    await _compare(source, pairs, metadata, found)


async def _compare(
    source: ClusterClient, pairs: Mapping[str, tuple[Values, Values]], metadata: Metadata, found: CopyChecks
) -> None:
    """Compare configs, with the ages of records where they matter; a refusal is of the one topic that it names."""
    limits = {topic: limit for topic, (_, ours) in pairs.items() if (limit := age_limit_ms(ours)) is not None}
    try:
        ages = await _ages_beyond(source, limits, metadata)
    except KafkaRefusal as refusal:
        if len(pairs) == 1:
            found.refused.update(dict.fromkeys(pairs, str(refusal)))
            return
        for part in parts(list(pairs), -(-len(pairs) // 2)):
            await _compare(source, {topic: pairs[topic] for topic in part}, metadata, found)
        return
    for topic, (theirs, ours) in pairs.items():
        found.differences[topic] = compare(theirs, ours, ages.get(topic))


async def _ages_beyond(source: ClusterClient, limits: Mapping[str, int], metadata: Metadata) -> dict[str, int]:
    """Return the age in ms of the oldest record of each topic that has a record older than its limit."""
    now_ms = wall_ms()
    topics: dict[int, list[str]] = {}
    for topic, limit_ms in limits.items():
        if limit_ms < now_ms:  # Kafka's own limit is 292 million years
            topics.setdefault(limit_ms, []).append(topic)
    partitions = _partitions(metadata, (topic for some in topics.values() for topic in some))
    if not partitions:
        return {}
    starts, ends = await list_offsets(source, partitions, EARLIEST), await list_offsets(source, partitions, LATEST)
    filled = [partition for partition in partitions if starts[partition] < ends[partition]]
    old: set[str] = set()
    for limit_ms in topics:
        asked = [partition for partition in filled if limits[partition.topic] == limit_ms]
        young = await list_offsets(source, asked, now_ms - limit_ms) if asked else {}
        old |= {partition.topic for partition, offset in young.items() if offset != starts[partition]}
    oldest = {topic: await oldest_timestamp_ms(source, topic) for topic in sorted(old)}
    return {topic: now_ms - at_ms for topic, at_ms in oldest.items() if at_ms is not None}


def _values(configs: Mapping[str, ConfigEntry]) -> Values:
    return {name: configs[name].value for name in COMPARED_CONFIGS if name in configs}
