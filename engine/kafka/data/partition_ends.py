"""Reads the high watermarks of a cluster's partitions; a broker that does not answer delays no other answer."""

import asyncio
from collections.abc import Collection, Iterable

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.core.reports.drain import Ends
from engine.flow.ports.ports import LATEST
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.offsets import ask_offsets
from engine.kafka.protocol.faults import NONE, error_name
from policies.model import TopicPartition
from policies.selection import TopicSelection

BROKER_WITHIN_S = 5.0
"""Most seconds to wait for a partition leader; it delays no other leader, because all are asked at once."""
_LOST = (BrokerUnreachable, ConnectionLost)


async def partition_ends(
    client: ClusterClient, selection: TopicSelection, known: Collection[TopicPartition], within_s: float
) -> Ends:
    """Ask for the high watermarks of every partition of the wanted topics, and of the known partitions.

    `within_s` bounds the wait for a broker that answers Metadata (none does: `gone`); BROKER_WITHIN_S bounds leaders.
    """
    try:
        async with asyncio.timeout(within_s):
            metadata = await client.metadata(None)
            listed = {
                TopicPartition(topic, number)
                for topic, meta in metadata.topics.items()
                if selection.wants(topic) and not meta.is_internal
                for number in meta.partitions
            }
            newest = await _newest(client, listed | set(known))
    except (*_LOST, TimeoutError) as lost:
        return Ends(gone=_said(lost, within_s))
    return await _ask(client, newest, listed | set(known))


async def known_ends(client: ClusterClient, known: Collection[TopicPartition], within_s: float) -> Ends:
    """Ask for the high watermarks of some partitions as `partition_ends` does, without reading all topics."""
    try:
        async with asyncio.timeout(within_s):
            newest = await _newest(client, known)
    except (*_LOST, TimeoutError) as lost:
        return Ends(unknown=dict.fromkeys(known, _said(lost, within_s)))
    return await _ask(client, newest, known)


async def _newest(client: ClusterClient, wanted: Iterable[TopicPartition]) -> Metadata:
    """Ask every broker who leads: a broker that is cut off from its controller names itself and its old ends."""
    topics = sorted({lane.topic for lane in wanted})
    await client.survey(topics)
    return await client.metadata(topics)


async def _ask(client: ClusterClient, metadata: Metadata, wanted: Iterable[TopicPartition]) -> Ends:
    found = Ends(ends={}, unknown={})
    by_leader: dict[int, list[TopicPartition]] = {}
    for lane in wanted:
        described = metadata.topics.get(lane.topic)
        if described is None or lane.partition not in described.partitions:
            continue  # the source does not list the partition any more: `Ends` says so
        leader, _ = metadata.leader(lane)
        if leader < 0:
            found.unknown[lane] = f"{lane} has no leader"
        else:
            by_leader.setdefault(leader, []).append(lane)

    async def one(node: int, led: list[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(BROKER_WITHIN_S):
                answers = await ask_offsets(client, node, led, LATEST, metadata)
        except (*_LOST, KafkaRefusal, TimeoutError) as lost:
            why = f"broker {node} of cluster {client.alias!r}: {_said(lost, BROKER_WITHIN_S)}"
            found.unknown.update(dict.fromkeys(led, why))
            return
        for lane in led:
            code, offset = answers.get(lane, (-1, -1))
            if code == NONE:
                found.ends[lane] = offset
            else:
                found.unknown[lane] = f"broker {node} of cluster {client.alias!r}: {error_name(code)} ({code})"

    await run_all(*(one(node, led) for node, led in by_leader.items()))
    return found


def _said(lost: BaseException, within_s: float) -> str:
    return str(lost) or f"no answer within {within_s:.0f} s"
