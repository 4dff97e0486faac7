"""Samples of a copier: written if possible, otherwise dropped and counted, never waited for."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable, KafkaRefusal
from engine.core.events.events import AnyEvent
from engine.core.events.progress_events import SamplesNotWritten
from engine.core.reports.progress import FlowProgress
from engine.core.reports.progress_sample import ProgressSample, decode_sample, progress_topic
from engine.flow.ports.ports import Leader
from engine.flow.replication.sample_writer import SampleOptions, SampleWriter
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.core.reports.test_progress_sample import lane

FLOW = FlowName("A", "B")
TOPIC = progress_topic("A")


class Stage:
    """A target in memory, and a snapshot to sample."""

    def __init__(self, *, every_s: float = 0.005) -> None:
        self.cluster = FakeCluster("B")
        self.logs = [self.cluster.target(TOPIC, number) for number in range(2)]
        self.refusals: list[KafkaRefusal] = []
        self.events: list[AnyEvent] = []
        self.latest: FlowProgress | None = None
        options = SampleOptions(flow=FLOW, copier="copier-1", topic=TOPIC, partitions=2, every_s=every_s)
        self.writer = SampleWriter(options, self.cluster, lambda: self.latest, self._prepare, self.events.append)

    async def _prepare(self) -> None:
        if self.refusals:
            raise self.refusals.pop()

    def look(self, at_ms: int, lanes: int = 1) -> None:
        """Take a snapshot."""
        self.latest = FlowProgress(
            flow=FLOW,
            at_ms=at_ms,
            lanes=tuple(lane(number) for number in range(lanes)),
            events=(),
            buffer_bytes=0,
            set_ids=(),
        )

    @property
    def written(self) -> list[ProgressSample]:
        records = [record for log in self.logs for record in log.records()]
        return [decode_sample(record.value or b"") for record in records]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.writer.run())
            async with asyncio.timeout(20):
                yield
            task.cancel()


async def test_every_snapshot_is_written_once_in_bounded_records() -> None:
    stage = Stage()
    await stage.writer.write_once()
    stage.look(1000, lanes=1200)
    await stage.writer.write_once()
    await stage.writer.write_once()
    assert [len(sample.lanes) for sample in stage.written] == [500, 500, 200]
    assert (stage.writer.dropped, stage.writer.trouble, stage.events) == (0, "", [])


async def test_a_record_that_fails_takes_the_rest_of_its_sample_along(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, asked = Stage(), 0
    leaders = stage.cluster.leaders

    async def once_down(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise BrokerUnreachable("B", "it is down")
        return await leaders(partitions)

    monkeypatch.setattr(stage.cluster, "leaders", once_down)
    stage.look(1000, lanes=1200)
    await stage.writer.write_once()
    assert (stage.writer.dropped, stage.written, asked) == (1200, [], 1)
    stage.look(2000, lanes=1200)
    await stage.writer.write_once()
    assert (stage.writer.dropped, len(stage.written), stage.writer.trouble) == (1200, 3, "")


async def test_a_copier_keeps_to_one_partition() -> None:
    stage = Stage()
    for at_ms in range(1000, 1010):
        stage.look(at_ms)
        await stage.writer.write_once()
    assert sorted(len(log.records()) for log in stage.logs) == [0, 10]
    assert [sample.at_ms for sample in stage.written] == list(range(1000, 1010))


async def test_what_cannot_be_written_is_dropped_counted_and_told_once() -> None:
    stage = Stage()
    stage.cluster.down.add(1)
    for at_ms in (1000, 2000):
        stage.look(at_ms, lanes=3)
        await stage.writer.write_once()
    assert stage.writer.dropped == 6
    (event,) = stage.events
    assert isinstance(event, SamplesNotWritten)
    assert "down" in event.why
    stage.cluster.down.clear()
    stage.look(3000)
    await stage.writer.write_once()
    (sample,) = stage.written
    assert sample.all is not None
    assert (sample.at_ms, sample.all.dropped, stage.writer.trouble) == (3000, 6, "")
    assert [type(event).__name__ for event in stage.events] == ["SamplesNotWritten", "WorksAgain"]


async def test_it_begins_when_its_topic_can_be_made_and_goes_on_with_news() -> None:
    stage = Stage()
    stage.refusals = [KafkaRefusal("topic", 29, "not allowed", "allow it")]
    stage.look(1000)
    async with stage.running():
        while len(stage.written) < 3:
            stage.look(stage.latest.at_ms + 1 if stage.latest else 0)
            await asyncio.sleep(0.005)
    assert [type(event).__name__ for event in stage.events] == ["SamplesNotWritten", "WorksAgain"]


async def test_a_broker_that_refuses_is_written_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()

    async def refuse(_: object) -> object:
        raise KafkaRefusal("topic", 29, "not allowed", "allow it")

    monkeypatch.setattr(stage.cluster, "leaders", refuse)
    stage.look(1000)
    await stage.writer.write_once()
    assert "not allowed" in stage.writer.trouble


def test_terms_are_values() -> None:
    options = Stage().writer.options
    assert msgspec.json.decode(msgspec.json.encode(options), type=SampleOptions) == options
    assert TopicPartition(options.topic, 0).topic == "raymirror-progress.A.internal"
