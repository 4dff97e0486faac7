"""Writes the events of one flow to a topic of its target, from a queue, and reads them back.

Nothing waits for an event. If the target is unreachable, the oldest queued events are dropped. Batches carry no
producer id: an event is true whoever wrote it, so nothing needs fencing. An event that was sent twice after an unknown
outcome is read once.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from engine.base.clock import backoff_s, pause, wall_ms
from engine.core.events.events import Event, EventsNotStored
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.state.event_records import EventCodec, EventRecord, EventsDropped
from engine.wire.codecs import GZIP
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition

_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_AT_ONCE = 200


class EventOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one flow's events. `queue`: the most events that wait; `patience_s`: how long a reader retries."""

    flow: FlowName
    topic: str
    queue: int = 10_000
    patience_s: float = 30.0
    request_timeout_s: float = 10.0


class EventLog:
    """Writes events in the background, reads them back. `kinds`: event types besides the engine's own."""

    def __init__(self, options: EventOptions, cluster: Cluster, kinds: Iterable[type[Event]] = ()) -> None:
        self.options = options
        self.dropped = 0
        """The total of events that were never written."""
        self.trouble = ""
        """Why the last write failed; empty if it succeeded."""
        self._cluster = cluster
        self._codec = EventCodec(options.flow, options.topic, kinds)
        self._partition = TopicPartition(options.topic, 0)
        self._writer = PartitionWriter(cluster, self._partition, options.request_timeout_s)
        where = f"topic {options.topic} on cluster {options.flow.target!r}"
        self._patience = BoundedRetry(where, options.patience_s, lambda: "")
        self._queue: deque[Record] = deque()
        self._refusals: list[EventsNotStored] = []
        self._is_refused = False
        self._untold = 0
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def append(self, events: Iterable[Event]) -> None:
        """Queue events with the current time. Never waits; if the queue is full, the oldest are dropped and counted."""
        now_ms = wall_ms()
        for event in events:
            self._queue.append(self._record(event, now_ms))
        while len(self._queue) > self.options.queue:
            self._queue.popleft()
            self._drop(1)
        if self._queue:
            self._empty.clear()
            self._news.set()

    def take_events(self) -> list[EventsNotStored]:
        """Return the refusals since the last call; one until a write succeeds again."""
        found, self._refusals = self._refusals, []
        return found

    def refused(self, why: str) -> None:
        """Note that the target refuses events or their topic."""
        self.trouble = why
        if not self._is_refused:
            self._is_refused = True
            self._refusals.append(EventsNotStored(flow=self.options.flow, topic=self.options.topic, why=why))

    def _record(self, event: Event, now_ms: int) -> Record:
        key, value = self._codec.encode(event, now_ms)
        return Record(0, now_ms, key, value)

    def _drop(self, count: int) -> None:
        self.dropped += count
        self._untold += count

    async def run(self) -> None:
        """Write queued events until cancelled; no failure of a broker ends it."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                await self._write([self._queue.popleft() for _ in range(min(_AT_ONCE, len(self._queue)))])
                await self._tell_dropped()
            self._empty.set()

    async def _tell_dropped(self) -> None:
        if self._untold and not self.trouble:
            count, self._untold = self._untold, 0
            event = EventsDropped(flow=self.options.flow, count=count, why="the target did not answer, or refused them")
            await self._write([self._record(event, wall_ms())])

    async def _write(self, records: Sequence[Record]) -> None:
        """Append one batch, for as long as it takes; drop what the broker refuses."""
        outcome = await self._send(encode_batch(records, GZIP))
        if outcome.kind is OutcomeKind.APPENDED:
            self.trouble, self._is_refused = "", False
        elif outcome.kind is OutcomeKind.TOO_LARGE and len(records) > 1:
            for record in records:
                await self._write([record])
        else:
            self._drop(len(records))
            self.refused(self.trouble)

    async def _send(self, payload: bytearray) -> Outcome:
        attempt = 0
        while True:
            outcome = await self._writer.send(payload)
            if outcome.kind is not OutcomeKind.APPENDED:
                self.trouble = outcome.message or outcome.kind.value
            if outcome.kind not in _AGAIN:
                return outcome
            attempt += 1
            await pause(backoff_s(attempt))

    async def flush(self) -> None:
        """Wait until all queued events are written or refused, while `run` runs; the caller sets a deadline."""
        await self._empty.wait()

    async def read(self, since_ms: int = 0) -> list[EventRecord]:
        """Return the events since an instant (Unix time), oldest first.

        Raises BrokerUnreachable, KafkaRefusal, NewerFormat.
        """
        records = await self._patience.persist(
            lambda: self._cluster.read_records(self.options.topic, None, max(0, since_ms))
        )
        return self._codec.decode(records, since_ms)

    async def close(self) -> None:
        """Disconnect; events that are still queued are lost."""
        await self._writer.close()
