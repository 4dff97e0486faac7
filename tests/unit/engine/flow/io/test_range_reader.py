"""Lanes that are read in ranges: whatever comes in whatever order, the lane gets every batch once, in order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import cast

import msgspec
import pytest

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost, WireError
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import Limits
from engine.core.lane.states import State
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionStream
from engine.flow.io import range_reader
from engine.flow.io.buffers import BufferLease, BufferPool
from engine.flow.io.giving_back import GivingBack
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.io.range_reader import RangeLimits
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.ports.ports import FetchAnswer, FetchFault, FetchOptions, Leader, NoRoom, PartitionFetch, Room, Slice
from engine.flow.ranges import batch_sizes
from engine.flow.turns.fetch_turns import FetchTurns
from engine.wire.batch import read_header
from engine.wire.decode import decode_records
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.lane_events import NoEvents
from tests.fakes.source_log import COMMIT, SourceBatch, SourceLog
from tests.unit.engine.core.positions import position

FLOW = FlowName("A", "B")
NAME = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
NOT_LEADER = FetchFault(74, "FENCED_LEADER_EPOCH", retry=True)
OUT_OF_RANGE = FetchFault(1, "OFFSET_OUT_OF_RANGE", retry=False, out_of_range=True)


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short log have many ranges."""
    monkeypatch.setattr(batch_sizes, "_LEAST_BYTES", 300)
    monkeypatch.setattr(batch_sizes, "_BATCHES", 5)


class Broker:
    """A distant source broker: answers from its log as it is when the answer leaves, after some time."""

    is_stale = False

    def __init__(self, far: "Far") -> None:
        self.far = far
        self.lost = False
        self.closed = False

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        far = self.far
        far.asked.append(list(wanted))
        await asyncio.sleep(far.delays_s.pop(0) if far.delays_s else far.random.uniform(0.05, 0.5))
        if self.lost or far.random.random() < far.loses:
            self.lost = True
            raise ConnectionLost("far:1")
        if not wanted:
            return FetchAnswer(memoryview(b""), [], 0.0)
        (want,) = wanted
        if far.uses_up_quota():
            return FetchAnswer(memoryview(b""), [], 0.2)  # as Kafka: without any partition
        found, data = far.answer(want, min(want.max_bytes, options.max_bytes))
        far.sent_bytes += len(data)
        try:
            buffer = room.room(len(data))
        except NoRoom:
            self.lost = True
            raise ConnectionLost("far:1") from None
        buffer[:] = data
        return FetchAnswer(buffer, [found], 0.0)

    async def close(self) -> None:
        self.far.open -= not self.closed
        self.closed = True


