"""Ends of lanes that no fetch reports."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from engine.base.clock import pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone
from engine.flow.io.ends import STALE_MS, SourceEnds
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_leaders import NOBODY
from engine.flow.ports.ports import Leader
from policies.model import TopicPartition
from tests.fakes.brokers import turns
from tests.fakes.source_log import BORN_MS
from tests.unit.engine.core.positions import position
from tests.unit.engine.flow.stage import Stage

Fail = Callable[[Sequence[TopicPartition]], object]


class Shore:
    """Lanes at offset 0 of sources that hold four records, led by brokers 1, 1 and 2; and what is asked of them."""

    def __init__(self) -> None:
        stage = Stage(3)
        stage.assign()
        self.asked: list[list[int]] = []
        self.fail: Fail = lambda _partitions: None
        self.source = stage.a
        stage.a.fail = self._asked
        self.drivers: list[LaneDriver] = [stage.driver(index) for index in range(3)]
        for node, driver in zip((1, 1, 2), self.drivers, strict=True):
            driver.lane.own(position(0, 0), barrier_done=True)
            driver.leaders.source = Leader(node, 0, "id")
            driver.end.at_ms = 0
        for log in stage.sources:
            log.data(4)
        self.ends = SourceEnds(stage.a, stage.copier.drivers)

    def _asked(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        if what == "offsets":
            self.asked.append([one.partition for one in partitions])
        self.fail(partitions)

    @property
    def told(self) -> list[int]:
        return [driver.source_end for driver in self.drivers]


async def test_stale_ends_are_asked_for_broker_by_broker() -> None:
    shore = Shore()
    before_ms = wall_ms()
    await shore.ends.refresh()
    assert shore.asked == [[0, 1], [2]]
    assert shore.told == [4, 4, 4]
    assert all(driver.end.at_ms >= before_ms for driver in shore.drivers)


async def test_who_was_fetched_lately_has_no_leader_or_no_position_is_not_asked_for() -> None:
    shore = Shore()
    shore.drivers[0].end.at_ms = wall_ms() - STALE_MS // 2
    shore.drivers[1].leaders.source = NOBODY
    shore.drivers[2].lane._source_next = -1
    await shore.ends.refresh()
    assert shore.asked == []


async def test_a_partition_that_is_refused_hides_no_other() -> None:
    shore = Shore()

    def refuse(partitions: Sequence[TopicPartition]) -> None:
        if TopicPartition("t", 1) in partitions:
            raise KafkaRefusal("offsets", 3, "UnknownTopicOrPartition", "")

    shore.fail = refuse
    await shore.ends.refresh()
    assert shore.told == [4, -1, 4]


@pytest.mark.parametrize("error", [ConnectionLost("a:1"), BrokerUnreachable("a:1", "down")])
async def test_a_broker_that_is_away_is_asked_again_later_and_holds_back_its_own_only(error: Exception) -> None:
    shore = Shore()

    def away(partitions: Sequence[TopicPartition]) -> None:
        if TopicPartition("t", 0) in partitions:
            raise error

    shore.fail = away
    await shore.ends.refresh()
    assert (shore.asked, shore.told) == ([[0, 1], [2]], [-1, -1, 4])
    shore.fail = lambda _partitions: None
    await shore.ends.refresh()
    assert shore.told == [4, 4, 4]


async def test_no_look_begins_while_another_one_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at tens of thousands of lanes takes longer than the interval: there would be more and more."""
    shore, looks, most = Shore(), 0, 0
    may_end = asyncio.Event()
    look = shore.ends._look

    async def slow() -> dict[int, list[LaneDriver]]:
        nonlocal looks, most
        looks += 1
        most = max(most, looks)
        await may_end.wait()
        looks -= 1
        return await look()

    monkeypatch.setattr(shore.ends, "_look", slow)
    running = asyncio.create_task(shore.ends.run())
    await pause(30.0)
    assert (looks, most) == (1, 1)
    may_end.set()
    await pause(30.0)
    assert looks == 0, "it rests for ten times as long as it looked"
    assert shore.told == [4, 4, 4]
    await pause(300.0)
    assert len(shore.asked) > 2
    running.cancel()


async def test_a_lane_that_has_copied_nothing_learns_once_how_old_the_next_record_is() -> None:
    shore = Shore()
    asked: list[tuple[int, int]] = []
    read_time = shore.source.read_time

    async def noted(partition: TopicPartition, offset: int) -> int:
        asked.append((partition.partition, offset))
        return await read_time(partition, offset)

    shore.source.read_time = noted  # type: ignore[method-assign]
    fetched, empty, paused = shore.drivers
    empty.lane.paused = paused.lane.paused = True
    empty.lane.skip_to(4)
    await shore.ends.refresh()
    for _ in range(2):
        await shore.ends.date()
    assert asked == [(2, 0)]
    assert paused.watch.date_of(0) == BORN_MS
    fetched.lane.paused = True
    fetched.lane.newest_ms = 5  # the next one came behind it
    await shore.ends.date()
    assert asked == [(2, 0)]


