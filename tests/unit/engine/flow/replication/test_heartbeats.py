"""Heartbeats of a pair of clusters: in order, in MM2's bytes, one event if they cannot be written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.clock import pause, wall_ms
from engine.base.errors import BrokerUnreachable, KafkaRefusal
from engine.core.events.events import AnyEvent, Mm2TopicFailed
from engine.core.events.recovery_events import WorksAgain
from engine.core.lane.outcome import Outcome
from engine.core.mm2.mm2_records import Heartbeat, decode_heartbeat
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Payload
from engine.flow.replication import heartbeats
from engine.flow.replication.heartbeats import HeartbeatPlan, Heartbeats
from policies.model import FlowName
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.flow.stage import until

BACK = FlowName("B", "A")
EVERY_S = 0.01


class Stage:
    """A cluster with a heartbeats topic, and who writes there."""

    def __init__(self) -> None:
        self.cluster = FakeCluster("A")
        self.log = self.cluster.target("heartbeats")
        self.events: list[AnyEvent] = []
        self.not_ready: list[Exception] = []
        self.readied = 0
        plan = HeartbeatPlan(BACK, "heartbeats", EVERY_S, FlowName("A", "B"))
        self.beats = Heartbeats(plan, self.cluster, self.ready, self.events.append)

    async def ready(self) -> None:
        self.readied += 1
        if self.not_ready:
            raise self.not_ready[0]

    def written(self) -> list[Heartbeat]:
        return [decode_heartbeat(record.key, record.value) for record in self.log.records()]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.beats.run())
            yield
            task.cancel()


async def test_one_after_another_with_the_records_own_time() -> None:
    stage, began_ms = Stage(), wall_ms()
    async with stage.running():
        await until(lambda: len(stage.written()) >= 3)
    found = stage.written()
    assert {(one.source, one.target) for one in found} == {("B", "A")}
    times = [one.timestamp_ms for one in found]
    assert times == sorted(times) == [record.timestamp for record in stage.log.records()]
    assert began_ms <= times[0] <= times[-1] <= wall_ms()
    assert stage.readied == 1
    assert stage.events == []


@pytest.mark.parametrize(("takes", "beats"), [(0.8, 20), (0.98, 20), (1.5, 10)])
async def test_a_write_that_takes_most_of_the_interval_halves_no_rate(
    takes: float, beats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    send = PartitionWriter.send

    async def slow(writer: PartitionWriter, batch: Payload) -> Outcome:
        await pause(takes * EVERY_S)
        return await send(writer, batch)

    monkeypatch.setattr(PartitionWriter, "send", slow)
    async with stage.running():
        await until(stage.written)
        before = len(stage.written())
        await pause(20 * EVERY_S)
        assert abs(len(stage.written()) - before - beats) <= 1


async def test_a_refusal_is_one_event_and_is_tried_again() -> None:
    stage = Stage()
    stage.log.refuses = lambda key: True
    async with stage.running():
        await until(lambda: stage.events)
        await until(lambda: stage.beats.trouble)
        stage.log.refuses = lambda key: False
        await until(lambda: stage.written() and not stage.beats.trouble)
        stage.log.refuses = lambda key: True
        await until(lambda: len(stage.events) == 3)
    event, again, _ = stage.events
    assert isinstance(event, Mm2TopicFailed)
    assert (again.about, again.text()) == (event.about, "heartbeats: raymirror can write to this topic again")
    assert (event.flow, event.topic, event.cluster) == (FlowName("A", "B"), "heartbeats", "A")


@pytest.mark.parametrize(
    "failure", [BrokerUnreachable("a:1", "down"), KafkaRefusal("creating", 38, "InvalidReplicationFactor", "")]
)
async def test_a_cluster_that_is_away_is_told_after_a_while(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "_TOLD_AFTER_S", 0.05)
    stage = Stage()
    stage.not_ready = [failure]
    async with stage.running():
        await until(lambda: stage.events)
        stage.not_ready.clear()
        await until(lambda: len(stage.events) == 2)
    event, again = stage.events
    assert str(failure) in event.text()
    assert isinstance(again, WorksAgain)


async def test_a_broker_that_goes_and_comes_back_is_no_event() -> None:
    stage = Stage()
    async with stage.running():
        await until(stage.written)
        stage.cluster.down.add(1)
        stage.cluster.lose(1)
        await until(lambda: stage.beats.trouble)
        count = len(stage.written())
        stage.cluster.down.clear()
        await until(lambda: len(stage.written()) > count)
    assert stage.events == []
