"""One inbox: its requests, and which answers it accepts."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from engine.base import clock
from engine.base.errors import BrokerUnreachable, WireError
from engine.core.lane import intake
from engine.core.lane.intake import Sifted, Work, sift_all
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import Limits
from engine.core.lane.states import State
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionStream
from engine.flow.io import inbox, slice_intake
from engine.flow.io.buffers import BUFFER_BYTES, BufferPool
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.io.slice_intake import IntakeRules
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.ports.ports import FetchAnswer, FetchFault, FetchOptions, Leader, Slice
from engine.flow.turns.fetch_turns import FetchTurns
from engine.wire.codecs import GZIP
from engine.wire.encode import seal, write_area
from engine.wire.record import Record
from policies.model import FlowName, LaneName, TopicPartition
from policies.traffic import BandwidthRule, Priority, PriorityRule, TrafficRules
from tests.fakes.brokers import HeldSource, turns
from tests.fakes.lane_events import NoEvents
from tests.fakes.source_log import LEADER_EPOCH, SourceLog
from tests.unit.engine.core.positions import position

FLOW = FlowName("A", "B")
TERMS = FetchOptions(max_wait_s=0.5)
BUFFERS = 4


def driver_of(partition: int, *, owned: bool = True) -> LaneDriver:
    name = LaneName(TopicPartition("t", partition), TopicPartition("A.t", partition))
    lane = Lane(FLOW, name, Limits(queue_bytes=1))
    stream = PositionStream(lane, PositionKeys("A").encode(name.source), lambda: 0)
    streams = LaneStreams(stream, TopicPartition("p", 0))
    driver = LaneDriver(lane, LaneOwnership("s", 1), streams, 0, NoEvents())
    if owned:
        lane.own(position(0, 0), barrier_done=True)
        lane.on_position_durable(lane.plan_version)
    driver.leaders.lead_source(Leader(1, 9, "id"))
    return driver


class Desk:
    """An inbox over three lanes, with everything it tells."""

    def __init__(self, lanes: int = 3) -> None:
        self.drivers = [driver_of(index) for index in range(lanes)]
        self.brokers: list[HeldSource] = []
        self.unreachable = 0
        self.blocked: set[LaneDriver] = set()
        self.told: list[tuple[str, object]] = []
        self.pauses: list[int] = []
        self.pool = BufferPool(BUFFERS * BUFFER_BYTES)
        self.turns = FetchTurns(self.pool, self.may_fetch, self.wake)
        self.inbox = Inbox(self, self, self.pool, TERMS, InboxLimits(1000))

    # --- what the inbox reports ------------------------------------------------------------------------------

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        self.told.append(("taken", [driver.name.source.partition for driver in drivers]))

    def fault(self, driver: LaneDriver, found: Slice) -> None:
        self.told.append(("fault", (driver.name.source.partition, found.fault)))

    def corrupt(self, driver: LaneDriver, error: WireError) -> None:
        driver.lane.fail()
        self.told.append(("corrupt", (driver.name.source.partition, error.offset)))

    def idle(self, driver: LaneDriver, _found: Slice) -> None:
        self.told.append(("idle", driver.name.source.partition))

    def awake(self, driver: LaneDriver) -> None:
        self.told.append(("awake", driver.name.source.partition))

    # --- the broker as the router sees it --------------------------------------------------------------------

    async def connect(self) -> HeldSource:
        if self.unreachable:
            self.unreachable -= 1
            raise BrokerUnreachable("a:1", "down")
        self.brokers.append(HeldSource())
        return self.brokers[-1]

    def may_hold(self, driver: LaneDriver) -> bool:
        return True

    async def connect_beside(self) -> HeldSource:
        return await self.connect()

    def wake(self) -> None:
        self.inbox.wake()

    async def back_off(self, attempt: int) -> None:
        self.pauses.append(attempt)

    def served(self) -> Sequence[LaneDriver]:
        return self.drivers

    def may_fetch(self, driver: LaneDriver) -> bool:
        return driver not in self.blocked

    def lost(self) -> None:
        self.told.append(("lost", None))

    def silent(self) -> None:
        self.told.append(("silent", None))

    def asked(self) -> list[list[int]]:
        return [[want.partition.partition for want in asked] for broker in self.brokers for asked in broker.asked]

    def answer(self, *slices: Slice, body: bytes = b"", throttle_s: float = 0.0) -> None:
        broker = self.brokers[-1]
        view = broker.rooms[-1].room(len(body))
        view[:] = body
        broker.answer(FetchAnswer(view, list(slices), throttle_s))


def one(partition: int, start: int = 0, end: int = 0, fault: FetchFault | None = None, replica: int = -1) -> Slice:
    return Slice(TopicPartition("t", partition), start, end, 50, 50, 0, [], replica, fault)


def batch(count: int = 2) -> bytes:
    log = SourceLog()
    log.data(count)
    return log.fetch(0, 1)[0]


@asynccontextmanager
async def running(desk: Desk) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(desk.inbox.run())
        await turns()
        yield
        task.cancel()


async def test_every_fetch_begins_with_another_lane() -> None:
    desk = Desk()
    async with running(desk):
        for _ in range(3):
            desk.answer(one(0))
            await turns()
        assert desk.asked() == [[1, 2, 0], [2, 0, 1], [0, 1, 2], [1, 2, 0]]


class Looked(Desk):
    """Counts the looks at all lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def served(self) -> Sequence[LaneDriver]:
        self.looks += 1
        return self.drivers


