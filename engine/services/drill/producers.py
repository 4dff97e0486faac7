"""Rehearses the producers of a failover: whether the target could take them, without writing to any live topic.

A scratch topic with the strictest settings of the copies gets one record per partition. The copies' own partitions are
looked at: those without a leader, and those with fewer replicas in sync than `min.insync.replicas`.
"""

from collections.abc import Iterable, Mapping

from engine.base.clock import now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import TopicMeta
from engine.services.drill.made import Made
from engine.wire.codecs import NONE as PLAIN
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.dr.drill import DrillFinding, DrillFindingName, scratch_topic
from policies.model import TopicPartition
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry

SETTINGS = ("min.insync.replicas", "max.message.bytes")
"""The settings of the copies that the scratch topic has; each with the highest value of any copy."""
_WITHIN_S = 20.0
_AGAIN_S = 0.25
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)


def strictest(copies: Iterable[Mapping[str, ConfigEntry]]) -> dict[str, str]:
    """Return the highest value of each setting that any copy has."""
    found: dict[str, int] = {}
    for configs in copies:
        for name in SETTINGS:
            if _has(configs, name):
                found[name] = max(found.get(name, 0), int(configs[name].value))
    return {name: str(value) for name, value in found.items()}


def replicas_of_strictest(
    factor: int, topics: Mapping[str, TopicState], configs: Mapping[str, Mapping[str, ConfigEntry]]
) -> int:
    """Return how many replicas a topic needs to take producers with the strictest settings: as topics that have them.

    `factor`: of new copies; -1: the brokers' default.
    """
    least = {name: int(one[SETTINGS[0]].value) for name, one in configs.items() if _has(one, SETTINGS[0])}
    most = max(least.values(), default=1)
    return max(factor, *(topics[name].replicas for name, one in least.items() if one == most)) if most > 1 else factor


def _has(configs: Mapping[str, ConfigEntry], name: str) -> bool:
    return name in configs and bool(configs[name].value)


class ProducerRehearsal:
    """Produces to the scratch topic of one drill."""

    def __init__(self, run_id: str, target: Cluster, made: Made, request_timeout_s: float) -> None:
        self._topic, self._target, self._made = scratch_topic(run_id), target, made
        self._request_timeout_s = request_timeout_s

    async def produce(self, replication_factor: int, configs: Mapping[str, str]) -> list[DrillFinding]:
        """Create the topic and append a record to each partition; return what was refused."""
        try:
            partitions = await self._made.create_topic(self._topic, replication_factor, configs)
        except _FAILURES as failure:
            return [_cannot(self._topic, f"a topic with the settings of the copies cannot be created: {failure}")]
        found: list[DrillFinding] = []
        for number in range(partitions):
            outcome = await self._append(TopicPartition(self._topic, number))
            if outcome.kind is not OutcomeKind.APPENDED:
                found.append(_cannot(f"{self._topic}-{number}", outcome.message or outcome.kind.value))
        return found

    async def _append(self, partition: TopicPartition) -> Outcome:
        """Append one record with acks=all; a topic that was just created has no leader for a moment."""
        writer = PartitionWriter(self._target, partition, self._request_timeout_s)
        payload = bytes(encode_batch([Record(0, wall_ms(), None, b"raymirror drill")], PLAIN))
        give_up_at_s = now_s() + _WITHIN_S
        try:
            while True:
                outcome = await writer.send(bytearray(payload))
                if outcome.kind not in _AGAIN or now_s() >= give_up_at_s:
                    return outcome
                await pause(_AGAIN_S)
        finally:
            await writer.close()


def _cannot(subject: str, why: str) -> DrillFinding:
    return DrillFinding(name=DrillFindingName.PRODUCE, subject=subject, why=why)


async def refusing_partitions(
    client: ClusterClient, topics: Iterable[str], configs: Mapping[str, Mapping[str, ConfigEntry]]
) -> list[DrillFinding]:
    """Return the partitions that would refuse producers with acks=all now. Raises BrokerUnreachable, ConnectionLost."""
    found: list[DrillFinding] = []
    for topic, described in sorted((await client.metadata(sorted(topics))).topics.items()):
        entry = configs.get(topic, {}).get(SETTINGS[0])
        found += refusing(topic, described, int(entry.value) if entry is not None and entry.value else 1)
    return found


def refusing(topic: str, described: TopicMeta, least: int) -> list[DrillFinding]:
    """Return the partitions of one topic that would refuse producers; `least`: its `min.insync.replicas`."""
    found: list[DrillFinding] = []
    for number, one in sorted(described.partitions.items()):
        subject = f"{topic}-{number}"
        if one.leader < 0:
            found.append(DrillFinding(name=DrillFindingName.NO_LEADER, subject=subject, why="it has no leader"))
        elif 0 < len(one.in_sync) < least:
            why = f"{len(one.in_sync)} of its replicas are in sync, and min.insync.replicas is {least}"
            found.append(DrillFinding(name=DrillFindingName.IN_SYNC, subject=subject, why=why))
    return found
