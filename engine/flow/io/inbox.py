"""Fetches from one source broker, one fetch ahead, for the lanes there that have room."""

import asyncio
from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from engine.base.clock import Turns, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.lane.states import State
from engine.flow.io.buffers import BufferLease, BufferPool
from engine.flow.io.far_paths import FAR_S, source_bound
from engine.flow.io.range_reader import FULL, RangeLimits, RangeReader
from engine.flow.io.silence import SILENT_S, watched
from engine.flow.io.slice_intake import IntakeRules, SliceIntake
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_events import FetchEvents
from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch, Slice, SourceBroker
from engine.flow.turns.fetch_turns import FetchTurns
from policies.model import TopicPartition

_SHORT_WAIT_S = 0.02
"""Seconds that a fetch may wait at the broker while another lane only waits for room, or for its owner."""
_REST_OF_LOOKS, _LONG_LOOK_S = 3, 0.01
"""While lanes only get their owners, no look at all lanes begins for so many times as long as the last one took, if
that was long: of tens of thousands of lanes. A rest after a short one would only delay records."""
_LOOK_AGAIN_S = 5.0
"""A look at lanes at rest is used again for so many seconds, if none has anything new: whatever changes wakes the
inbox, and this bounds what an oversight would cost. A look at thousands of lanes takes 30 ms."""
_MUCH = 1.5
"""A large buffer is worth its memory if the answer may be so many times as large as what fits into another one."""
_LANES = 100
"""So many lanes are looked at without a rest, which takes 0.3 ms."""
_SOON_S = 3.0
"""A lane usually gets its owner within this many seconds; a lane that takes longer may wait for a fetch to end."""


class InboxLimits(msgspec.Struct, frozen=True):
    """Most bytes of one partition in one fetch, and the rules for the batches that arrive.

    `ranges`: limits of the lanes that are read in ranges; none with one connection.
    """

    partition_bytes: int
    intake: IntakeRules = IntakeRules()
    ranges: RangeLimits = RangeLimits(1, 0)


class _Look(msgspec.Struct, frozen=True):
    """What a look at all lanes found: what to fetch, whether no other lane waits for it, how long it took, and when."""

    wanted: dict[PartitionFetch, LaneDriver]
    patient: bool
    took_s: float
    at_s: float


class FetchSide(Protocol):
    """The broker that an inbox fetches from, as the router sees it."""

    async def connect(self) -> SourceBroker:
        """Open a connection. Raises BrokerUnreachable, ConnectionLost."""

    async def back_off(self, attempt: int) -> None:
        """Wait before another attempt to connect."""

    def served(self) -> Collection[LaneDriver]:
        """Return the lanes to be fetched from this broker."""

    def may_fetch(self, driver: LaneDriver) -> bool:
        """Whether what is fetched could be sent."""

    def may_hold(self, driver: LaneDriver) -> bool:
        """Whether the lane may hold what was fetched for it."""

    @property
    def turns(self) -> FetchTurns:
        """Which lanes may be fetched now, by bandwidth and priority."""

    async def connect_beside(self) -> SourceBroker:
        """Open another connection, without a fetch session. Raises BrokerUnreachable, ConnectionLost."""

    def lost(self) -> None:
        """The connection is lost, or could not be opened."""

    def silent(self) -> None:
        """The broker takes requests and answers none."""

    def wake(self) -> None:
        """A lane is to be fetched by the inbox again."""


