"""Asks leaders where the epochs of a log end (OffsetsForLeaderEpoch, KIP-320).

`EpochCheck` checks that the source still has the fetched history, for brokers whose Fetch does not report that.

From Fetch v12 on, the broker compares the epoch of the last fetched batch with its log and reports where they diverge
(KIP-595). For older brokers this module sends OffsetsForLeaderEpoch (KIP-320) before the first fetch of a partition on
a connection, and again after the partition's leader epoch has changed: only then can a log be truncated.

`epoch_ends` asks for many partitions at once, for a command.
"""

from collections.abc import Mapping, Sequence

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.base.tasks import run_all
from engine.flow.ports.ports import EpochEnd, Leader, PartitionFetch
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.protocol.faults import NONE, NOT_LEADER, OFFSET_OUT_OF_RANGE
from engine.kafka.protocol.requests import OffsetsForLeaderEpoch
from policies.model import TopicPartition

_UNDEFINED = -1
_NO_ANSWER = (-1, _UNDEFINED, _UNDEFINED)


class Parted(msgspec.Struct, frozen=True, gc=False):
    """A partition not to fetch: an error code, or the epoch and end offset where its history diverges."""

    error_code: int
    diverging: tuple[int, int] | None = None


class EpochCheck:
    """The checked partitions of one connection, each with its leader epoch and the epoch of the last fetched batch."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._checked: dict[TopicPartition, tuple[int, int]] = {}

    async def parted(self, wanted: Sequence[PartitionFetch]) -> dict[TopicPartition, Parted]:
        """Check the partitions in `wanted` that need it; return those not to fetch. Raises ConnectionLost."""
        due = [one for one in wanted if self._is_due(one)]
        if not due or not OffsetsForLeaderEpoch.spoken_by(self._connection):
            return {}
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for one in due:
            topics.setdefault(one.partition.topic, []).append(
                (one.partition.partition, one.leader_epoch, one.last_epoch)
            )
        answer = await self._connection.call(OffsetsForLeaderEpoch(list(topics.items())))
        ends = {
            TopicPartition(topic, partition): (code, epoch, end)
            for topic, rows in answer.topics
            for code, partition, epoch, end in rows
        }
        found: dict[TopicPartition, Parted] = {}
        for one in due:
            verdict = _judge(one, *ends.get(one.partition, _NO_ANSWER))
            if verdict is None:
                self._checked[one.partition] = one.leader_epoch, one.last_epoch
            else:
                found[one.partition] = verdict
        return found

    def _is_due(self, one: PartitionFetch) -> bool:
        if one.last_epoch < 0:
            return False  # the epoch of the last fetched batch is not known
        leader_epoch, last_epoch = self._checked.get(one.partition, (_UNDEFINED - 1, _UNDEFINED))
        return one.leader_epoch != leader_epoch or one.last_epoch < last_epoch


def _judge(one: PartitionFetch, code: int, epoch: int, end: int) -> Parted | None:
    """Judge an answer as a broker with Fetch v12 would."""
    if code == NOT_LEADER:
        return None  # only a leader answers this; it was asked before the lane moved to this follower (KIP-392)
    if code != NONE:
        return Parted(code)
    if _UNDEFINED in (epoch, end):
        return Parted(OFFSET_OUT_OF_RANGE)
    return Parted(NONE, (epoch, end)) if epoch < one.last_epoch or end < one.offset else None


async def epoch_ends(
    client: ClusterClient, epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
) -> dict[TopicPartition, EpochEnd]:
    """Return where the log of each partition ends that holds no epoch above the given one.

    `led`: the leaders to ask; None: those of today. Partitions are left out that have no leader, or whose leader does
    not answer, does not know the request (before Kafka 2.1) or refuses it. Raises ConnectionLost, BrokerUnreachable if
    no broker names the leaders.
    """
    if led is None:
        metadata = await client.metadata(sorted({partition.topic for partition in epochs}))
        leaders = {partition: metadata.leader(partition) for partition in epochs}
    else:
        leaders = {partition: (led[partition].node, led[partition].epoch) for partition in epochs}
    by_leader: dict[int, dict[str, list[tuple[int, int, int]]]] = {}
    for partition, epoch in epochs.items():
        leader, leader_epoch = leaders[partition]
        if leader >= 0:
            row = partition.partition, leader_epoch, epoch
            by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(row)
    found: dict[TopicPartition, EpochEnd] = {}

    async def ask(node: int, topics: dict[str, list[tuple[int, int, int]]]) -> None:
        try:
            connection = await client.control(node)
            if not OffsetsForLeaderEpoch.spoken_by(connection):
                return
            answer = await connection.call(OffsetsForLeaderEpoch(list(topics.items())))
        except (BrokerUnreachable, ConnectionLost):
            return
        for topic, rows in answer.topics:
            found.update(
                {TopicPartition(topic, number): EpochEnd(at, end) for code, number, at, end in rows if code == NONE}
            )

    await run_all(*(ask(node, topics) for node, topics in by_leader.items()))
    return found
