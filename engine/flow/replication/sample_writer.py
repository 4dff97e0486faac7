"""Writes a copier's progress samples every few seconds. Nothing waits for them; failed samples are dropped and counted.

There is no queue: while a write waits for an unreachable target, no new samples are taken. Batches carry no producer
id: a sample is true whoever wrote it, and is never sent twice.
"""

from collections.abc import Awaitable, Callable

import msgspec

from engine.base.clock import backoff_s, pause
from engine.base.errors import MirrorError
from engine.core.events.events import AnyEvent
from engine.core.events.progress_events import SamplesNotWritten
from engine.core.events.recovery_events import WRITTEN_AGAIN, WorksAgain
from engine.core.lane.outcome import OutcomeKind
from engine.core.reports.progress import FlowProgress
from engine.core.reports.progress_sample import ProgressSample, Sampler, encode_sample
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.wire.codecs import ZSTD
from engine.wire.murmur2 import partition_for_key
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition

_MOST_S = 30.0
_FAILURES = (MirrorError, OSError, TimeoutError)


class SampleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The writer's flow, copier and topic, the topic's partitions, the seconds between samples and for one answer."""

    flow: FlowName
    copier: str
    topic: str
    partitions: int
    every_s: float
    request_timeout_s: float = 10.0


class SampleWriter:
    """Samples what `latest` returns. `prepare` creates the topic, and may fail; `tell` takes events about failures."""

    def __init__(
        self,
        options: SampleOptions,
        cluster: Cluster,
        latest: Callable[[], FlowProgress | None],
        prepare: Callable[[], Awaitable[None]],
        tell: Callable[[AnyEvent], None],
    ) -> None:
        self.options = options
        self.dropped = 0
        """The number of lanes' samples that were never written."""
        self.trouble = ""
        """Why the last write failed; empty if it succeeded."""
        self._latest, self._prepare, self._tell = latest, prepare, tell
        self._sampler = Sampler(options.copier)
        self._key = options.copier.encode()
        partition = TopicPartition(options.topic, partition_for_key(self._key, options.partitions))
        self._writer = PartitionWriter(cluster, partition, options.request_timeout_s, by_name=True)

    async def run(self) -> None:
        """Write until cancelled; no failure of a broker ends it."""
        try:
            attempt = 0
            while not await self._ready():
                attempt += 1
                await pause(backoff_s(attempt, most_s=_MOST_S))
            while True:
                await pause(self.options.every_s)
                await self.write_once()
        finally:
            await self._writer.close()

    async def _ready(self) -> bool:
        try:
            await self._prepare()
        except _FAILURES as failure:
            self._note(str(failure))
            return False
        return True

    async def write_once(self) -> None:
        """Sample the latest snapshot and send it, one batch per record; after a failure drop the remaining records."""
        latest = self._latest()
        if latest is None:
            return
        why = ""
        for sample in self._sampler.take(latest, self.dropped):
            why = why or await self._send(sample)
            if why:
                self.dropped += len(sample.lanes)
        self._note(why)

    async def _send(self, sample: ProgressSample) -> str:
        """Send one record; return why it was not written, empty if it was."""
        record = Record(0, sample.at_ms, self._key, encode_sample(sample))
        try:
            outcome = await self._writer.send(encode_batch([record], ZSTD))
        except _FAILURES as failure:
            return str(failure) or type(failure).__name__
        return "" if outcome.kind is OutcomeKind.APPENDED else outcome.message or outcome.kind.value

    def _note(self, why: str) -> None:
        if why and not self.trouble:
            self._tell(SamplesNotWritten(flow=self.options.flow, topic=self.options.topic, why=why))
        elif self.trouble and not why:
            self._tell(WorksAgain(flow=self.options.flow, subject=self.options.topic, what=WRITTEN_AGAIN))
        self.trouble = why
