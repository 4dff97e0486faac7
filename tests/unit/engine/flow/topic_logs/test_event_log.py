"""Events while the target is unreachable or refuses them: no waiting, bounded memory, lost events are reported."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.events.events import LaneRefused
from engine.flow.topic_logs.event_log import EventLog, EventOptions
from engine.state.event_records import EventRecord, EventsDropped
from engine.state.state import events_topic
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster

FLOW = FlowName("A", "B")
LANE = TopicPartition("t", 0)


def event(number: int, size: int = 0) -> LaneRefused:
    padding = random.Random(number).randbytes(size // 2).hex()  # does not compress well
    return LaneRefused(flow=FLOW, lane=LANE, what=f"{number} {padding}")


def numbers(records: Sequence[EventRecord]) -> list[int]:
    return [int(one.event.what.split()[0]) for one in records if isinstance(one.event, LaneRefused)]


class Stage:
    """A target in memory with an events topic."""

    def __init__(self, queue: int = 100) -> None:
        self.cluster = FakeCluster("B")
        self.topic = self.cluster.target(events_topic("A"))
        options = EventOptions(flow=FLOW, topic=events_topic("A"), queue=queue, patience_s=0.2)
        self.log = EventLog(options, self.cluster)

    def cut(self) -> None:
        self.cluster.lose(1)
        self.cluster.down.add(1)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.log.run())
            yield
            async with asyncio.timeout(20):
                await self.log.flush()
            task.cancel()
        await self.log.close()


async def test_a_full_queue_drops_its_oldest_and_says_so() -> None:
    stage = Stage(queue=10)
    stage.cut()
    stage.log.append(event(number) for number in range(25))
    assert stage.log.dropped == 15
    async with stage.running():
        async with asyncio.timeout(20):
            while "down" not in stage.log.trouble:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.005)
        stage.cluster.down.clear()
    assert stage.log.trouble == ""
    found = await stage.log.read()
    assert numbers(found) == list(range(15, 25))
    (dropped,) = [one.event for one in found if isinstance(one.event, EventsDropped)]
    assert dropped.count == 15


async def test_one_event_too_large_takes_no_other_along() -> None:
    stage = Stage()
    stage.topic.max_bytes = 2000
    async with stage.running():
        stage.log.append([event(1), event(2, size=5000), event(3)])
    found = await stage.log.read()
    assert numbers(found) == [1, 3]
    assert stage.log.dropped == 1
    assert [one.event.count for one in found if isinstance(one.event, EventsDropped)] == [1]


async def test_refused_events_are_dropped_and_told_once_others_pass() -> None:
    stage = Stage()
    stage.topic.refuses = lambda _key: True
    async with stage.running():
        stage.log.append([event(1), event(2)])
        async with asyncio.timeout(20):
            await stage.log.flush()
        assert stage.log.dropped == 2
        assert stage.log.trouble == "refused"
        (told,) = stage.log.take_events()
        assert told.text() == f"{events_topic('A')}: events are not stored: refused"
        stage.log.append([event(2)])
        async with asyncio.timeout(20):
            await stage.log.flush()
        assert stage.log.take_events() == [], "it was told"
        stage.topic.refuses = lambda _key: False
        stage.log.append([event(3)])
    found = await stage.log.read()
    assert numbers(found) == [3]
    assert [one.event.count for one in found if isinstance(one.event, EventsDropped)] == [3]
    stage.log.refused("the next refusal")
    assert [one.why for one in stage.log.take_events()] == ["the next refusal"]


async def test_nothing_to_append_is_nothing_to_wait_for() -> None:
    stage = Stage()
    stage.log.append([])
    async with stage.running():
        pass
    assert await stage.log.read() == []


async def test_reading_from_a_target_that_is_away_ends() -> None:
    stage = Stage()

    def away(_asked: str, _partitions: Sequence[TopicPartition]) -> None:
        raise ConnectionLost("cut off")

    stage.cluster.fail = away
    with pytest.raises(BrokerUnreachable, match=r"raymirror-events.A.internal on cluster 'B': .* 0.2 s: .*cut off"):
        await stage.log.read()
