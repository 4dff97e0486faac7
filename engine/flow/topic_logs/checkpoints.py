"""Reads the checkpoints of a flow once from their topic, and then writes the checkpoints that are new.

It never writes a tombstone, because MM2's readers fail on a record without a value. A checkpoint that turned out to be
too high is written again with a lower offset.
"""

from collections.abc import Iterable, Sequence

from engine.base.clock import pause
from engine.base.parts import parts
from engine.core.lane.outcome import OutcomeKind
from engine.core.mm2.mm2_records import Checkpoint, MalformedRecord, decode_checkpoint, encode_checkpoint
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.wire.codecs import ZSTD
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.groups import WrittenCheckpoint
from policies.model import TopicPartition

_AT_ONCE = 2_000
"""Checkpoints per batch: about a tenth of a broker's default message.max.bytes."""

_BREATH = 2_000
"""Checkpoints decoded in a row (some milliseconds) before other tasks of the event loop get a turn."""

News = tuple[str, TopicPartition, WrittenCheckpoint]
"""Group, target partition, and the checkpoint to write."""


class CheckpointLog:
    """The written checkpoints of each group, and the writer of more. A flow has one writer."""

    def __init__(self, cluster: Cluster, topic: str, request_timeout_s: float) -> None:
        self._cluster = cluster
        self._topic = topic
        self._writer = PartitionWriter(cluster, TopicPartition(topic, 0), request_timeout_s)
        self.written: dict[str, dict[TopicPartition, WrittenCheckpoint]] = {}
        self.stamps: dict[tuple[str, TopicPartition], int] = {}
        """When each checkpoint was written (Unix time, ms), after `read_stamped`."""
        self.malformed = 0
        """Records of the topic that are no checkpoints."""
        self.trouble = ""
        """Why the last batch was not written; empty if it was written."""

    async def read(self) -> None:
        """Read the topic to its end. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        await self._read((key, value, -1) for key, value in await self._cluster.read_records(self._topic))

    async def read_stamped(self) -> None:
        """Read as `read` does, and keep the time of each checkpoint, for use without the source. Raises as `read`."""
        records = await self._cluster.read_stamped(self._topic)
        await self._read((record.key, record.value, record.timestamp) for record in records)

    async def _read(self, records: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
        self.written, self.stamps, self.malformed = {}, {}, 0
        met: dict[TopicPartition, TopicPartition] = {}
        for number, (key, value, at_ms) in enumerate(records):
            if number % _BREATH == 0:
                await pause(0.0)
            try:
                one = decode_checkpoint(key, value)
            except MalformedRecord:
                self.malformed += 1
                continue
            where = TopicPartition(one.topic, one.partition)
            written = WrittenCheckpoint(one.source_offset, one.target_offset, one.metadata)
            where = met.setdefault(where, where)
            self.written.setdefault(one.group, {})[where] = written
            if at_ms >= 0:
                self.stamps[one.group, where] = at_ms

    async def write(self, news: Sequence[News], at_ms: int) -> int:
        """Write checkpoints, with the time when their groups were read; return how many were acknowledged.

        If a batch fails, `trouble` says why, and its checkpoints are new again in the next round.
        """
        done = 0
        for part in parts(news, _AT_ONCE):
            if not await self._write(part, at_ms):
                break
            for group, where, written in part:
                self.written.setdefault(group, {})[where] = written
            done += len(part)
        return done

    async def _write(self, part: Sequence[News], at_ms: int) -> bool:
        records: list[Record] = []
        for group, (topic, partition), written in part:
            key, value = encode_checkpoint(Checkpoint(group, topic, partition, *written))
            records.append(Record(0, at_ms, key, value))
        outcome = await self._writer.send(encode_batch(records, ZSTD))
        appended = outcome.kind is OutcomeKind.APPENDED
        self.trouble = "" if appended else f"topic {self._topic}: {outcome.message or outcome.kind.value}"
        return appended

    async def close(self) -> None:
        """Disconnect."""
        await self._writer.close()
