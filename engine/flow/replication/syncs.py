"""Writes the offset syncs of one copier: a small batch every second, in parallel with the copy.

Only a copier that ends waits for a sync, and not for long. A batch is plain (acks=all, no producer id): a sync names
two offsets of one record, which is true whoever wrote it. Syncs that could not be written stay due in their lane, where
newer pairs replace them. So an unreachable topic, or a missing right, costs only one event.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from engine.base.clock import Turns, beat_s, now_s, pause, wall_ms
from engine.base.errors import MirrorError
from engine.core.events.events import Mm2TopicFailed
from engine.core.events.recovery_events import WRITTEN_AGAIN, WorksAgain
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.states import State
from engine.core.mm2.mm2_records import OffsetSync, encode_offset_sync
from engine.core.mm2.sync_emitter import Due, SyncEmitter
from engine.core.offset_map.map_blocks import encode_tail
from engine.flow.context.copier_context import CopierContext
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.options import SyncOptions
from engine.flow.ports.ports import Cluster
from engine.wire.codecs import NONE, ZSTD
from engine.wire.encode import seal, write_area
from engine.wire.record import Record
from policies.model import TopicPartition

_REQUEST_S = 10.0
_FLUSH_S = 2.0
_TOLD_AFTER_S = 30.0
"""Failures make an event after this many seconds: the creation of a topic, or a leader election, takes less."""
_REFUSED_S = 30.0
"""Pause after a refusal, which an operator has to fix."""
_UNSURE = (State.ACQUIRING, State.WATCHING, State.FAILED)
"""States of a lane whose target may have lost acknowledged records, or whose target end is not known."""
_MOST_BYTES, _LEAST_BYTES = 256 * 1024, 4 * 1024
"""Limits of a batch's size before compression: below any broker's limit, and quickly encoded."""


_MOST_LANES = 500
"""Lanes in one batch. More would make it little smaller per lane, and its compression is one step of the event loop."""
_WORTH_BYTES = 512
"""Bytes from which compression pays: the one sync a second of a copier at rest becomes no smaller by it."""
_AT_ONCE = 25
"""Records encoded before the loop may run other tasks: 20 us."""


class _DueLane(msgspec.Struct, frozen=True):
    """The due records of one lane; `emitter` gets the outcome of `due`."""

    emitter: SyncEmitter
    due: Due
    records: list[Record]
    size: int


class SyncWriter:
    """Writes the due syncs of all lanes to partition 0 of the flow's offset-syncs topic."""

    def __init__(self, context: CopierContext, options: SyncOptions, cluster: Cluster) -> None:
        self.trouble = ""
        """Why the last write failed; empty if it succeeded."""
        self._flow, self._options = context.flow, options
        self._drivers, self._lease_guard = context.drivers, context.lease_guard
        self._report = context.events.report
        self._writer = PartitionWriter(cluster, TopicPartition(options.topic, 0), _REQUEST_S, by_name=True)
        self._left: dict[TopicPartition, LaneDriver] = {}
        self._most_bytes = _MOST_BYTES
        self._ring = asyncio.Event()
        self._writing = asyncio.Lock()
        self._well_at_s = now_s()
        self._not_before_s = 0.0
        self._reported = False

    async def run(self) -> None:
        """Write once a second until cancelled; no failure of a broker ends it."""
        try:
            while True:
                try:
                    async with asyncio.timeout(beat_s(self._options.every_s)):
                        await self._ring.wait()
                except TimeoutError:
                    pass
                self._ring.clear()
                if now_s() >= self._not_before_s:
                    await self._write_all()
                if self._ring.is_set():
                    await pause(self._options.every_s / 10)  # collects lanes that leave one by one
        finally:
            await self._writer.close()

    def leave(self, driver: LaneDriver) -> None:
        """Write the last sync of a lane at once: it moves to another owner, which writes the next ones."""
        self._left[driver.name.source] = driver
        self._ring.set()

    async def flush(self) -> None:
        """Write what is due, for two seconds at most: the next owner writes the rest."""
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._write_all()
        except TimeoutError:
            return

    async def _write_all(self) -> None:
        """Write what is due now, batch by batch, until one fails."""
        async with self._writing:
            left = {lane: driver for lane, driver in self._left.items() if lane not in self._drivers}
            self._left.clear()
            async with aclosing(self._batches([*left.values(), *self._drivers.values()])) as batches:
                async for parts in batches:
                    if not self._lease_guard.is_open or not await self._write(parts):
                        return

    async def _batches(self, drivers: list[LaneDriver]) -> AsyncGenerator[list[_DueLane], None]:
        parts: list[_DueLane] = []
        size = 0
        turns = Turns()
        for driver in drivers:
            await turns.rest()
            part = self._part(driver)
            if part is None:
                continue
            if parts and (len(parts) == _MOST_LANES or size + part.size > self._most_bytes):
                yield parts
                parts, size = [], 0
            parts.append(part)
            size += part.size
        if parts:
            yield parts

    def _part(self, driver: LaneDriver) -> _DueLane | None:
        """Return the due syncs of a lane; the newest sync carries the head of the map for raymirror's readers."""
        emitter, lane, version = driver.syncs, driver.lane, driver.positions.told_version
        if emitter is None or version == emitter.version or lane.state in _UNSURE:
            return None
        head = driver.positions.told_head()
        due = None if head is None else emitter.due(version, head.runs)
        if head is None or due is None:
            return None
        now_ms = wall_ms()
        tail = encode_tail(head)
        syncs = [OffsetSync(*driver.name.source, *pair) for pair in due.pairs]
        if len(tail) <= self._most_bytes // 2:
            syncs[-1] = msgspec.structs.replace(syncs[-1], tail=tail)
            if lane.map is not None:
                lane.map.carried()
        records = [Record(0, now_ms, *encode_offset_sync(sync)) for sync in syncs]
        return _DueLane(emitter, due, records, sum(len(one.key or b"") + len(one.value or b"") for one in records))

    async def _write(self, parts: list[_DueLane]) -> bool:
        """Write one batch and note its outcome; return whether it is durable.

        Lanes are sorted by offset: neighbours then have bytes in common, which makes a batch of 200 lanes a fifth
        smaller.
        """
        alike = sorted(parts, key=lambda part: part.due.pairs[-1].source)
        try:
            batch = await _encode_in_turns([one for part in alike for one in part.records])
            outcome = await self._writer.send(batch)
        except MirrorError as error:
            outcome = Outcome(OutcomeKind.RETRY, message=str(error))
        except asyncio.CancelledError:
            _unknown(parts)
            raise
        match outcome.kind:
            case OutcomeKind.APPENDED:
                for part in parts:
                    part.emitter.written(part.due)
                if self._reported:
                    self._report(WorksAgain(flow=self._flow, subject=self._options.topic, what=WRITTEN_AGAIN))
                self.trouble, self._well_at_s, self._reported = "", now_s(), False
                return True
            case OutcomeKind.UNKNOWN:
                _unknown(parts)
            case OutcomeKind.TOO_LARGE:
                self._most_bytes = max(_LEAST_BYTES, self._most_bytes // 2)
        self._failed(outcome)
        return False

    def _failed(self, outcome: Outcome) -> None:
        self.trouble = outcome.message or outcome.kind.value
        passing = outcome.kind in (OutcomeKind.RETRY, OutcomeKind.UNKNOWN, OutcomeKind.TOO_LARGE)
        if not passing:
            self._not_before_s = now_s() + _REFUSED_S
        if not self._reported and (not passing or now_s() - self._well_at_s >= _TOLD_AFTER_S):
            self._reported = True
            cluster = self._flow.source if self._options.on_source else self._flow.target
            self._report(Mm2TopicFailed(flow=self._flow, topic=self._options.topic, cluster=cluster, what=self.trouble))


async def _encode_in_turns(records: list[Record]) -> bytearray:
    """Encode many small records as one batch, over several turns of the event loop."""
    area, base_ms = bytearray(), records[0].timestamp
    turns = Turns()
    for at in range(0, len(records), _AT_ONCE):
        some = records[at : at + _AT_ONCE]
        area += write_area(some, range(at, at + len(some)), base_ms)
        await turns.rest()
    codec = ZSTD if len(area) >= _WORTH_BYTES else NONE
    return seal(area, codec, len(records), base_ms, max(one.timestamp for one in records))


def _unknown(parts: list[_DueLane]) -> None:
    for part in parts:
        part.emitter.unknown(part.due)
