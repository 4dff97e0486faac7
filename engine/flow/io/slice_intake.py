"""Hands fetched bytes to the lanes of one source broker; batches that take long are encoded again in a thread."""

import asyncio
from functools import partial
from typing import Protocol

import msgspec

from engine.base.errors import WireError
from engine.core.lane.intake import LongWork, Work, queue, sift_all, work_for
from engine.core.lane.stretch_intake import take_in_stretches
from engine.flow.io.buffers import BufferLease, BufferPool
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import FetchEvents
from engine.flow.ports.ports import Slice
from engine.wire.bounded import MAX_INFLATED_BYTES


class Reader(Protocol):
    """Whoever fetches for the lanes."""

    def wake(self) -> None:
        """A lane may be fetched again."""


class IntakeRules(msgspec.Struct, frozen=True):
    """The most bytes that a batch to be encoded again may decompress to; the codec of every target batch.

    `codec` None: a batch keeps its own.
    """

    inflated_bytes: int = MAX_INFLATED_BYTES
    codec: int | None = None


class SliceIntake:
    """Takes in one slice of an answer at a time."""

    def __init__(self, events: FetchEvents, pool: BufferPool, rules: IntakeRules, meter: CopierMetrics) -> None:
        self._events = events
        self._pool = pool
        self._rules = rules
        self._meter = meter
        self._tasks: asyncio.TaskGroup | None = None
        self._reader: Reader | None = None
        self._busy: dict[LaneDriver, None] = {}

    def begin(self, tasks: asyncio.TaskGroup, reader: Reader) -> None:
        """Run long work in `tasks` from now on; `reader` is woken at its end."""
        self._tasks, self._reader = tasks, reader

    def is_busy(self, driver: LaneDriver) -> bool:
        """Whether a thread still works on the lane's last slice: nothing behind it may be taken in."""
        return driver in self._busy

    def answered(self, driver: LaneDriver, found: Slice) -> None:
        """Note the end that an answer reports."""
        driver.end.reported(found.high_watermark, self._meter.fetch_answered())

    def take(self, driver: LaneDriver, buffer: memoryview, found: Slice, lease: BufferLease) -> None:
        """Queue the batches of a slice that the lane wants; report a bad one."""
        lane = driver.lane
        work = work_for(
            lane,
            buffer,
            found.start,
            found.end,
            aborted=found.aborted,
            max_batch_bytes=driver.limit.bytes,
            inflated_bytes=self._rules.inflated_bytes,
            codec=self._rules.codec,
        )
        before = lane.fetched
        try:
            take_in_stretches(lane, work, lease)
        except WireError as error:
            self._events.corrupt(driver, error)
        except LongWork as long:
            assert self._tasks is not None, "nothing is fetched before `begin`"
            assert self._reader is not None, "nothing is fetched before `begin`"
            rest = work.behind(long.at, lane.fetch_offset)
            self._busy[driver] = None
            self._tasks.create_task(self._at_length(driver, rest, lease.retain(), self._reader))
        self._meter.fetched(lane.pieces.tail_ms, lane.fetched - before)

    async def _at_length(self, driver: LaneDriver, work: Work, lease: BufferLease, reader: Reader) -> None:
        """Encode large batches again in a thread, so that the loop serves other lanes; this lane is not fetched.

        One at a time in a copier, because the memory budget does not count what is decompressed.
        """
        lane, producer = driver.lane, driver.producer
        try:
            sifted = await self._pool.work_beside(partial(sift_all, work), lease)
            if lane.listens and lane.fetch_offset == work.wanted and driver.producer is producer:
                before = lane.fetched
                queue(lane, work, sifted.steps, lease)
                self._meter.fetched(lane.pieces.tail_ms, lane.fetched - before)
                if sifted.error is not None:
                    self._events.corrupt(driver, sifted.error)
                self._events.taken([driver])
        finally:
            del self._busy[driver]
            lease.release()
            reader.wake()
