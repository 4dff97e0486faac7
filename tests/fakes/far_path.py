"""A source broker behind a path: a round trip, a window per connection, and what the path carries, in virtual time.

The log has batches of bytes that need no memory of their own. Everything is `SCALE` times smaller than on a real path:
sizes, rates, and the memory of the copier.
"""

import asyncio
import struct
from bisect import bisect_right
from collections.abc import Sequence
from random import Random

from engine.base.clock import now_s
from engine.base.errors import ConnectionLost
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import Limits
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionStream
from engine.flow.io.buffers import BufferPool
from engine.flow.io.far_paths import RangePath
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.io.range_reader import RangeLimits
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.ports.ports import FetchAnswer, FetchOptions, Leader, NoRoom, PartitionFetch, Room, Slice
from engine.flow.turns.fetch_turns import FetchTurns
from engine.wire.encode import seal, write_area
from engine.wire.record import Record
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.lane_events import NoEvents
from tests.unit.engine.core.positions import position

SCALE = 16
KIB = 1024 // SCALE
MIB = 1024 * KIB
EPOCH = 4
_RECORDS = 60
_BORN_MS = 1_700_000_000_000
_LOOK_S = 0.01
"""Seconds between two looks of the target."""
_CHUNKS = 2
"""A window has as many chunks, each of which is acknowledged by itself."""