class Far:
    """One lane with a backlog at a distant broker, and what it copies."""

    def __init__(self, seed: int = 0, *, connections: int = 8, budget: int = 8192) -> None:
        self.random = Random(seed)
        self.began_s = now_s()
        self.log = SourceLog()
        self.delays_s: list[float] = []
        """Of the next answers; those behind them take as long as from a distant broker."""
        self.loses = self.throttles = 0.0
        self.quota = 0.0
        """Bytes per second; 0: no limit."""
        self.most_open = 1000
        self.open = self.refused = self.sent_bytes = 0
        self.brokers: list[Broker] = []
        self.asked: list[list[PartitionFetch]] = []
        self.told: list[str] = []
        self.copied: list[int] = []
        self.is_open = self.serves = True
        self.pool = BufferPool(budget, 1024)
        self.turns = FetchTurns(self.pool, self.may_fetch, self.wake)
        self.inbox = Inbox(
            self, self, self.pool, FetchOptions(), InboxLimits(400, ranges=RangeLimits(connections, 900))
        )
        lane = Lane(FLOW, NAME, Limits(queue_bytes=600))
        stream = PositionStream(lane, PositionKeys("A").encode(NAME.source), lambda: 0)
        self.driver = LaneDriver(
            lane, LaneOwnership("s", 1), LaneStreams(stream, TopicPartition("p", 0)), 0, NoEvents()
        )
        lane.own(position(0, 0), barrier_done=True)
        lane.on_position_durable(lane.plan_version)
        self.lane = lane
        self._lead()

    def _lead(self) -> None:
        self.driver.leaders.lead_source(Leader(1, self.log.epochs[-1][0], "id"))

    # --- the source ------------------------------------------------------------------------------------------

    def answer(self, want: PartitionFetch, most: int) -> tuple[Slice, bytes]:
        """Answer as a leader does: it looks at the epoch first, then at the range, then at what was fetched before."""
        log, start = self.log, 0
        epoch = log.epochs[-1][0]

        def say(fault: FetchFault | None = None, diverging: tuple[int, int] | None = None) -> tuple[Slice, bytes]:
            ends = (-1, -1) if fault else (log.end, log.last_stable)
            return Slice(want.partition, 0, 0, *ends, start, [], -1, fault, diverging), b""

        if want.leader_epoch != epoch:
            return say(NOT_LEADER)
        if not log.start <= want.offset <= log.end:
            return say(OUT_OF_RANGE)
        parts = log.parts_at(want.last_epoch, want.offset) if want.last_epoch >= 0 else None
        if parts is not None:
            return say(diverging=parts)
        data, aborted = log.fetch(want.offset, 1000)
        first = read_header(memoryview(data), 0).size_bytes if data else 0
        data = data[: max(first, most)]
        return Slice(want.partition, 0, len(data), log.end, log.last_stable, start, aborted), data

    # --- what the inbox reports ------------------------------------------------------------------------------

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        self.told.append("taken")

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        """Look the leader up, as the failure handler does; a history that parts ends the lane here."""
        self.told.append("parted" if found.diverging else found.fault.name if found.fault else "replica")
        if found.diverging:
            driver.lane.fail()
        self._lead()
        self.inbox.wake()

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        driver.lane.fail()
        self.told.append("corrupt")

    def idle(self, driver: LaneDriver, found: Slice) -> None: ...

    def awake(self, driver: LaneDriver) -> None: ...

    # --- the broker as the router sees it --------------------------------------------------------------------

    def uses_up_quota(self) -> bool:
        """Whether the broker answers nothing because it has sent too much."""
        if self.quota:
            return self.sent_bytes > self.quota * (now_s() - self.began_s + 1.0)
        return self.random.random() < self.throttles

    def may_hold(self, driver: LaneDriver) -> bool:
        return self.is_open

    async def connect(self) -> Broker:
        if self.open >= self.most_open or self.random.random() < self.loses:
            self.refused += 1
            raise BrokerUnreachable("far:1", "down")
        self.open += 1
        self.brokers.append(Broker(self))
        return self.brokers[-1]

    async def connect_beside(self) -> Broker:
        return await self.connect()

    async def back_off(self, attempt: int) -> None:
        await asyncio.sleep(0.1)

    def served(self) -> Sequence[LaneDriver]:
        return [self.driver] if self.serves else []

    def may_fetch(self, driver: LaneDriver) -> bool:
        return self.is_open

    def lost(self) -> None: ...

    def silent(self) -> None:
        self.told.append("silent")

    def wake(self) -> None:
        self.inbox.wake()

    # --- the target ------------------------------------------------------------------------------------------

    def append(self) -> bool:
        """Append what may be sent, as a target that takes everything at once."""
        lane, sent = self.lane, False
        lane.on_position_durable(lane.plan_version)
        while (piece := lane.next_append()) is not None:
            payload = memoryview(bytearray(piece.payload))
            header = read_header(payload, 0)
            records = decode_records(payload, 0, header, "t", 0)
            self.copied += [int(record.key or b"") for record in records]
            lane.on_outcome(piece, Outcome(OutcomeKind.APPENDED, lane.target_next))
            sent = True
        self.inbox.wake()
        return sent

    @property
    def is_ranged(self) -> bool:
        return self.inbox._ranges.holds(self.driver)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.inbox.run())
            yield
            task.cancel()

    async def copy_all(self, most_s: float = 500.0) -> None:
        """Append all that comes until the end of the source is in the target."""
        last = max(self.log.wanted(), default=-1)
        async with asyncio.timeout(most_s):
            while self.lane.source_next <= last and self.lane.state is State.COPYING:
                self.append()
                await asyncio.sleep(0.02)


async def share_sent(far: Far) -> float:
    """Copy all, check it, and return how many times its bytes were sent."""
    data = len(far.log.fetch(0, 1000)[0])
    async with far.running():
        await far.copy_all()
        assert far.copied == far.log.wanted()
    return far.sent_bytes / data


def fill(log: SourceLog, random: Random, count: int) -> None:
    """Append batches of all kinds."""
    for _ in range(count):
        match random.randrange(8):
            case 0:
                log.data(4, holes=frozenset(random.sample(range(4), random.randint(1, 4))))
            case 1:
                log.aborted_data(random.randint(1, 4), 7)
            case 2:
                log.data(2, producer_id=7)
                log.marker(7, COMMIT)
            case 3:
                log.vanish(random.randint(1, 6))
                log.data(1)
            case _:
                log.data(random.randint(1, 4))


