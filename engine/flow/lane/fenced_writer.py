"""Writes to a partition as its only writer: a transactional id fences previous writers; batches are idempotent.

The fence is the same as a lane's (`flow/ownership/acquisition.py`): InitProducerId, then an empty aborted transaction.
After that no request of a previous writer can be appended. The batches themselves are in no transaction.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.base.clock import backoff_s, pause, wall_ms
from engine.base.errors import KafkaRefusal
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster, Producer
from engine.wire.codecs import GZIP, NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition

_DUPLICATE = 46
_RESEND = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_FENCED = (OutcomeKind.FENCED, OutcomeKind.ORDER)
_FENCED_CODES = frozenset({47, 90})
_COMPRESS_FROM_BYTES = 256


class WriterFenced(Exception):
    """Another writer has a newer epoch, or the broker forgot this one's. The topic's records show who owns it now."""


@contextmanager
def _as_fenced() -> Iterator[None]:
    try:
        yield
    except KafkaRefusal as refusal:
        if refusal.code in _FENCED_CODES:
            raise WriterFenced(str(refusal)) from None
        raise


class FencedWriter:
    """Appends records in order. Call `acquire` first, and again after WriterFenced."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, transactional_id: str, request_timeout_s: float
    ) -> None:
        self.reason = ""
        """Why the last attempt failed; empty after a success."""
        self._cluster = cluster
        self._partition = partition
        self._transactional_id = transactional_id
        self._line = PartitionWriter(cluster, partition, request_timeout_s)
        self._producer: Producer | None = None
        self._sequence = 0
        self._unsettled: tuple[bytearray, int] | None = None
        self._last_offset = -1
        self.written_to: int | None = None
        """The offset after the newest batch that is known to be in the log; None before the first batch."""

    @property
    def fenced(self) -> bool:
        """Whether the broker refuses previous writers; else they are only detected."""
        return self._producer is not None and self._producer.fenced

    async def acquire(self) -> None:
        """Fence previous writers. Raises WriterFenced (another writer was faster) and what the Cluster port raises."""
        self._unsettled = None
        with _as_fenced():
            self._producer = await self._cluster.acquire(self._transactional_id, [self._partition])
        self._sequence, self._last_offset, self.written_to = self._producer.first_sequence, -1, None

    async def keep_alive(self) -> None:
        """Keep the transactional id, and with it the fence, from expiring. Raises what `acquire` raises."""
        if self._producer is None or not self._producer.fenced:
            return
        with _as_fenced():
            await self._cluster.keep_alive(self._transactional_id, self._producer, [self._partition])

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records as one batch; it tries until it has an answer, so call it with a deadline.

        If it is cancelled, the batch may be in the log or not; the next append sends the same bytes first. Raises
        KafkaRefusal, and WriterFenced also if the log has lost records or the topic was deleted and created again.
        """
        if self._unsettled is not None:
            await self._settle()
        producer = self._producer
        if producer is None:
            raise WriterFenced("not acquired")
        now_ms = wall_ms()
        batch = [Record(index, now_ms, key, value) for index, (key, value) in enumerate(records)]
        size = sum(len(key) + len(value or b"") for key, value in records)
        payload = encode_batch(
            batch,
            GZIP if size >= _COMPRESS_FROM_BYTES else NONE,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=self._sequence,
        )
        self._unsettled = payload, len(batch)
        await self._settle()

    async def _settle(self) -> None:
        """Send the unsettled batch until it is appended or refused."""
        attempt = 0
        while self._unsettled is not None:
            payload, count = self._unsettled
            outcome = await self._line.send(payload)
            if outcome.kind is OutcomeKind.APPENDED or outcome.error_code == _DUPLICATE:
                self._sequence = (self._sequence + count) & 0x7FFFFFFF
                self._unsettled, self.reason = None, ""
                self._note_offset(outcome, count)
                return
            self.reason = outcome.message or outcome.kind.value
            if outcome.kind not in _RESEND:
                self._unsettled = None
                if outcome.kind in _FENCED:
                    self._producer = None
                    raise WriterFenced(self.reason)
                right = "check Write permission and max.message.bytes of the topic"
                raise KafkaRefusal(f"appending to {self._partition}", outcome.error_code, self.reason, right)
            attempt += 1
            await pause(backoff_s(attempt))

    def _note_offset(self, outcome: Outcome, count: int) -> None:
        if outcome.kind is not OutcomeKind.APPENDED:
            return  # a duplicate: the batch was in the log already
        if outcome.base_offset <= self._last_offset:
            raise WriterFenced(
                f"{self._partition} lost records: offset {outcome.base_offset} came after offset {self._last_offset}"
            )
        self._last_offset, self.written_to = outcome.base_offset, outcome.base_offset + count

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()
