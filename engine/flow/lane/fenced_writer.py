"""The one writer of a partition: a transactional id fences whoever wrote before, batches are plain and idempotent.

The same fence as a lane's (`flow/ownership/acquisition.py`): InitProducerId, an empty aborted transaction, and when
that is over no request of a former writer can be appended any more.
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
    """A newer epoch writes, or the broker no longer knows ours: whether it is still our turn, the topic says."""


@contextmanager
def _as_fenced() -> Iterator[None]:
    try:
        yield
    except KafkaRefusal as refusal:
        if refusal.code in _FENCED_CODES:
            raise WriterFenced(str(refusal)) from None
        raise


class FencedWriter:
    """Appends records in order. `acquire` comes first, and again after Fenced."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, transactional_id: str, request_timeout_s: float
    ) -> None:
        self.reason = ""
        """Why the last attempt did not get through."""
        self._cluster = cluster
        self._partition = partition
        self._transactional_id = transactional_id
        self._line = PartitionWriter(cluster, partition, request_timeout_s)
        self._producer: Producer | None = None
        self._sequence = 0
        self._unsettled: tuple[bytearray, int] | None = None
        self._last_offset = -1
        self.written_to: int | None = None
        """The offset behind the newest batch that is known to be there; None before there is one."""

    @property
    def fenced(self) -> bool:
        """Whether the broker refuses former writers; else they are only detected."""
        return self._producer is not None and self._producer.fenced

    async def acquire(self) -> None:
        """Fence every former writer. Raises Fenced (somebody did so meanwhile) and what the Cluster port raises."""
        self._unsettled = None
        with _as_fenced():
            self._producer = await self._cluster.acquire(self._transactional_id, [self._partition])
        self._sequence, self._last_offset, self.written_to = self._producer.first_sequence, -1, None

    async def keep_alive(self) -> None:
        """Keep the transactional id, and with it the fence, from expiring. Raises Fenced and what `acquire` raises."""
        if self._producer is None or not self._producer.fenced:
            return
        with _as_fenced():
            await self._cluster.keep_alive(self._transactional_id, self._producer, [self._partition])

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Append records as one batch; tries until it has an answer, so bound it with a deadline.

        Cut off, the batch may be there or not; the next append sends the same bytes first. Raises Fenced, also where
        the log has lost records or begun anew (the topic was deleted and made again), and KafkaRefusal.
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
        """Send the unsettled batch until it is there or refused."""
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
            return  # told again of a batch that was there already
        if outcome.base_offset <= self._last_offset:
            raise WriterFenced(
                f"{self._partition} lost records: after offset {self._last_offset} came {outcome.base_offset}"
            )
        self._last_offset, self.written_to = outcome.base_offset, outcome.base_offset + count

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()
