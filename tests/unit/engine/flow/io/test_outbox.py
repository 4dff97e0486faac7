"""One outbox: the content and order of requests, and the meaning of a lost connection."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.errors import BrokerUnreachable
from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome, OutcomeKind
from engine.core.lane.pending_batch import BufferShare
from engine.flow.context.lease_guard import LeaseGuard
from engine.flow.io.outbox import NEAR_REQUESTS, Outbox, OutboxLimits
from engine.flow.io.silence import SILENT_S
from engine.flow.lane.appender import ReadyBatch
from engine.flow.lane.copier_metrics import CopierMetrics
from policies.model import TopicPartition
from tests.fakes.brokers import HeldTarget, turns


class Shares:
    """Counts the shares of one receive buffer."""

    def __init__(self) -> None:
        self.count = 1

    def own(self, size: int, *, stuck: bool) -> "Shares":
        raise AssertionError("an outbox makes no copies of its own")

    def retain(self) -> "Shares":
        self.count += 1
        return self

    def release(self) -> None:
        self.count -= 1


class Letter:
    """A batch."""

    def __init__(self, name: str, size: int = 10, lease: Shares | None = None) -> None:
        self.payload: bytearray | memoryview = bytearray(size)
        self.name = name
        self.is_gone = False
        self.lease: BufferShare | None = lease

    def detach(self) -> None:
        self.payload = bytearray(self.payload)
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def let_go(self) -> None:
        self.is_gone = True
        self.detach()


class Sender:
    """An appender with letters to send."""

    def __init__(self, partition: int, *letters: Letter, transaction: str = "") -> None:
        self.partition = TopicPartition("t", partition)
        self.transactional_id = transaction
        self.letters = deque(letters)
        self.outcomes: list[tuple[str, OutcomeKind]] = []
        self.told = asyncio.Event()
        self.troubled = False
        self.queued: list[bool] = []
        """Whether requests queued at the broker, for each batch."""

    def next_batch(self, *, queues: bool) -> Letter | None:
        self.queued.append(queues)
        return self.letters.popleft() if self.letters and not self.troubled else None

    def on_outcome(self, batch: ReadyBatch, outcome: Outcome) -> None:
        assert isinstance(batch, Letter)
        self.told.set()
        self.outcomes.append((batch.name, outcome.kind))
        self.troubled |= outcome.kind is not OutcomeKind.APPENDED


class Bench:
    """An outbox with brokers that open one after the other."""

    def __init__(self) -> None:
        self.brokers: list[HeldTarget] = []
        self.unreachable = 0
        self.times_lost = self.times_opened = 0
        self.pauses: list[int] = []
        self.silent_at_s: list[float] = []
        self.timeout_s = 60.0
        self.request_bytes = 1 << 20
        self.meter: CopierMetrics | None = None
        self.most_in_flight_bytes = 1 << 20
        self.lease = LeaseGuard(lambda: None)
        self.lease_guard = asyncio.Event()
        self.lease_guard.set()

    async def connect(self) -> HeldTarget:
        if self.unreachable:
            self.unreachable -= 1
            raise BrokerUnreachable("b:1", "down")
        self.brokers.append(HeldTarget())
        return self.brokers[-1]

    async def back_off(self, attempt: int) -> None:
        self.pauses.append(attempt)
        await self.lease_guard.wait()

    def lost(self) -> None:
        self.times_lost += 1

    def opened(self) -> None:
        self.times_opened += 1

    def silent(self) -> None:
        self.silent_at_s.append(asyncio.get_running_loop().time())


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Outbox]:
    outbox = Outbox(bench, bench.lease, OutboxLimits(bench.timeout_s, bench.request_bytes), bench.meter)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outbox.run())
        await turns()
        yield outbox
        task.cancel()


def sizes(broker: HeldTarget) -> list[int]:
    return [len(request) for request in broker.sent]


async def test_batches_of_many_appenders_share_a_request() -> None:
    bench = Bench()
    senders = [Sender(index, Letter("a"), Letter("b")) for index in range(3)]
    async with running(bench) as outbox:
        for sender in senders:
            outbox.schedule_send(sender)
        await turns()
        assert sizes(bench.brokers[0]) == [3, 3]
        bench.brokers[0].answer()
        bench.brokers[0].answer()
        assert all(sender.outcomes == [("a", OutcomeKind.APPENDED), ("b", OutcomeKind.APPENDED)] for sender in senders)


async def test_the_loop_goes_on_with_other_tasks_after_a_turn_of_making_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.flow.io.outbox._TURN_S", 0.0)
    bench = Bench()
    senders = [Sender(index, Letter("a")) for index in range(3)]
    async with running(bench) as outbox:
        for sender in senders:
            outbox.schedule_send(sender)
        await asyncio.sleep(0)
        assert sizes(bench.brokers[0]) == [1]
        await turns()
        assert sizes(bench.brokers[0]) == [1, 1, 1]


async def test_a_request_holds_one_batch_per_partition_although_appenders_share_it() -> None:
    bench = Bench()
    first, second = Sender(7, Letter("first")), Sender(7, Letter("second"))
    async with running(bench) as outbox:
        outbox.schedule_send(first)
        outbox.schedule_send(second)
        await turns()
        assert sizes(bench.brokers[0]) == [1, 1]
        bench.brokers[0].answer(Outcome(OutcomeKind.APPENDED, 5))
        assert (first.outcomes, second.outcomes) == ([("first", OutcomeKind.APPENDED)], [])


async def test_no_more_than_five_requests_are_in_flight() -> None:
    bench = Bench()
    sender = Sender(0, *(Letter(str(index)) for index in range(9)))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        broker = bench.brokers[0]
        assert len(broker.requests) == NEAR_REQUESTS == 5
        broker.answer()
        assert len(broker.requests) == NEAR_REQUESTS
        while broker.requests:
            broker.answer()
        assert [name for name, _ in sender.outcomes] == [str(index) for index in range(9)]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_lone_appender_hears_when_requests_queue_at_a_slow_broker(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("engine.flow.io.outbox.now_s", lambda: clock[0])
    bench = Bench()
    bench.meter = CopierMetrics(clock=lambda: clock[0])
    senders = [Sender(at, *(Letter(str(index), 60_000) for index in range(20))) for at in range(count)]
    async with running(bench) as outbox:
        for sender in senders:
            outbox.schedule_send(sender)
        await turns()
        for _ in range(4):  # the broker takes one request after the other, 2 ms for each of its batches
            clock[0] += 0.002 * count
            bench.brokers[0].answer(*[Outcome(OutcomeKind.APPENDED, 5)] * count)
            await turns()
        assert senders[0].queued == ([False] * 6 + [True] * 3 if count == 1 else [False] * 9)
        bench.brokers[0].lose()
        await turns()


async def test_a_full_request_leaves_the_rest_to_the_next_one() -> None:
    bench = Bench()
    senders = [Sender(index, Letter("x", bench.request_bytes // 2 + 1)) for index in range(3)]
    async with running(bench) as outbox:
        for sender in senders:
            outbox.schedule_send(sender)
        await turns()
        assert sizes(bench.brokers[0]) == [2, 1]


async def test_the_buffer_of_a_batch_is_kept_until_its_answer() -> None:
    bench = Bench()
    lease = Shares()
    async with running(bench) as outbox:
        outbox.schedule_send(Sender(0, Letter("a", lease=lease)))
        await turns()
        assert lease.count == 2
        bench.brokers[0].answer()
        assert lease.count == 1


async def test_a_lost_connection_leaves_outcomes_unknown_and_another_is_opened() -> None:
    bench = Bench()
    lease = Shares()
    sender = Sender(0, Letter("a", lease=lease))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        bench.unreachable = 2
        bench.brokers[0].lose()
        await turns()
        assert sender.outcomes == [("a", UNKNOWN_OUTCOME.kind)]
        assert lease.count == 1
        assert bench.brokers[0].closed
        assert (bench.times_lost, bench.times_opened, bench.pauses) == (3, 2, [1, 2])
        sender.letters.append(Letter("b"))
        sender.troubled = False
        outbox.schedule_send(sender)
        await turns()
        assert sizes(bench.brokers[1]) == [1]
        assert outbox.open


async def test_an_answer_to_a_lost_connection_does_not_open_a_place_on_the_new_one() -> None:
    """The late answers of an old connection count for nothing: five requests fit on the new one, not six."""
    bench = Bench()
    sender = Sender(0, *(Letter(str(index)) for index in range(12)))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        bench.brokers[0].lose()
        await turns()
        sender.troubled = False
        outbox.schedule_send(sender)
        await turns()
        assert len(bench.brokers[1].requests) == NEAR_REQUESTS


async def test_an_appender_that_left_for_another_broker_is_not_brought_back_by_an_answer() -> None:
    bench = Bench()
    sender = Sender(0, Letter("a"))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        outbox.forget(sender)
        sender.letters.append(Letter("b"))
        bench.brokers[0].answer()
        await turns()
        assert sizes(bench.brokers[0]) == [1]
        outbox.schedule_send(sender)
        await turns()
        assert sizes(bench.brokers[0]) == [1, 1]


async def test_without_a_connection_nothing_is_taken_from_an_appender() -> None:
    bench = Bench()
    bench.unreachable = 1
    bench.lease_guard.clear()
    sender = Sender(0, Letter("a"))
    async with running(bench) as outbox:
        assert not outbox.open
        outbox.schedule_send(sender)
        await turns()
        assert len(sender.letters) == 1
        bench.lease_guard.set()
        await turns()
        assert sizes(bench.brokers[0]) == [1]


@pytest.mark.parametrize("answered", [False, True])
async def test_a_connection_that_answers_nothing_is_given_up(answered: bool) -> None:
    bench = Bench()
    bench.timeout_s = 60.0 if answered else 0.02
    sender = Sender(0, Letter("a"))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        if answered:
            bench.brokers[0].answer()
        async with asyncio.timeout(50):
            await sender.told.wait()
        assert bench.brokers[0].closed is not answered


async def test_a_request_is_of_one_transaction() -> None:
    bench = Bench()
    senders = [
        Sender(0, Letter("plain")),
        Sender(1, Letter("a"), transaction="a"),
        Sender(2, Letter("b"), transaction="b"),
        Sender(3, Letter("position of a"), transaction="a"),
        Sender(4, Letter("block")),
    ]
    async with running(bench) as outbox:
        for sender in senders:
            outbox.schedule_send(sender)
        await turns()
        found = [[(one.partition.partition, one.transactional_id) for one in sent] for sent in bench.brokers[0].sent]
    assert found == [[(0, ""), (1, "a"), (3, "a"), (4, "")], [(2, "b")]]


@pytest.mark.parametrize(("flushed", "after_s", "kept"), [(True, 0.0, 0), (False, 0.0, 1), (True, 1000.0, 1)])
async def test_what_waits_long_for_its_answer_lets_its_receive_buffer_go(
    flushed: bool, after_s: float, kept: int
) -> None:
    bench, shares = Bench(), Shares()
    letter = Letter("a", lease=shares.retain())
    async with running(bench) as outbox:
        outbox.schedule_send(sender := Sender(0, letter, Letter("b")))
        outbox.schedule_send(Sender(1, Letter("a position")))
        await turns()
        shares.release()
        bench.brokers[0].flushed = flushed
        outbox.copy_out(after_s)
        outbox.copy_out(after_s)
        assert shares.count == 2 * kept, "the share of the batch, and that of the request"
        bench.brokers[0].answer()
        bench.brokers[0].answer()
        assert [name for name, _ in sender.outcomes] == ["a", "b"]
    outbox.copy_out(0.0)  # no connection, nothing to copy
    assert shares.count == kept


async def test_a_broker_moves_while_it_answers_or_has_nothing_to(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    async with running(bench) as outbox:
        assert outbox.moves
        outbox.schedule_send(Sender(0, Letter("a")))
        await turns()
        assert outbox.moves
        monkeypatch.setattr("engine.flow.io.outbox._MOVING_S", 0.0)
        assert not outbox.moves
        bench.brokers[0].throttled = True
        assert outbox.moves
    assert not outbox.moves


async def test_a_connection_without_requests_is_at_rest_and_watched_again_from_the_next_request_on() -> None:
    bench, loop = Bench(), asyncio.get_running_loop()
    async with running(bench) as outbox:
        for times in range(1, 3):
            assert outbox._looks is not None
            assert outbox._looks.when() is None, "no timer wakes a process at rest"
            await asyncio.sleep(100.0)
            assert len(bench.silent_at_s) == times - 1
            sent_s = loop.time()
            outbox.schedule_send(Sender(0, Letter("a")))
            await turns()
            await asyncio.sleep(SILENT_S + 1.0)
            assert len(bench.silent_at_s) == times
            assert SILENT_S <= bench.silent_at_s[-1] - sent_s <= SILENT_S + 0.6
            bench.brokers[0].answer()
            await asyncio.sleep(SILENT_S)
    assert len(bench.brokers) == 1


async def test_a_request_that_is_never_answered_ends_the_connection_after_a_rest_too() -> None:
    bench, sender = Bench(), Sender(0, Letter("a"))
    bench.timeout_s = 1.0
    async with running(bench) as outbox:
        await asyncio.sleep(100.0)
        outbox.schedule_send(sender)
        await asyncio.sleep(1.5)
        assert bench.times_lost == 1
        assert sender.outcomes == [("a", OutcomeKind.UNKNOWN)]


async def test_of_a_wide_window_only_what_a_leader_remembers_keeps_its_bytes() -> None:
    bench, shares = Bench(), Shares()
    letters = [Letter(str(number), lease=shares.retain()) for number in range(8)]
    async with running(bench) as outbox:
        outbox._window.settle(8)
        outbox.schedule_send(sender := Sender(0, *letters))
        outbox.schedule_send(Sender(1, Letter("another")))
        await turns()
        shares.release()
        outbox.copy_out(0.0)
        assert shares.count == 0
        assert [letter.is_gone for letter in letters] == [False] * 5 + [True] * 3
        for _ in range(8):
            bench.brokers[0].answer()
        assert [name for name, _ in sender.outcomes] == [letter.name for letter in letters]


async def test_a_connection_that_was_idle_for_too_long_is_replaced_before_a_send() -> None:
    bench = Bench()
    sender = Sender(0, Letter("a"))
    async with running(bench) as outbox:
        outbox.schedule_send(sender)
        await turns()
        bench.brokers[0].answer()
        bench.brokers[0].is_stale = True
        await turns()
        assert len(bench.brokers) == 1, "a connection at rest is left alone"
        sender.letters.append(Letter("b"))
        outbox.schedule_send(sender)
        await turns()
        assert (len(bench.brokers), bench.brokers[0].closed) == (2, True)
        assert (bench.times_opened, bench.times_lost) == (2, 0)
        assert sizes(bench.brokers[1]) == [1]
        bench.brokers[1].answer()
        assert [name for name, _ in sender.outcomes] == ["a", "b"]