async def test_lanes_at_rest_are_not_looked_at_before_each_fetch() -> None:
    desk = Looked()
    async with running(desk):
        for _ in range(5):
            desk.answer()
            await turns()
        assert (desk.looks, desk.asked()) == (1, [[1, 2, 0]] * 6)


def leave(desk: Looked) -> None:
    desk.inbox.forget(desk.drivers.pop())


def block(desk: Looked) -> None:
    desk.blocked.update(desk.drivers[1:2])  # the first that the look found


@pytest.mark.parametrize("change", [lambda desk: desk.wake(), leave, block], ids=["woken", "left", "shut"])
async def test_whatever_changes_makes_it_look_again(change: Callable[[Looked], None]) -> None:
    desk = Looked()
    async with running(desk):
        desk.answer()
        await turns()
        change(desk)
        desk.answer()
        await turns()
        assert desk.looks == 2


async def test_it_looks_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "_LOOK_AGAIN_S", 0.0)
    desk = Looked()
    async with running(desk):
        desk.answer()
        await turns()
        assert desk.looks == 2


@pytest.mark.parametrize("throttle_s", [0.0, 0.001])
async def test_an_answer_with_news_or_none_for_lack_of_a_quota_makes_it_look_again(throttle_s: float) -> None:
    desk = Looked()
    async with running(desk):
        desk.answer(*(() if throttle_s else (one(0),)), throttle_s=throttle_s)
        await asyncio.sleep(throttle_s + 0.001)
        assert (desk.looks, len(desk.asked())) == (2, 2)


async def test_a_lane_that_is_soon_ready_makes_it_look_again() -> None:
    desk = Looked()
    desk.drivers.append(driver_of(3, owned=False))
    async with running(desk):
        desk.answer()
        await turns()
        assert desk.looks == 2


async def test_the_last_buffer_makes_it_look_again() -> None:
    desk = Looked()
    async with running(desk):
        others = [await desk.pool.lease() for _ in range(BUFFERS - 1)]
        desk.answer()
        await turns()
        assert (desk.looks, len(desk.asked()), len(others)) == (2, 2, BUFFERS - 1)


async def test_others_run_while_many_lanes_are_looked_at_and_a_lane_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_TURN_S", 0.0)
    desk = Desk(250)
    gone, ran = desk.drivers[240], list[int]()

    def may_fetch(driver: LaneDriver) -> bool:
        number = driver.name.source.partition
        if number in (50, 150):
            asyncio.get_running_loop().call_soon(ran.append, number)
        if number == 150:
            desk.drivers.remove(gone)
        assert number != 240, "it is served elsewhere"
        assert number < 200 or ran == [50, 150]
        return True

    monkeypatch.setattr(desk, "may_fetch", may_fetch)
    async with running(desk):
        await turns()
        (asked,) = desk.asked()
    assert sorted(asked) == [number for number in range(250) if number != 240]