class Inbox:
    """The inbox of one broker."""

    def __init__(
        self,
        side: FetchSide,
        events: FetchEvents,
        pool: BufferPool,
        options: FetchOptions,
        limits: InboxLimits,
        meter: CopierMetrics | None = None,
    ) -> None:
        self._side = side
        self._events = events
        self._pool = pool
        self._options = options
        self._partition_bytes = limits.partition_bytes
        self._meter = meter or CopierMetrics()
        self._intake = SliceIntake(events, pool, limits.intake, self._meter)
        self._ranges = RangeReader(side, events, pool, options, limits.ranges, self._meter)
        self.connected = False
        self.throttled = False
        """Whether the broker's quota delays the next fetch."""
        self._wake = asyncio.Event()
        self._turn = 0
        self._was_full = False
        """Whether the last answer had nearly all bytes that were asked for: its broker has a backlog."""
        self._holds_back = False
        """Whether bandwidth or priority keeps lanes out of the present fetch."""
        self._open: dict[TopicPartition, Slice] = {}
        """The last slice of each partition with an open transaction, until its lane knows that it has ended."""

    def wake(self) -> None:
        """A lane may have room now."""
        self._wake.set()
        self._ranges.wake()

    def bound(self, driver: LaneDriver) -> str:
        """Return why the lane is fetched no faster, if distance is the reason; else empty."""
        path = self._ranges.path_of(driver)
        return source_bound(driver.leaders.source_node, path, wants_more=driver.lane.wants_fetch)

    def forget(self, driver: LaneDriver) -> None:
        """Drop what is on its way for a lane that is fetched elsewhere now."""
        self._ranges.forget(driver)
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled; a lost connection is opened again."""
        async with asyncio.TaskGroup() as tasks:
            self._intake.begin(tasks, self)
            self._ranges.begin(tasks, self._intake)
            try:
                await self._connected()
            finally:
                await self._ranges.close()

    async def _connected(self) -> None:
        attempt = 0
        while True:
            try:
                broker = await self._side.connect()
                attempt = 0
                self.connected = True
                self._open.clear()  # a new connection's first fetch reports every partition
                try:
                    await self._fetch(broker)
                finally:
                    self.connected = self.throttled = False
                    await broker.close()
            except (BrokerUnreachable, ConnectionLost):
                attempt += 1
                self._side.lost()
                await self._side.back_off(attempt)

    async def _fetch(self, broker: SourceBroker) -> None:
        """Fetch on one connection; return if it was idle for too long to be used again. Raises ConnectionLost."""
        resting: _Look | None = None
        while True:
            lease = await self._pool.lease()
            try:
                look, resting = await self._look(resting), None
                wanted = look.wanted
                rest_s = _REST_OF_LOOKS * look.took_s if look.took_s >= _LONG_LOOK_S else 0.0
                if wanted and broker.is_stale:
                    return
                if wanted:
                    wait_s = self._options.max_wait_s if look.patient else max(_SHORT_WAIT_S, rest_s)
                    if self._holds_back:
                        wait_s = min(wait_s, max(_SHORT_WAIT_S, self._side.turns.due_s()))
                    if self._was_full and self._fills_more(wanted, lease):
                        lease.widen()
                    most_bytes = min(self._options.max_bytes, lease.answer_bytes)
                    options = msgspec.structs.replace(self._options, max_wait_s=wait_s, max_bytes=most_bytes)
                    asked_s = now_s()
                    with watched(self._side, wait_s + SILENT_S):
                        answer = await broker.fetch(list(wanted), options, lease)
                    self._was_full = len(answer.buffer) >= FULL * most_bytes
                    self._deliver(answer, lease, wanted, asked_s)
                    if look.patient and not (self._holds_back or answer.slices or answer.throttle_s):
                        resting = look
            finally:
                lease.release()
            if not wanted:
                await self._wake.wait()
                if rest_s:
                    await pause(rest_s)
            elif answer.throttle_s:
                self.throttled = True
                await pause(answer.throttle_s)  # the broker's quota (KIP-219: it mutes the connection that long anyway)
                self.throttled = False

    async def _look(self, resting: _Look | None) -> _Look:
        """Look at all lanes, unless the last look found them at rest, and they still are."""
        if resting is not None and self._still_rests(resting):
            return resting
        self._wake.clear()
        began_s = now_s()
        wanted, patient = await self._wanted()
        at_s = now_s()
        return _Look(wanted, patient, at_s - began_s, at_s)

    def _still_rests(self, look: _Look) -> bool:
        """Whether lanes at rest want what they wanted: none was woken, joined or left, and one of them may be asked."""
        if self._wake.is_set() or self._pool.is_spent or now_s() - look.at_s >= _LOOK_AGAIN_S:
            return False
        return self._side.may_fetch(next(iter(look.wanted.values())))

    def _comes_back(self, driver: LaneDriver) -> bool:
        """Whether a lane that is read in ranges will probably want a fetch in a moment: its broker is near."""
        return self._ranges.trip.is_near and self._side.may_fetch(driver)

    def _fills_more(self, wanted: Iterable[PartitionFetch], lease: BufferLease) -> bool:
        """Whether the answer could be much larger than what the lease has room for."""
        most_bytes = min(self._options.max_bytes, sum(want.max_bytes for want in wanted))
        return most_bytes > _MUCH * lease.answer_bytes

    async def _wanted(self) -> tuple[dict[PartitionFetch, LaneDriver], bool]:
        """Choose the partitions of the next fetch, in a rotated order (a broker fills an answer in request order).

        Other tasks may run after each hundred lanes. A lane that has moved since then gets an answer that nobody takes.

        The last buffer is for lanes that have little to send. A lane with a long backlog of small batches needs seconds
        to send one buffer: a few such lanes would hold all buffers, and healthy lanes would stop.
        """
        wanted: dict[PartitionFetch, LaneDriver] = {}
        patient = True
        is_last = self._pool.is_spent
        self._holds_back = False
        turns, rests = self._side.turns, Turns()
        for number, driver in enumerate(tuple(self._side.served())):
            if number >= _LANES:
                if number % _LANES == 0:
                    await rests.rest()
                if driver not in self._side.served():
                    continue
            lane = driver.lane
            if self._ranges.holds(driver):
                patient = patient and not self._comes_back(driver)
                continue
            if self._intake.is_busy(driver) or not self._side.may_fetch(driver):
                continue
            if lane.wants_fetch:
                if turns.holds_back(driver):
                    self._holds_back = True
                    continue
                if not is_last or lane.queued_bytes <= self._partition_bytes:
                    wanted[self._want(driver)] = driver
                    continue
                self._pool.ration()
            if _is_soon_ready(driver):
                patient = False
        if len(wanted) > 1:
            self._turn = (self._turn + 1) % len(wanted)
            rows = list(wanted.items())
            wanted = dict(rows[self._turn :] + rows[: self._turn])
        return wanted, patient

    def _want(self, driver: LaneDriver) -> PartitionFetch:
        """Return the lane's next fetch; the same object as before if nothing has changed, as for most lanes."""
        lane, said = driver.lane, driver.want
        most_bytes = self._side.turns.most_bytes(driver, self._partition_bytes)
        if (
            said is None
            or said.max_bytes != most_bytes
            or said.offset != lane.fetch_offset
            or said.leader_epoch != driver.leaders.source.epoch
            or said.last_epoch != lane.source_leader_epoch
        ):
            said = driver.want = PartitionFetch(
                lane.name.source,
                lane.fetch_offset,
                driver.leaders.source.epoch,
                lane.source_leader_epoch,
                most_bytes,
            )
        return said

    def _deliver(
        self, answer: FetchAnswer, lease: BufferLease, wanted: dict[PartitionFetch, LaneDriver], asked_s: float
    ) -> None:
        answered_s = now_s()
        began_s, took_s = answered_s if lease.began_s is None else lease.began_s, answered_s - asked_s
        told = {found.partition for found in answer.slices}.union(self._open)
        asked = {want.partition: (want, driver) for want, driver in wanted.items() if want.partition in told}
        touched: list[LaneDriver] = []
        now_ms = self._meter.fetch_answered()
        if answer.slices or not answer.throttle_s:  # else a quota is used up, and the answer reports no partition
            self._note_unchanged(answer, wanted, now_ms)
        for found in answer.slices:
            want, driver = asked[found.partition]
            lane = driver.lane
            self._side.turns.received(driver, found.end - found.start, self._options.end_in(found))
            self._note(driver, found, now_ms)
            if not lane.listens or lane.fetch_offset != want.offset:
                continue  # the lane has moved since the request, and will fetch from its new offset
            if found.fault is not None or found.diverging is not None or found.preferred_replica >= 0:
                self._events.fault(driver, found)
            elif found.start < found.end and lane.state is State.WATCHING:
                self._events.awake(driver)
            elif found.start < found.end:
                self._intake.take(driver, answer.buffer, found, lease)
                touched.append(driver)
                if found.end - found.start >= FULL * want.max_bytes:
                    self._ranges.trip.began_after(began_s - asked_s, began_s)
                if took_s >= FAR_S and driver in self._side.served():  # else another inbox fetches for it by now
                    self._ranges.consider(driver, want, found, answer.buffer, took_s)
            elif found.partition not in self._open:
                self._events.idle(driver, found)
        if self._open:
            self._look_at_open({partition: driver for partition, (_, driver) in asked.items()})
        self._events.taken(touched)

    @staticmethod
    def _note_unchanged(answer: FetchAnswer, wanted: dict[PartitionFetch, LaneDriver], now_ms: int) -> None:
        """Note that partitions which the answer leaves out have the same ends as before."""
        failed = {found.partition for found in answer.slices if not _tells_end(found)}
        for want, driver in wanted.items():
            if want.partition not in failed:
                driver.end.stands(now_ms)

    def _note(self, driver: LaneDriver, found: Slice, now_ms: int) -> None:
        """Store what a broker reports only once, even if the lane has moved since the request."""
        if not _tells_end(found):
            driver.end.doubt()
        else:
            driver.end.reported(found.high_watermark, now_ms)
            if found.last_stable_offset < found.high_watermark or found.partition in self._open:
                self._open[found.partition] = found

    def _look_at_open(self, asked: dict[TopicPartition, LaneDriver]) -> None:
        """Remind lanes of their open transactions: a broker reports an unchanged partition only once."""
        for partition, found in list(self._open.items()):
            driver = asked.get(partition)
            if driver is None:
                del self._open[partition]  # not asked for, so its next fetch reports all again
            elif driver.lane.listens:
                self._events.idle(driver, found)
                if found.last_stable_offset >= found.high_watermark:
                    del self._open[partition]


def _tells_end(found: Slice) -> bool:
    """Whether the broker reported the partition's end."""
    return found.fault is None and found.high_watermark >= 0


def _is_soon_ready(driver: LaneDriver) -> bool:
    """Whether a lane that cannot be fetched now will probably want a fetch in a moment."""
    if driver.lane.state is State.ACQUIRING:
        return now_s() - driver.attempts.needed_at_s < _SOON_S
    return driver.lane.state is State.COPYING and not driver.lane.paused
