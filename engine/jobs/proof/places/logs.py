"""Reads both logs of a proof without Spark, with the engine's own clients."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from engine.base.errors import OffsetGone
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.flow.ports.ports import EARLIEST
from engine.jobs.proof.snapshot import CLIENT_ID
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import read_batches
from engine.kafka.data.offsets import list_offsets
from engine.services.clients import clients_of, opened
from engine.wire.header import BatchHeader
from engine.wire.record import Record
from policies.model import TopicPartition

PATIENCE_S = 60.0
"""How long a partition may go without an answer, in seconds."""
Batches = Sequence[tuple[BatchHeader, Sequence[Record]]]
Log = Callable[[TopicPartition, tuple[int, int]], AsyncIterator[tuple[int, Batches]]]
"""Reads a stretch of a log, one answer at a time, each with the offset behind it; skips offsets without a record."""
OpenLogs = Callable[[], AbstractAsyncContextManager[tuple[Log, Log]]]
"""Connects to the source and the target, for as long as the context is open."""


def logs_of(config: MirrorConfig, flow: FlowConfig) -> OpenLogs:
    """Return the opener of a flow's logs; calling it raises BrokerUnreachable, ConfigError."""

    @asynccontextmanager
    async def both() -> AsyncIterator[tuple[Log, Log]]:
        source, target = clients_of(config, flow.name, CLIENT_ID)
        async with opened(source, target):
            yield (
                _LogReader(source, committed=flow.fetch.read_committed, inflated_bytes=flow.inflated_bytes).read,
                _LogReader(target, committed=True, inflated_bytes=flow.inflated_bytes).read,
            )

    return both


class _LogReader:
    def __init__(self, client: ClusterClient, *, committed: bool, inflated_bytes: int) -> None:
        self._client, self._committed, self._inflated_bytes = client, committed, inflated_bytes

    async def read(self, partition: TopicPartition, stretch: tuple[int, int]) -> AsyncIterator[tuple[int, Batches]]:
        """Read a stretch. Raises BrokerUnreachable, KafkaRefusal, MalformedBatch, BatchTooLarge."""
        at, end = stretch
        patience = BoundedRetry(f"{partition} on cluster {self._client.alias!r}", PATIENCE_S, lambda: "")
        while at < end:
            behind, batches = await patience.persist(partial(self._answer, partition, at, end))
            yield behind, batches
            if behind == at:
                return
            at = behind

    async def _answer(self, partition: TopicPartition, at: int, end: int) -> tuple[int, Batches]:
        """Read one answer; skip what retention deleted, and all of the stretch if the log ends before `at`."""
        try:
            return await read_batches(
                self._client, partition, at, end, committed=self._committed, inflated_bytes=self._inflated_bytes
            )
        except OffsetGone:
            start = (await list_offsets(self._client, [partition], EARLIEST))[partition]
            return (min(start, end), []) if start > at else (end, [])