async def test_a_lane_is_asked_for_from_where_it_stands() -> None:
    desk = Desk(1)
    async with running(desk):
        desk.answer(one(0, 0, len(batch())), body=batch())
        desk.drivers[0].lane.limits = Limits()
        desk.inbox.wake()
        await turns()
        first, second = (asked[0] for asked in desk.brokers[0].asked)
        assert (first.offset, first.leader_epoch, first.last_epoch, first.max_bytes) == (0, 9, -1, 1000)
        assert (second.offset, second.last_epoch) == (2, LEADER_EPOCH)
        assert desk.told == [("taken", [0])]
        assert desk.drivers[0].source_end == 50


async def test_an_end_is_as_old_as_the_last_answer_that_told_it() -> None:
    desk = Desk()
    first, second, third = (driver.end for driver in desk.drivers)
    desk.inbox._meter = CopierMetrics(wall=iter((0, 1000, 2000, 3000)).__next__)
    async with running(desk):
        desk.answer(one(0), one(1))
        await turns()
        assert [(end.offset, end.at_ms) for end in (first, second, third)] == [(50, 1000), (50, 1000), (-1, -1)]
        desk.answer(one(1, fault=FetchFault(6, "NOT_LEADER", retry=True)))  # what an answer leaves out has not changed
        await turns()
    assert [(end.offset, end.at_ms) for end in (first, second, third)] == [(50, 2000), (50, 1000), (-1, -1)]
    assert [end.is_stale(2000, 5000) for end in (first, second, third)] == [False, True, True]


async def test_an_answer_that_a_quota_emptied_says_nothing_of_any_end() -> None:
    desk = Desk(1)
    desk.inbox._meter = CopierMetrics(wall=iter((0, 1000, 2000)).__next__)
    async with running(desk):
        desk.answer(one(0))
        await turns()
        desk.answer(throttle_s=3600.0)
        await turns()
    assert desk.drivers[0].end.at_ms == 1000


async def test_lanes_without_room_or_without_a_target_are_not_asked_for() -> None:
    desk = Desk()
    desk.blocked = {desk.drivers[0]}
    desk.drivers[1].lane.pieces.queued_bytes = 1
    async with running(desk):
        assert desk.asked() == [[2]]
        assert desk.brokers[0].options[0].max_wait_s < TERMS.max_wait_s  # a lane only waits for room: answer soon


@pytest.mark.parametrize(("others", "asked"), [(BUFFERS - 2, [[1, 2, 0]]), (BUFFERS - 1, [[2, 1]])])
async def test_the_last_buffer_is_for_lanes_that_have_little_to_send(others: int, asked: list[list[int]]) -> None:
    desk = Desk()
    for index in (0, 2):
        desk.drivers[index].lane.limits = Limits(queue_bytes=5000)
        desk.drivers[index].lane.pieces.queued_bytes = 1001 - index  # one fetch brings 1000 of a lane
    for _ in range(others):
        await desk.pool.lease()
    async with running(desk):
        assert desk.asked() == asked
        assert desk.pool.is_short is (len(asked[0]) < 3)
        desk.answer()
        await turns()


@pytest.mark.parametrize(("since_s", "is_patient"), [(0.0, False), (60.0, True)])
async def test_a_lane_that_was_just_given_to_us_is_awaited_for_a_moment(since_s: float, is_patient: bool) -> None:
    desk = Desk(1)
    coming = driver_of(1, owned=False)
    coming.attempts.given_at_s -= since_s
    desk.drivers.append(coming)
    async with running(desk):
        assert desk.asked() == [[0]]
        assert (desk.brokers[0].options[0].max_wait_s == TERMS.max_wait_s) is is_patient


async def test_a_lane_that_watched_for_long_is_awaited_from_its_first_record_on() -> None:
    desk = Desk(1)
    coming = driver_of(1, owned=False)
    coming.attempts.given_at_s -= 60.0
    coming.attempts.wake(clock.now_s())
    desk.drivers.append(coming)
    async with running(desk):
        assert desk.brokers[0].options[0].max_wait_s < TERMS.max_wait_s


async def test_with_nothing_to_ask_for_it_waits_to_be_woken_without_holding_memory() -> None:
    desk = Desk()
    for driver in desk.drivers:
        driver.lane.paused = True
    async with running(desk):
        assert desk.asked() == []
        assert desk.pool.used_bytes == 0
        desk.drivers[1].lane.paused = False
        desk.inbox.wake()
        await turns()
        assert desk.asked() == [[1]]
        assert desk.brokers[0].options[0].max_wait_s == TERMS.max_wait_s


