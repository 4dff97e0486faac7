"""The events of a flow on their topic: the same cases on the fake and on a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.core.events.events import AnyEvent, LaneReleased, TopicWarning
from engine.flow.topic_logs.event_log import EventLog, EventOptions
from policies.model import FlowName, TopicPartition
from tests.contract.stage import Stage

pytestmark = pytest.mark.contract

_CONFIGS = {"cleanup.policy": "compact,delete"}


def events(flow: FlowName, count: int) -> list[AnyEvent]:
    released = [LaneReleased(flow=flow, lane=TopicPartition("t", number)) for number in range(count)]
    return [TopicWarning(flow=flow, topic="t", what="smaller"), *released]


@asynccontextmanager
async def writing(stage: Stage, where: TopicPartition) -> AsyncIterator[EventLog]:
    """Run a log; at the end everything is written."""
    log = EventLog(EventOptions(flow=FlowName(stage.name, "b"), topic=where.topic), stage.port)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(log.run())
        yield log
        async with asyncio.timeout(180):
            await log.flush()
        task.cancel()
    await log.close()


async def test_events_are_read_back_in_order(stage: Stage) -> None:
    where = await stage.target(_CONFIGS)
    async with writing(stage, where) as log:
        told = events(log.options.flow, 450)
        log.append(told[:1])
        log.append(told[1:])
    async with writing(stage, where) as another:
        found = await another.read()
    assert [one.event for one in found] == told
    assert (log.dropped, log.trouble) == (0, "")
    assert await another.read(since_ms=found[-1].at_ms + 1) == []


async def test_events_ride_through_a_restart(stage: Stage) -> None:
    where = await stage.target(_CONFIGS)
    async with writing(stage, where) as log:
        told = events(log.options.flow, 20)
        log.append(told[:10])
        await log.flush()
        await stage.restart()
        log.append(told[10:])
    assert [one.event for one in await log.read()] == told
    assert log.dropped == 0