async def test_a_backlog_at_a_distance_is_read_over_many_connections() -> None:
    far = Far()
    for _ in range(200):
        far.log.data(2)
    async with far.running():
        await far.copy_all()
        assert far.copied == far.log.wanted()
        assert len(far.brokers) > 4
        assert len(far.brokers) <= 1 + 8
        plan = [asked[0] for asked in far.asked if asked and asked[0].max_bytes != 400]
        assert len(plan) > 20
        assert len({want.offset for want in plan}) == len(plan), "batches that are alike need no rest"
    assert far.pool.used_bytes == 0
    assert all(broker.closed for broker in far.brokers)


@pytest.mark.parametrize("is_elected", [True, False], ids=["another broker leads", "another connection"])
async def test_a_lane_that_moved_begins_no_plan_with_the_answer_of_its_previous_inbox(is_elected: bool) -> None:
    far = Far()
    for _ in range(200):
        far.log.data(2)
    async with far.running():
        await asyncio.sleep(0.01)
        assert len(far.asked) == 1
        far.serves = False
        if is_elected:
            far.driver.leaders.lead_source(Leader(2, far.log.epochs[-1][0] + 1, "id"))
            far.inbox._want(far.driver)  # as the inbox of the new leader's broker does
        await asyncio.sleep(1.0)
        assert far.lane.fetched > 0, "the answer came, and what it brought is as good as before"
        assert not far.is_ranged
        assert len(far.brokers) == 1


async def test_next_door_one_connection_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.flow.io import inbox

    monkeypatch.setattr(inbox, "FAR_S", 10.0)
    far = Far()
    fill(far.log, far.random, 100)
    async with far.running():
        await far.copy_all()
        assert (far.copied, len(far.brokers)) == (far.log.wanted(), 1)


async def test_a_near_broker_that_is_busy_is_read_over_one_connection() -> None:
    far = Far()
    far.delays_s = [0.001]
    fill(far.log, far.random, 200)
    async with far.running():
        await far.copy_all()
        assert (far.copied, len(far.brokers)) == (far.log.wanted(), 1)


async def test_ranges_end_without_loss_once_a_broker_turns_out_to_be_near() -> None:
    far = Far()
    fill(far.log, far.random, 300)
    async with far.running():
        while len(far.asked) < 20:
            await asyncio.sleep(0.01)
            far.append()
        assert far.is_ranged
        far.delays_s = [0.001]
        async with asyncio.timeout(100):
            while far.is_ranged:
                await asyncio.sleep(0.02)
                far.append()
        connections, asked = len(far.brokers), len(far.asked)
        await far.copy_all()
        assert far.copied == far.log.wanted()
        assert len(far.brokers) == connections
        assert len(far.asked) > asked
        assert not far.is_ranged
    assert far.pool.used_bytes == 0


async def test_a_broker_that_answers_at_once_no_more_is_read_in_ranges_after_a_while() -> None:
    far = Far()
    far.delays_s = [0.001]
    for _ in range(1500):
        far.log.data(2)
    async with far.running():
        while len(far.brokers) <= 1:
            assert not far.is_ranged
            far.append()
            await asyncio.sleep(0.02)
        assert 15.0 <= now_s() - far.began_s <= 31.0
        await far.copy_all()
        assert far.copied == far.log.wanted()


@pytest.mark.parametrize("seed", range(4))
async def test_a_broker_that_is_now_near_and_now_far_costs_no_record(seed: int) -> None:
    far = Far(seed)
    fill(far.log, far.random, 120)
    far.loses, far.throttles = 0.02, 0.05
    async with far.running():
        async with asyncio.timeout(500):
            while far.lane.source_next <= max(far.log.wanted()) and far.lane.state is State.COPYING:
                if far.random.random() < 0.02:
                    far.delays_s = [far.random.choice([0.001, 0.3]) for _ in range(far.random.randint(1, 5))]
                far.append()
                await asyncio.sleep(0.02)
        assert far.copied == far.log.wanted()
    assert far.pool.used_bytes == 0


async def test_with_one_connection_nothing_is_read_in_ranges() -> None:
    far = Far(connections=1)
    fill(far.log, far.random, 100)
    async with far.running():
        await far.copy_all()
        assert (far.copied, len(far.brokers)) == (far.log.wanted(), 1)