async def test_an_answer_for_a_lane_that_went_another_way_is_ignored() -> None:
    desk = Desk(2)
    async with running(desk):
        desk.drivers[0].lane.skip_to(7)
        desk.drivers[1].lane.disown()
        body = batch()
        desk.answer(one(0, 0, len(body)), one(1, 0, len(body)), body=body)
        await turns()
        assert desk.told == [("taken", [])]
        assert [driver.lane.idle for driver in desk.drivers] == [True, True]


@pytest.mark.parametrize("flag", ["paused", "draining"])
async def test_an_answer_for_a_lane_that_was_paused_or_drains_is_ignored(flag: str) -> None:
    desk = Desk(1)
    async with running(desk):
        setattr(desk.drivers[0].lane, flag, True)
        body = batch()
        desk.answer(one(0, 0, len(body)), body=body)
        await turns()
        assert (desk.told[-1], desk.drivers[0].lane.idle) == (("taken", []), True)


async def test_a_lane_goes_on_from_where_it_was_paused() -> None:
    desk = Desk(1)
    lane, body = desk.drivers[0].lane, batch()
    async with running(desk):
        lane.paused = True
        desk.answer(one(0, 0, len(body)), body=body)
        await turns()
        lane.paused = False
        desk.inbox.wake()
        await turns()
        assert [want.offset for asked in desk.brokers[0].asked for want in asked] == [0, 0]
        desk.answer(one(0, 0, len(body)), body=body)
        await turns()
        assert (desk.told[-1], lane.fetch_offset) == (("taken", [0]), 2)


async def test_what_is_fetched_for_a_lane_that_watches_only_wakes_it() -> None:
    desk = Desk(2)
    desk.drivers[1].lane = Lane(FLOW, desk.drivers[1].name)
    desk.drivers[1].lane.watch(position(0, 0))
    async with running(desk):
        assert desk.asked() == [[1, 0]]
        body = batch()
        desk.answer(one(1, 0, len(body)), one(0), body=body)
        await turns()
        assert desk.told == [("awake", 1), ("idle", 0), ("taken", [])]
    assert desk.pool.used_bytes == 0


async def test_faults_replicas_and_empty_answers_are_told_per_lane() -> None:
    desk = Desk()
    fault = FetchFault(6, "NotLeaderForPartition", retry=True)
    async with running(desk):
        desk.answer(one(0, fault=fault), one(1, replica=4), one(2))
        await turns()
        assert desk.told[:3] == [("fault", (0, fault)), ("fault", (1, None)), ("idle", 2)]


def held(partition: int, last_stable: int, start: int = 0, end: int = 0) -> Slice:
    return Slice(TopicPartition("t", partition), start, end, 50, last_stable, 0, [])


async def test_what_a_broker_leaves_out_has_not_changed() -> None:
    desk = Desk(2)
    async with running(desk):
        desk.answer(one(0), one(1))
        await turns()
        desk.told.clear()
        desk.answer()
        await turns()
        assert desk.told == [("taken", [])]
        assert [driver.source_end for driver in desk.drivers] == [50, 50]


async def test_ends_are_kept_wherever_the_lane_went_because_they_are_told_once() -> None:
    desk = Desk(2)
    fault = FetchFault(6, "NotLeaderForPartition", retry=True)
    async with running(desk):
        desk.drivers[0].lane.skip_to(7)
        desk.answer(one(0), Slice(TopicPartition("t", 1), 0, 0, -1, -1, -1, [], -1, fault))
        await turns()
        assert [driver.source_end for driver in desk.drivers] == [50, -1]
        # What parted is told without ends by a broker that was only asked for its epochs.
        desk.answer(one(1), Slice(TopicPartition("t", 0), 0, 0, -1, -1, -1, [], diverging=(1, 0)))
        await turns()
        assert [driver.source_end for driver in desk.drivers] == [50, 50]


