"""Appends refused records to the quarantine topic, at least once: their contents, then their entries."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

from engine.base.clock import backoff_s, pause
from engine.base.errors import MirrorError
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.refused.entries import (
    CONTENTS,
    ENTRIES,
    RefusedRecord,
    contents_record,
    entry_of,
    placed_at,
    quarantine_topic,
)
from engine.flow.io.buffers import BufferPool
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.wire.codecs import GZIP, NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition

BATCH_BYTES = 512 * 1024
"""Contents of one batch in bytes, unless a single entry has more."""
_TRIES = 4
_COMPRESS_FROM_BYTES = 256
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)


class NotQuarantined(MirrorError):
    """Entries could not be written to the quarantine topic: its name, and why."""

    def __init__(self, topic: str, why: str, right: str) -> None:
        super().__init__(topic, why, right)
        self.topic, self.why, self.right = topic, why, right

    def __str__(self) -> str:
        return f"{self.topic} cannot be written: {self.why}; {self.right}"


class QuarantineWriter:
    """Writes for the lanes of one copier. It needs no fence: an entry of a previous owner does no harm."""

    def __init__(self, cluster: Cluster, source: str, request_timeout_s: float, pool: BufferPool) -> None:
        self._source, self._pool = source, pool
        self.topic = quarantine_topic(source)
        self._entries, self._contents = (
            PartitionWriter(cluster, TopicPartition(self.topic, number), request_timeout_s, by_name=True)
            for number in (ENTRIES, CONTENTS)
        )
        self._turn = asyncio.Lock()

    async def append(self, refused: Sequence[RefusedRecord], records: Sequence[Record]) -> None:
        """Return when the entries of refused records are durable, and what they hold: `records`, or nothing if empty.

        Raises NotQuarantined; then some may be durable.
        """
        async with self._turn:
            if records:
                pairs = zip(refused, records, strict=True)
                at = await self._write(self._contents, [contents_record(self._source, *pair) for pair in pairs])
                refused = [placed_at(facts, offset) for facts, offset in zip(refused, at, strict=True)]
            await self._write(self._entries, [entry_of(self._source, facts) for facts in refused])

    async def _write(self, line: PartitionWriter, records: Sequence[Record]) -> list[int]:
        """Append records and return their offsets."""
        offsets = list[int]()
        for batch in batches(records):
            codec = GZIP if size_of(batch) >= _COMPRESS_FROM_BYTES else NONE
            payload = await self._pool.work_beside(partial(encode_batch, batch, codec))
            base_offset = await self._send(line, payload)
            offsets += range(base_offset, base_offset + len(batch))
        return offsets

    async def _send(self, line: PartitionWriter, payload: bytearray) -> int:
        for attempt in range(1, _TRIES):
            outcome = await line.send(payload)
            if outcome.kind not in _AGAIN:
                break
            await pause(backoff_s(attempt))
        else:
            outcome = await line.send(payload)
        if outcome.kind is OutcomeKind.APPENDED:
            return outcome.base_offset
        raise NotQuarantined(self.topic, outcome.message or outcome.kind.value, _right(outcome))

    async def close(self) -> None:
        """Close the connections."""
        await self._entries.close()
        await self._contents.close()


def _right(outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.TOO_LARGE:
        return "raise max.message.bytes of this topic above the size of the record"
    return "the topic must exist and the mirror's user must be permitted to write to it"


def batches(entries: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield entries in batches of about `BATCH_BYTES`; a large entry is alone."""
    batch: list[Record] = []
    for entry in entries:
        if batch and size_of([*batch, entry]) > BATCH_BYTES:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def size_of(entries: Sequence[Record]) -> int:
    """Return the bytes of keys, values and headers."""
    return sum(
        len(one.key or b"")
        + len(one.value or b"")
        + sum(len(name) + len(content or b"") for name, content in one.headers)
        for one in entries
    )
