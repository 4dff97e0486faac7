"""Lets a cluster check topics that would be created or grown, without effect (`validateOnly`, KIP-4, KIP-195)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from aiokafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from engine.base.errors import KafkaRefusal
from engine.base.parts import parts_by_weight
from engine.kafka.admin.admin import refusal_text
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import NONE, TOPIC_ALREADY_EXISTS, error_name

_TIMEOUT_MS = 30_000
_MOST_RECORDS = 2_000
"""Far below the 10,000 records that a KRaft controller accepts (QuorumController.MAX_RECORDS_PER_USER_OP)."""


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create; `replicas` -1: the cluster's default."""

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str] = {}


class Refused(msgspec.Struct, frozen=True):
    """Kafka's error code, and its name with the broker's message."""

    code: int
    text: str


async def try_creating(client: ClusterClient, topics: Sequence[NewTopic]) -> dict[str, Refused]:
    """Return why the cluster would refuse topics, by name; a topic that exists is fine.

    Raises ConnectionLost, BrokerUnreachable.
    """
    found: dict[str, Refused] = {}
    # Heartbeats of several pairs share one topic, and a request must not name it twice.
    for part in _parts({one.name: one for one in topics}.values()):
        specs: list[Any] = [(one.name, one.partitions, one.replicas, [], sorted(one.configs.items())) for one in part]
        try:
            answer = await (await client.controller()).call(CreateTopicsRequest(specs, _TIMEOUT_MS, True))
        except KafkaRefusal as refusal:
            found |= {one.name: _not_offered(refusal) for one in part}
            continue
        found |= _refusals(answer.topic_errors)
    return found


async def try_growing(client: ClusterClient, partitions: Mapping[str, int]) -> dict[str, Refused]:
    """Return why the cluster would refuse partition counts, by topic. Raises ConnectionLost, BrokerUnreachable."""
    found: dict[str, Refused] = {}
    topics = [NewTopic(name=name, partitions=count, replicas=-1) for name, count in partitions.items()]
    for part in _parts(topics):
        specs: list[Any] = [(one.name, (one.partitions, None)) for one in part]
        try:
            answer = await (await client.controller()).call(CreatePartitionsRequest(specs, _TIMEOUT_MS, True))
        except KafkaRefusal as refusal:
            found |= {one.name: _not_offered(refusal) for one in part}
            continue
        found |= _refusals(answer.topic_errors)
    return found


def _not_offered(refusal: KafkaRefusal) -> Refused:
    """Say that the brokers do not offer the request at all."""
    return Refused(refusal.code, f"{error_name(refusal.code)}: its brokers do not offer that")


def _refusals(answers: Sequence[tuple[str, int, str | None]]) -> dict[str, Refused]:
    good = (NONE, TOPIC_ALREADY_EXISTS)
    return {name: Refused(code, refusal_text(code, message)) for name, code, message in answers if code not in good}


def _parts(topics: Iterable[NewTopic]) -> Iterator[list[NewTopic]]:
    """Split a request into several, by the records that the controller would write for it."""
    return parts_by_weight(topics, lambda one: 1 + one.partitions + len(one.configs), _MOST_RECORDS)