async def test_a_lane_held_by_a_transaction_is_reminded_until_it_was_told_of_the_end() -> None:
    desk = Desk(2)
    async with running(desk):
        desk.answer(held(0, 0), one(1))
        await turns()
        desk.answer()
        await turns()
        assert [told for told in desk.told if told[0] == "idle"] == [("idle", 1), ("idle", 0), ("idle", 0)]
        desk.told.clear()
        desk.drivers[0].lane.limits = Limits()
        desk.answer(held(0, 50, 0, len(batch())), body=batch())  # the transaction ended
        await turns()
        desk.answer()
        await turns()
        assert desk.told == [("idle", 0), ("taken", [0]), ("taken", [])]
        desk.drivers[0].lane.discard()


async def test_a_lane_that_is_not_asked_for_is_not_reminded() -> None:
    desk = Desk(2)
    async with running(desk):
        desk.answer(held(0, 0), held(1, 0))
        await turns()
        desk.told.clear()
        desk.drivers[0].lane.paused = True
        desk.drivers[1].lane.fail()
        desk.answer()
        await turns()
        assert desk.told == [("taken", [])]
        desk.drivers[0].lane.paused = False
        desk.inbox.wake()
        await turns()
        desk.told.clear()
        desk.answer()
        await turns()
        assert desk.told == [("idle", 0), ("taken", [])]


async def test_a_corrupt_batch_stops_its_lane_and_the_others_go_on() -> None:
    desk = Desk(2)
    good = batch()
    bad = bytearray(good)
    bad[-1] ^= 1
    async with running(desk):
        desk.answer(one(0, 0, len(bad)), one(1, len(bad), len(bad) + len(good)), body=bytes(bad) + good)
        await turns()
        assert desk.told == [("corrupt", (0, 0)), ("taken", [0, 1])]
        assert desk.drivers[0].lane.state is State.FAILED
        assert not desk.drivers[1].lane.idle
        for driver in desk.drivers:
            driver.lane.discard()
    assert desk.pool.used_bytes == 0


async def test_a_lost_connection_is_told_and_opened_anew() -> None:
    desk = Desk(1)
    async with running(desk):
        desk.unreachable = 2
        desk.brokers[0].lose()
        await turns(40)
        assert [what for what, _ in desk.told] == ["lost"] * 3
        assert desk.brokers[0].closed
        assert desk.pauses == [1, 2, 3]
        assert desk.asked() == [[0], [0]]
    assert desk.pool.used_bytes == 0


async def test_a_throttled_broker_is_not_asked_at_once() -> None:
    desk = Desk(1)
    async with running(desk):
        desk.answer(throttle_s=3600.0)
        await turns()
        assert len(desk.asked()) == 1
        assert desk.pool.used_bytes == 0


async def test_a_lane_that_was_just_given_keeps_no_fetch_waiting_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for soon_s, wait_s in ((100.0, 0.02), (0.0, TERMS.max_wait_s)):
        monkeypatch.setattr(inbox, "_SOON_S", soon_s)
        desk = Desk()
        desk.drivers[1].lane.disown()
        async with running(desk):
            assert desk.asked() == [[0, 2]] or desk.asked() == [[2, 0]]
            assert desk.brokers[0].options[0].max_wait_s == wait_s


async def test_a_batch_that_takes_long_keeps_no_other_lane_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LONG_RECORDS", 5)
    desk, begun, go = Desk(2), threading.Event(), threading.Event()

    def sift(work: Work) -> Sifted:
        begun.set()
        assert go.wait(100)
        return sift_all(work)

    monkeypatch.setattr(slice_intake, "sift_all", sift)
    log = SourceLog()
    log.data(8, holes=frozenset({1}))
    long, small = log.fetch(0, 1)[0], batch()
    async with running(desk):
        desk.answer(one(0, 0, len(long)), one(1, len(long), len(long) + len(small)), body=long + small)
        await turns()
        assert await asyncio.to_thread(begun.wait, 100)
        assert desk.told == [("taken", [0, 1])]
        assert desk.drivers[1].lane.fetched == 2
        desk.drivers[1].lane.rewind()
        desk.inbox.wake()
        await turns()
        assert desk.asked()[-1] == [1], "the other is not fetched meanwhile"
        go.set()
        async with asyncio.timeout(100):
            while len(desk.told) < 2:  # noqa: ASYNC110 - a thread is waited for
                await asyncio.sleep(0.001)
        assert desk.told[1] == ("taken", [0])
        assert desk.drivers[0].lane.fetched == 7
        desk.answer()
    assert desk.pool.used_bytes == desk.drivers[0].lane.queued_bytes


