"""Asks partition leaders when first records were written; a partition without an answer hides no other."""

from collections.abc import Iterable

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.offsets import Row, ask_rows, check_code
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

_FROM_THE_START_MS = 0
_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43


class FirstTimes(msgspec.Struct, frozen=True):
    """The timestamp (Unix ms) of the first record of partitions that have one, and why it is not known of others."""

    at_ms: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    refused: dict[TopicPartition, str] = msgspec.field(default_factory=dict)
    unknown: set[TopicPartition] = msgspec.field(default_factory=set)
    """Partitions whose leader does not answer, or leads no more: another attempt may show it."""


class FirstRecords:
    """The first records of one cluster, by metadata that name the leaders; a leader that is away is asked once."""

    def __init__(self, client: ClusterClient, metadata: Metadata) -> None:
        self._client, self._metadata = client, metadata
        self._away: set[int] = set()

    async def times(self, partitions: Iterable[TopicPartition]) -> FirstTimes:
        """Ask the leaders, all at once.

        ListOffsets from 1970 on: a leader reads one batch, and names the time of the first record that has one.
        """
        found = FirstTimes()
        led: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader, _ = self._metadata.leader(partition)
            if leader < 0 or leader in self._away:
                found.unknown.add(partition)
            else:
                led.setdefault(leader, []).append(partition)

        async def ask(node: int) -> None:
            rows = await self._rows(node, led[node])
            for partition in led[node]:
                self._note(found, partition, rows.get(partition))

        await run_all(*map(ask, led))
        return found

    async def _rows(self, node: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Row]:
        try:
            return await ask_rows(self._client, node, partitions, _FROM_THE_START_MS, self._metadata)
        except (BrokerUnreachable, ConnectionLost):
            self._away.add(node)  # the next request would wait for it as long
            return {}

    def _note(self, found: FirstTimes, partition: TopicPartition, row: Row | None) -> None:
        if row is None:
            found.unknown.add(partition)
            return
        code, timestamp_ms, _ = row
        try:
            check_code(self._client, f"the first record of {partition}", code, Operation.DESCRIBE, partition.topic)
        except ConnectionLost:
            found.unknown.add(partition)
        except KafkaRefusal as refusal:
            if code != _UNSUPPORTED_FOR_MESSAGE_FORMAT:  # records before Kafka 0.10 have no time
                found.refused[partition] = str(refusal)
        else:
            if timestamp_ms >= 0:
                found.at_ms[partition] = timestamp_ms