def _batch(size: int, count: int) -> bytes:
    value = bytes(max(1, size // count - 12))
    records = [Record(index, _BORN_MS, None, value) for index in range(count)]
    batch = seal(write_area(records, list(range(count)), _BORN_MS), 0, count, _BORN_MS, _BORN_MS, (-1, -1, -1))
    struct.pack_into(">i", batch, 12, EPOCH)
    return bytes(batch)


class FarLog:
    """Batches of about the same size, of which each has another number of records."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._kinds: list[tuple[bytes, int]] = []
        self._bases: list[int] = []
        self._batches: list[bytes] = []
        self.end = 0

    def fill(self, size: int, batch_bytes: int, spread: float = 0.05) -> None:
        """Append batches of `batch_bytes` until they have `size` bytes."""
        kinds = []
        for _ in range(40):
            factor = max(0.1, self._random.gauss(1.0, spread))
            count = max(2, int(_RECORDS * factor * self._random.uniform(0.97, 1.03)))
            kinds.append((_batch(int(batch_bytes * factor), count), count))
        while size > 0:
            batch, count = self._random.choice(kinds)
            self._bases.append(self.end)
            self._batches.append(batch)
            self.end += count
            size -= len(batch)

    def read(self, offset: int, most_bytes: int) -> bytes:
        """Return what a broker answers: from the batch that holds the offset on, the first one whole."""
        first = at = bisect_right(self._bases, offset) - 1
        data = bytearray()
        while at < len(self._bases) and (at == first or len(data) < most_bytes):
            begins = len(data)
            data += self._batches[at]
            struct.pack_into(">q", data, begins, self._bases[at])
            at += 1
        return bytes(data[: max(len(self._batches[first]), most_bytes)])


class Path:
    """What is between the copier and the broker. Rates in bytes per second; `window`: bytes, 0 for none."""

    def __init__(self, *, trip_s: float = 0.1, window: int = 0, rate: float = 400 * MIB) -> None:
        self.trip_s, self.window, self.rate = trip_s, window, rate
        self.free_s = 0.0
        """When the path can carry more."""
        self.carried_bytes = 0


class FarConnection:
    """One connection over the path."""

    is_stale = False

    def __init__(self, path: Path, logs: dict[TopicPartition, FarLog]) -> None:
        self._path, self._logs = path, logs

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        """Answer for the partitions in order, until the answer is full."""
        data, slices = bytearray(), []
        for want in wanted:
            log, begins = self._logs[want.partition], len(data)
            most = min(want.max_bytes, options.max_bytes - begins)
            if most > 0 and want.offset < log.end:
                data += log.read(want.offset, most)
            slices.append(Slice(want.partition, begins, len(data), log.end, log.end, 0, []))
        if not data:
            await asyncio.sleep(self._path.trip_s + options.max_wait_s)
            return FetchAnswer(memoryview(b""), slices, 0.0)
        await asyncio.sleep(self._path.trip_s / 2)
        buffer = await self._send(data, room)
        buffer[:] = data
        return FetchAnswer(buffer, slices, 0.0)

    async def _send(self, data: bytearray, room: Room) -> memoryview:
        """Send as much as the window lets, until all has arrived; the memory is taken when the first bytes arrive."""
        path, left = self._path, len(data)
        acknowledged: list[float] = []
        most = path.window // _CHUNKS if path.window else 128 * KIB
        arrives: list[float] = []
        while left:
            if path.window and len(acknowledged) == _CHUNKS:
                await _until(acknowledged.pop(0))
            size = min(left, most)
            path.free_s = max(path.free_s, now_s()) + size / path.rate
            arrives.append(path.free_s + path.trip_s / 2)
            acknowledged.append(path.free_s + path.trip_s)
            path.carried_bytes += size
            left -= size
            if len(arrives) == 1:
                taking = asyncio.create_task(self._take(arrives[0], len(data), room))
            elif taking.done():
                taking.result()
        buffer = await taking
        await _until(arrives[-1])
        return buffer

    @staticmethod
    async def _take(at_s: float, size: int, room: Room) -> memoryview:
        await _until(at_s)
        try:
            return room.room(size)
        except NoRoom:
            raise ConnectionLost("far:1") from None

    async def close(self) -> None:
        """Nothing is left open."""


async def _until(at_s: float) -> None:
    if (left_s := at_s - now_s()) > 0:
        await asyncio.sleep(left_s)


class FarCopy:
    """Lanes of a copier that read over a path, and a target that takes `target_rate` bytes per second."""

    def __init__(
        self, path: Path, *, lanes: int = 1, budget_bytes: int = 64 * MIB, target_rate: float = 400 * MIB
    ) -> None:
        self.path, self.random = path, Random(1)
        self.meter = CopierMetrics()
        self.pool = BufferPool(budget_bytes, 2 * MIB)
        self.turns = FetchTurns(self.pool, self.may_fetch, self.wake)
        ranges = RangeLimits(64, min(8 * MIB, budget_bytes // 8))
        self.inbox = Inbox(
            self, self, self.pool, FetchOptions(max_bytes=4 * MIB), InboxLimits(512 * KIB, ranges=ranges), self.meter
        )
        self.drivers = [self._driver(partition) for partition in range(lanes)]
        self.logs = {driver.lane.name.source: FarLog(self.random) for driver in self.drivers}
        self.copied_bytes = self.opened = 0
        self.most_used_bytes = 0
        self.seen: RangePath | None = None
        """The path as the reader of ranges knows it at the end of the run; None if it reads none."""
        self._target_rate, self._credit = target_rate, 0.0

    @staticmethod
    def _driver(partition: int) -> LaneDriver:
        name = LaneName(TopicPartition("t", partition), TopicPartition("A.t", partition))
        lane = Lane(FlowName("A", "B"), name, Limits(queue_bytes=MIB))
        stream = PositionStream(lane, PositionKeys("A").encode(name.source), lambda: 0)
        streams = LaneStreams(stream, TopicPartition("p", 0))
        driver = LaneDriver(lane, LaneOwnership("s", 1), streams, 0, NoEvents())
        lane.own(position(0, 0), barrier_done=True)
        lane.on_position_durable(lane.plan_version)
        driver.leaders.lead_source(Leader(1, EPOCH, "id"))
        return driver

    def fill(self, size: int, batch_bytes: int, spread: float = 0.05) -> None:
        """Give each lane a backlog of `size` bytes."""
        for log in self.logs.values():
            log.fill(size, batch_bytes, spread)

    async def run(self, seconds: float) -> float:
        """Copy for so many seconds after the first record, or until all is copied; return the bytes per second."""
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self.inbox.run())
            while not self._append(_LOOK_S):  # noqa: ASYNC110 (the target looks at intervals)
                await asyncio.sleep(_LOOK_S)
            began_s, before = now_s(), self.copied_bytes
            while now_s() - began_s < seconds and not self.is_done:
                await asyncio.sleep(_LOOK_S)
                self._append(_LOOK_S)
            rate = (self.copied_bytes - before) / (now_s() - began_s)
            self.seen = self.inbox._ranges.path_of(self.drivers[0])
            reading.cancel()
        return rate

    @property
    def is_done(self) -> bool:
        """Whether all is copied."""
        return all(
            driver.lane.idle and driver.lane.fetch_offset >= self.logs[driver.lane.name.source].end
            for driver in self.drivers
        )

    def _append(self, seconds: float) -> int:
        self.most_used_bytes = max(self.most_used_bytes, self.pool.used_bytes)
        self._credit = min(self._credit + seconds * self._target_rate, 0.04 * self._target_rate)
        copied, moved = 0, True
        while moved and copied < self._credit:
            moved = False
            for driver in self.drivers:
                driver.lane.on_position_durable(driver.lane.plan_version)
                piece = driver.lane.next_append()
                if piece is not None:
                    copied, moved = copied + len(piece.payload), True
                    driver.lane.on_outcome(piece, Outcome(OutcomeKind.APPENDED, driver.lane.target_next))
        self._credit -= copied
        self.copied_bytes += copied
        self.inbox.wake()
        return copied

    # --- the broker as the router sees it, and what the inbox reports ------------------------------------------

    async def connect(self) -> FarConnection:
        """Open a connection: a handshake, and a first question."""
        await asyncio.sleep(2 * self.path.trip_s)
        self.opened += 1
        return FarConnection(self.path, self.logs)

    async def connect_beside(self) -> FarConnection:
        """Open another connection."""
        return await self.connect()

    async def back_off(self, attempt: int) -> None:
        """Wait before another attempt."""
        await asyncio.sleep(0.1)

    def served(self) -> Sequence[LaneDriver]:
        """Return all lanes."""
        return self.drivers

    def may_fetch(self, driver: LaneDriver) -> bool:
        """Always."""
        return True

    def may_hold(self, driver: LaneDriver) -> bool:
        """Always."""
        return True

    def lost(self) -> None:
        """Ignore it."""

    def silent(self) -> None:
        """Ignore it."""

    def wake(self) -> None:
        """Fetch a lane again."""
        self.inbox.wake()

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        """Ignore it: the target looks at intervals."""

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        """Fail: the broker refuses nothing."""
        raise AssertionError(found)

    def corrupt(self, driver: LaneDriver, error: Exception) -> None:
        """Fail: the log is sound."""
        raise error

    def idle(self, driver: LaneDriver, found: Slice) -> None:
        """Ignore it."""

    def awake(self, driver: LaneDriver) -> None:
        """Ignore it."""