async def test_an_inbox_that_ends_keeps_the_bytes_that_a_thread_still_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LONG_RECORDS", 5)
    desk, begun, go, read = Desk(1), threading.Event(), threading.Event(), list[Sifted]()

    def sift(work: Work) -> Sifted:
        begun.set()
        assert go.wait(100)
        read.append(sift_all(work))
        return read[0]

    monkeypatch.setattr(slice_intake, "sift_all", sift)
    log = SourceLog()
    log.data(8, holes=frozenset({1}))
    body = log.fetch(0, 1)[0]
    try:
        async with running(desk):
            desk.answer(one(0, 0, len(body)), body=body)
            await turns()
            assert await asyncio.to_thread(begun.wait, 100)
        assert desk.pool.used_bytes >= len(body), "another fetch would write to them"
        assert desk.pool.beside.locked(), "what it inflates to is still there"
    finally:
        go.set()
    async with asyncio.timeout(100):
        while desk.pool.beside.locked():  # noqa: ASYNC110 - a thread is waited for
            await asyncio.sleep(0.001)
    assert read[0].error is None
    assert desk.pool.used_bytes == 0
    assert not desk.drivers[0].lane.queued_bytes


@pytest.mark.parametrize("gone", [False, True])
async def test_what_took_long_counts_only_for_a_lane_that_still_stands_there(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LONG_BYTES", 10)
    desk, (driver,) = Desk(1), (Desk(1).drivers)
    desk.drivers = [driver]
    driver.limit.learn(10)
    desk.inbox._intake._rules = IntakeRules(20)
    payload = seal(write_area([Record(0, 0, b"key", b"v" * 90)], [0], 0), GZIP, 1, 0, 0)
    async with running(desk):
        async with desk.pool.beside:
            desk.answer(one(0, 0, len(payload)), body=bytes(payload))
            await turns()
            if gone:
                driver.lane.stop()
        async with asyncio.timeout(100):
            while desk.inbox._intake._busy:  # noqa: ASYNC110 - a thread is waited for
                await asyncio.sleep(0.001)
    assert (("corrupt", (0, 0)) in desk.told) is not gone
    assert desk.pool.used_bytes == 0


@pytest.mark.parametrize("after", ["position", "pause"])
async def test_the_epoch_of_what_was_queued_before_long_work_is_known(
    after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position with an epoch too low for its offset would find a divergence where there is none."""
    monkeypatch.setattr(intake, "LONG_RECORDS", 5)
    begun, go = threading.Event(), threading.Event()

    def sift(work: Work) -> Sifted:
        begun.set()
        assert go.wait(100)
        return sift_all(work)

    monkeypatch.setattr(slice_intake, "sift_all", sift)
    log = SourceLog()
    for count, holes in ((2, frozenset[int]()), (2, frozenset[int]()), (8, frozenset({1}))):
        log.data(count, holes=holes)
    for batch, epoch in zip(log.batches, (4, 6, 6), strict=True):
        batch.epoch = epoch
    body = log.fetch(0, 3)[0]
    desk = Desk(1)
    lane = desk.drivers[0].lane
    lane.limits, lane.source_leader_epoch = Limits(), 4
    async with running(desk):
        try:
            desk.answer(one(0, 0, len(body)), body=body)
            await turns()
            assert await asyncio.to_thread(begun.wait, 100)
            for base in (0, 2):
                piece = lane.next_append()
                assert piece is not None
                lane.on_outcome(piece, Outcome(OutcomeKind.APPENDED, base))
            assert (lane.source_next, lane.position.source_leader_epoch) == (4, 6)
            lane.paused = after == "pause"
        finally:
            go.set()
        async with asyncio.timeout(100):
            while desk.inbox._intake._busy:
                await turns()
        lane.paused = False
        assert lane.source_leader_epoch == 6


async def test_lanes_under_a_limit_wait_for_their_bytes_and_the_others_do_not() -> None:
    desk = Desk()
    body = batch(200)
    desk.turns.limit(TrafficRules((BandwidthRule("t", 1000),)))
    async with running(desk):
        for driver in desk.drivers:
            driver.lane.limits = Limits()
        desk.answer(one(0, 0, len(body)), body=body)
        await turns()
        assert len(desk.asked()) == 1, "the answer was many seconds' worth"
        assert desk.inbox._pool.used_bytes < 2 * BUFFER_BYTES, "it holds no buffer while it waits"
        await asyncio.sleep(len(body) / 1000 + 1)
        assert len(desk.asked()) == 2


async def test_a_fetch_of_others_ends_when_a_lane_that_waits_is_due() -> None:
    desk = Desk(2)
    hot, cold = desk.drivers
    desk.turns.limit(TrafficRules((), (PriorityRule("t", Priority.LOW),)))
    async with running(desk):
        desk.turns.holds_back = lambda driver: driver is cold  # type: ignore[method-assign]
        desk.turns.due_s = lambda: 0.1  # type: ignore[method-assign]
        desk.inbox.wake()
        desk.answer()
        await turns()
        assert desk.asked()[-1] == [0]
        assert desk.brokers[0].options[-1].max_wait_s == pytest.approx(0.1)
        assert desk.brokers[0].options[0].max_wait_s == TERMS.max_wait_s
    assert hot.lane.wants_fetch


async def test_a_connection_that_was_idle_for_too_long_is_replaced_before_a_fetch() -> None:
    desk = Desk(lanes=1)
    desk.blocked.add(desk.drivers[0])
    async with running(desk):
        assert desk.asked() == []
        desk.brokers[0].is_stale = True
        desk.blocked.clear()
        desk.wake()
        await turns()
        assert (len(desk.brokers), desk.brokers[0].closed, len(desk.brokers[1].asked)) == (2, True, 1)
        assert ("lost", None) not in desk.told


def wide_desk(most_bytes: int, lanes: int, lane_bytes: int) -> Desk:
    desk = Desk(lanes)
    desk.inbox = Inbox(desk, desk, desk.pool, FetchOptions(max_bytes=most_bytes), InboxLimits(lane_bytes))
    return desk


async def test_the_next_answer_after_a_full_one_may_be_twice_as_large() -> None:
    desk, header = wide_desk(64 * BUFFER_BYTES, 3, BUFFER_BYTES), 64 * 1024
    async with running(desk):
        asked = desk.brokers[-1].options
        assert asked[-1].max_bytes == BUFFER_BYTES - header
        for size, buffers in ((BUFFER_BYTES - header, 2), (100, 1)):
            desk.answer(one(0), body=bytes(size))
            await turns()
            assert asked[-1].max_bytes == buffers * BUFFER_BYTES - header
            assert desk.pool.used_bytes == buffers * BUFFER_BYTES


@pytest.mark.parametrize(
    ("most_bytes", "lanes", "lane_bytes"),
    [(BUFFER_BYTES, 8, BUFFER_BYTES), (64 * BUFFER_BYTES, 5, BUFFER_BYTES // 4)],
    ids=["the user's limit", "few lanes"],
)
async def test_a_buffer_that_cannot_be_filled_stays_as_it_is(most_bytes: int, lanes: int, lane_bytes: int) -> None:
    desk = wide_desk(most_bytes, lanes, lane_bytes)
    async with running(desk):
        for _ in range(3):
            desk.answer(one(0), body=bytes(desk.brokers[-1].options[-1].max_bytes))
            await turns()
            assert desk.pool.used_bytes == BUFFER_BYTES


@pytest.mark.parametrize(("is_near", "may_fetch"), [(True, True), (True, False), (False, True)])
async def test_a_fetch_waits_briefly_for_lanes_that_come_back_from_ranges(*, is_near: bool, may_fetch: bool) -> None:
    desk = Desk(2)
    ranged = desk.drivers[0]
    desk.inbox._ranges.holds = lambda driver: driver is ranged  # type: ignore[method-assign]
    if is_near:
        desk.inbox._ranges.trip.began_after(0.001, clock.now_s())
    if not may_fetch:
        desk.blocked.add(ranged)
    async with running(desk):
        waits_s = desk.brokers[-1].options[-1].max_wait_s
        assert (waits_s < TERMS.max_wait_s) == (is_near and may_fetch)
        assert desk.asked() == [[1]]


async def test_inboxes_that_wait_at_their_brokers_reserve_no_large_buffers() -> None:
    desk = Desk()
    async with running(desk):
        for _ in range(5):
            desk.answer(one(0))
            await turns()
            assert desk.pool.used_bytes == BUFFER_BYTES