async def test_a_lane_that_is_rewound_reads_again_from_where_it_is() -> None:
    far = Far()
    fill(far.log, far.random, 200)
    async with far.running():
        for _ in range(300):
            await asyncio.sleep(0.05)
            if far.is_ranged and far.random.random() < 0.2:
                far.lane.rewind()
                far.inbox.wake()
            elif far.random.random() < 0.7:
                far.append()
        await far.copy_all()
        assert far.copied == far.log.wanted()
    assert far.pool.used_bytes == 0


async def test_a_paused_lane_holds_no_memory() -> None:
    far = Far()
    for _ in range(300):
        far.log.data(2)
    async with far.running():
        async with asyncio.timeout(100):
            while not far.is_ranged:
                far.append()
                await asyncio.sleep(0.02)
        far.lane.paused = True
        far.lane.rewind()
        far.inbox.wake()
        await asyncio.sleep(5.0)
        assert not far.is_ranged
        assert far.pool.used_bytes == 0
        far.lane.paused = False
        far.inbox.wake()
        await far.copy_all()
        assert far.copied == far.log.wanted()


class OneStuck:
    """The users of the memory of a lane that cannot send."""

    def __init__(self, stuck: Far) -> None:
        self.stuck = stuck

    def can_send(self, driver: LaneDriver) -> bool:
        return driver is not self.stuck.driver

    def wake(self, driver: LaneDriver) -> None:
        self.stuck.inbox.wake()

    def copy_out(self, after_s: float) -> None: ...


async def test_ranges_that_have_arrived_are_dropped_when_their_lane_gives_its_memory_back() -> None:
    """Nothing else would wake their reader: all has arrived, and the lane sends nothing."""
    far, other = Far(), Far()  # the other lane could use the memory
    for _ in range(400):
        far.log.data(2)
    lanes = {NAME.source: far.driver, TopicPartition("t", 1): other.driver}
    giving_back = GivingBack(far.pool, lanes, OneStuck(far))
    async with far.running(), asyncio.TaskGroup() as group:
        half = far.pool.budget_bytes // 2
        while not (far.is_ranged and far.pool.used_bytes > half and not far.inbox._ranges._in_use):
            if far.lane.fetched < 60:
                far.append()
            await asyncio.sleep(0.02)
        far.is_open = False
        leased: list[BufferLease] = []

        async def lease_all() -> None:
            while True:
                leased.append(await far.pool.lease())

        tasks = [group.create_task(giving_back.run()), group.create_task(lease_all())]
        await asyncio.sleep(5.0)
        assert not far.is_ranged
        assert len(leased) == far.pool.budget_bytes // 1024
        for task in tasks:
            task.cancel()


async def test_what_a_lane_may_not_send_is_not_read() -> None:
    far = Far()
    for _ in range(300):
        far.log.data(2)
    async with far.running():
        await asyncio.sleep(0.01)
        while not far.is_ranged:
            far.append()
            await asyncio.sleep(0.02)
        far.is_open = False
        await asyncio.sleep(5.0)
        far.inbox.wake()
        await asyncio.sleep(1.0)
        asked = len(far.asked)
        await asyncio.sleep(10.0)
        assert len(far.asked) == asked
        far.is_open = True
        far.inbox.wake()
        await far.copy_all()
        assert far.copied == far.log.wanted()


async def test_an_election_between_two_answers_ends_the_plan_before_anything_of_another_history_is_taken() -> None:
    """What was lost in an unclean election, and written again at the same offsets, must not be mixed."""
    seen = 0
    for seed in range(60):
        far = Far(seed)
        for _ in range(150):
            far.log.data(far.random.randint(1, 3))
        async with far.running():
            async with asyncio.timeout(500):
                while not far.is_ranged:
                    far.append()
                    await asyncio.sleep(0.02)
            await asyncio.sleep(far.random.uniform(0.0, 1.5))
            fetched = far.lane.fetch_offset
            cut = next(b.base for b in far.log.batches if b.base > fetched + far.random.randrange(60))
            far.log.truncate(cut)
            old_end = far.lane.source_leader_epoch
            for _ in range(60):
                far.log.data(far.random.randint(1, 3))
            wanted = far.log.wanted()
            await far.copy_all()
            seen += far.told.count(NOT_LEADER.name) > 0
            if far.lane.state is State.COPYING:
                assert far.copied == wanted, seed
                assert far.lane.source_leader_epoch > old_end
            else:
                assert "parted" in far.told, seed
        far.lane.discard()
        assert far.pool.used_bytes == 0
    assert seen > 20


