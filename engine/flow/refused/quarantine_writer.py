"""Appends entries to the quarantine topic, at least once: a repeat has the same key."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

from engine.base.clock import backoff_s, pause
from engine.base.errors import MirrorError
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.refused.entries import ENTRIES
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
    """Writes entries of one copier, some at a time. It needs no fence: an entry of a previous owner does no harm."""

    def __init__(self, cluster: Cluster, topic: str, request_timeout_s: float, pool: BufferPool) -> None:
        self._topic, self._pool = topic, pool
        self._line = PartitionWriter(cluster, TopicPartition(topic, ENTRIES), request_timeout_s, by_name=True)
        self._turn = asyncio.Lock()

    async def append(self, entries: Sequence[Record]) -> None:
        """Return when all entries are durable. Raises NotQuarantined; then some may be durable."""
        async with self._turn:
            for batch in batches(entries):
                codec = GZIP if size_of(batch) >= _COMPRESS_FROM_BYTES else NONE
                payload = await self._pool.work_beside(partial(encode_batch, batch, codec))
                await self._send(payload)

    async def _send(self, payload: bytearray) -> None:
        for attempt in range(1, _TRIES + 1):
            outcome = await self._line.send(payload)
            if outcome.kind is OutcomeKind.APPENDED:
                return
            if outcome.kind not in _AGAIN or attempt == _TRIES:
                raise NotQuarantined(self._topic, outcome.message or outcome.kind.value, _right(outcome))
            await pause(backoff_s(attempt))

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()


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