AWAY = ConnectionLost("a:1")
GONE = OffsetGone("reading t-0 at 0")
DENIED = KafkaRefusal("read time", 29, "Denied", "")


@pytest.mark.parametrize(("error", "asked"), [(AWAY, [0, 2, 1]), (GONE, [0, 1, 2]), (DENIED, [0, 1, 2])])
async def test_a_date_that_does_not_come_is_asked_for_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, error: Exception, asked: list[int]
) -> None:
    shore, now_ms, seen = Shore(), wall_ms(), list[int]()
    read_time = shore.source.read_time

    async def away(partition: TopicPartition, offset: int) -> int:
        seen.append(partition.partition)
        raise error

    for driver in shore.drivers:
        driver.lane.paused = True
    shore.source.read_time = away  # type: ignore[method-assign]
    await shore.ends.refresh()
    for _ in range(3):
        await shore.ends.date()
    assert seen == asked  # a broker that is away is asked for one lane in a look
    assert [driver.watch.date_of(0) for driver in shore.drivers] == [-1] * 3
    shore.source.read_time = read_time  # type: ignore[method-assign]
    monkeypatch.setattr("engine.flow.io.ends.wall_ms", lambda: now_ms + 61_000)
    await shore.ends.date()
    assert [driver.watch.date_of(0) for driver in shore.drivers] == [BORN_MS] * 3


async def test_a_broker_that_is_slow_to_date_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shore = Shore()

    async def silent(_partition: TopicPartition, _offset: int) -> int:
        return await asyncio.Event().wait()

    for driver in shore.drivers:
        driver.lane.paused = True
    shore.source.read_time = silent  # type: ignore[assignment]
    monkeypatch.setattr("engine.flow.io.ends._DATING_S", 0.01)
    await shore.ends.refresh()
    await shore.ends.date()
    assert shore.told == [4, 4, 4]


async def test_a_fetch_that_was_faster_is_believed() -> None:
    shore = Shore()

    def fetched(_partitions: Sequence[TopicPartition]) -> None:
        shore.drivers[0].end.reported(99, 1)

    shore.fail = fetched
    await shore.ends.refresh()
    assert shore.told == [99, 4, 4]


async def test_a_broker_that_is_silent_holds_back_its_own_only() -> None:
    shore, speak = Shore(), asyncio.Event()
    offsets = shore.source.offsets

    async def slow(partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        if TopicPartition("t", 0) in partitions:
            await speak.wait()
        return await offsets(partitions, timestamp_ms)

    shore.source.offsets = slow  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        group.create_task(shore.ends.refresh())
        await turns()
        assert shore.told == [-1, -1, 4]
        speak.set()
    assert shore.told == [4, 4, 4]


async def test_the_next_look_does_not_wait_for_a_broker_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    shore, speak, asked = Shore(), asyncio.Event(), []
    offsets = shore.source.offsets

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)
        shore.drivers[2].end.doubt()

    async def slow(partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        asked.append([one.partition for one in partitions])
        if TopicPartition("t", 0) in partitions:
            await speak.wait()
        return await offsets(partitions, timestamp_ms)

    monkeypatch.setattr("engine.flow.io.ends.pause", pause)
    shore.source.offsets = slow  # type: ignore[method-assign]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(shore.ends.run())
        while asked.count([2]) < 3:  # noqa: ASYNC110 - the fake tells nobody
            await asyncio.sleep(0)
        assert asked.count([0, 1]) == 1  # a broker is asked once at a time
        assert shore.told == [-1, -1, 4]
        speak.set()
        while shore.told != [4, 4, 4]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        running.cancel()


async def test_a_broker_that_cannot_be_asked_twice_is_not_reached_until_it_answers() -> None:
    shore = Shore()

    def reached() -> list[bool]:
        return [driver.end.reached for driver in shore.drivers]

    def gone(partitions: Sequence[TopicPartition]) -> None:
        if TopicPartition("t", 0) in partitions:
            raise ConnectionLost("a:1")

    shore.fail = gone
    shore.drivers[2].leaders.source = NOBODY
    await shore.ends.refresh()
    assert reached() == [True, True, True]
    await shore.ends.refresh()
    assert reached() == [False, False, False], "a partition without a leader has nobody who would tell"
    shore.fail = lambda _partitions: None
    shore.drivers[2].leaders.source = Leader(2, 0, "id")
    await shore.ends.refresh()
    assert (reached(), shore.told) == ([True, True, True], [4, 4, 4])