@pytest.mark.parametrize("start", range(0, 200, 50))
async def test_whatever_happens_every_batch_comes_once_and_in_order(start: int) -> None:
    ranged = 0
    for seed in range(start, start + 50):
        far = Far(seed, connections=1 + seed % 9, budget=(4096, 8192, 40_000)[seed % 3])
        random = far.random
        far.loses, far.throttles = random.choice((0.0, 0.05)), random.choice((0.0, 0.1))
        fill(far.log, random, 120)
        async with far.running():
            for _ in range(random.randint(50, 250)):
                await asyncio.sleep(random.choice((0.0, 0.02, 0.2)))
                ranged += far.is_ranged
                roll = random.random()
                if roll < 0.5:
                    far.append()
                elif roll < 0.55:
                    far.lane.rewind()
                    far.inbox.wake()
                elif roll < 0.57:
                    fill(far.log, random, 10)
                elif roll < 0.58:
                    far.log.lead_anew()
                elif roll < 0.6:
                    far.is_open = not far.is_open
                    far.inbox.wake()
            far.is_open = True
            far.inbox.wake()
            await far.copy_all()
            assert far.copied == far.log.wanted(), seed
        assert far.pool.used_bytes == 0, seed
        assert all(broker.closed for broker in far.brokers), seed
    assert ranged > 50


@pytest.mark.parametrize("counts", [(1, 1), (1, 4)])
@pytest.mark.parametrize("hole", [9, 99])
async def test_a_compacted_log_is_not_fetched_many_times(counts: tuple[int, int], hole: int) -> None:
    far = Far(budget=40_000)
    for _ in range(300):
        far.log.data(far.random.randint(*counts))
        far.log.vanish(hole * counts[1])
    assert await share_sent(far) < 2


@pytest.mark.parametrize("connections", [1, 8, 64])
async def test_a_quota_is_used_for_what_is_copied(connections: int) -> None:
    far = Far(connections=connections, budget=40_000)
    for _ in range(400):
        far.log.data(far.random.randint(1, 4))
    far.quota = 1500.0
    assert await share_sent(far) < 1.6


async def test_a_broker_that_limits_connections_is_read_over_those_that_it_accepts() -> None:
    far = Far(connections=64, budget=40_000)
    for _ in range(400):
        far.log.data(far.random.randint(1, 4))
    far.most_open = 6
    assert await share_sent(far) < 1.6
    assert far.refused < 100


async def test_a_lost_connection_costs_its_range_and_not_the_others() -> None:
    far = Far(budget=40_000)
    for _ in range(400):
        far.log.data(far.random.randint(1, 4))
    data = len(far.log.fetch(0, 1000)[0])
    async with far.running():
        for _ in range(20):
            await asyncio.sleep(0.3)
            far.append()
            if len(far.brokers) > 3:
                far.random.choice(far.brokers[1:]).lost = True
        await far.copy_all()
        assert far.copied == far.log.wanted()
    assert far.sent_bytes < 1.6 * data


async def test_connections_that_no_lane_needs_are_closed_after_a_while() -> None:
    far = Far()
    for _ in range(200):
        far.log.data(2)
    async with far.running():
        await far.copy_all()
        await asyncio.sleep(range_reader._LINGER_S + 5.0)
        assert [broker.closed for broker in far.brokers].count(False) == 1


async def test_a_corrupt_batch_ends_the_lane_where_it_is() -> None:
    far = Far()
    for _ in range(200):
        far.log.data(2)
    bad = msgspec.structs.replace(far.log.batches[150])
    whole = type(bad).encode(bad)
    far.log.batches[150] = cast("SourceBatch", _Spoilt(bad, whole))
    async with far.running():
        await far.copy_all()
        assert "corrupt" in far.told
        assert far.copied == list(range(len(far.copied)))
        assert 200 < len(far.copied) <= 300
    far.lane.discard()
    assert far.pool.used_bytes == 0


class _Spoilt:
    """A batch whose bytes do not fit its checksum."""

    def __init__(self, batch: object, whole: bytes) -> None:
        self.batch = batch
        self.data = whole[:-1] + bytes([whole[-1] ^ 1])

    def __getattr__(self, name: str) -> object:
        return getattr(self.batch, name)

    def encode(self, *, late: bool = False) -> bytes:
        return self.data
