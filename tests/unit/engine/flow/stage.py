"""Two clusters in memory and a copier between them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from engine.core.events.events import AnyEvent, ForeignWriter
from engine.core.lane.pending_batch import Limits
from engine.core.lane.states import State
from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.position import Position, decode_value
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import FetchOptions
from engine.flow.replication.copier import FlowCopier
from policies.model import FlowName, LaneName, PartitionSet, TopicPartition
from policies.start import Earliest
from tests.fakes.cluster import FakeCluster
from tests.fakes.source_log import SourceLog
from tests.fakes.target_log import TargetLog

FLOW = FlowName("A", "B")
POSITIONS = "mm2-offsets.A.internal"
TERMS = FlowOptions(
    limits=Limits(),  # batches are not merged: what a test writes is what the logs hold
    flow=FLOW,
    deployment_id="d",
    positions_topic=POSITIONS,
    positions_partitions=1,
    flush_s=0.2,
    fetch=FetchOptions(max_wait_s=0.02),
    takeover_wait_s=0.0,
    refused_retry_s=0.02,
    drain_s=10.0,
)


def lane_name(partition: int) -> LaneName:
    return LaneName(TopicPartition("t", partition), TopicPartition("A.t", partition))


class Stage:
    """Two clusters with some partitions of topic t, and a copier between them."""

    def __init__(self, partitions: int = 1, make: Callable[[str], FakeCluster] = FakeCluster) -> None:
        self.a, self.b = make("A"), make("B")
        self.sources: list[SourceLog] = [self.a.source("t", index) for index in range(partitions)]
        self.targets: list[TargetLog] = [self.b.target("A.t", index) for index in range(partitions)]
        self.positions = self.b.target(POSITIONS)
        self.blocks = self.b.target(map_topic("A"))
        self.events: list[AnyEvent] = []
        self.copier = self.new_copier()

    def new_copier(self, options: FlowOptions = TERMS) -> FlowCopier:
        return FlowCopier(options, self.a, self.b, lambda _topic: Earliest())

    def assign(self, *, epoch: int = 1, set_id: str = "s", only: Sequence[int] | None = None) -> None:
        partitions = range(len(self.sources)) if only is None else only
        lanes = tuple(lane_name(index) for index in partitions)
        self.copier.assign(PartitionSet(set_id=set_id, flow=FLOW, epoch=epoch, lanes=lanes))

    def driver(self, partition: int = 0) -> LaneDriver:
        return self.copier.drivers[TopicPartition("t", partition)]

    def state(self, partition: int = 0) -> State:
        return self.driver(partition).lane.state

    def copied(self, partition: int = 0) -> list[int]:
        return [int(record.key or b"") for record in self.targets[partition].records()]

    def whole(self, partition: int = 0) -> bool:
        return self.copied(partition) == self.sources[partition].wanted()

    def written_down(self, partition: int = 0) -> bool:
        """Whether all records are answered for, and the position behind them is durable; the target has them before."""
        driver = self.driver(partition)
        return driver.lane.source_next == self.sources[partition].end and driver.positions.settled

    def take_away(self, partition: int = 0) -> None:
        """Somebody else takes the lane's producer id at a newer epoch, and puts up a barrier."""
        transactional_id = TERMS.transactional_id("t", partition)
        producer_id, epoch = self.b.transactional[transactional_id]
        self.b.transactional[transactional_id] = producer_id, epoch + 1
        self.targets[partition].marker(producer_id, epoch + 1)
        self.positions.marker(producer_id, epoch + 1)
        self.blocks.marker(producer_id, epoch + 1)

    def told(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        self.events += self.copier.progress().events
        return [event for event in self.events if isinstance(event, kind)]

    def stored(self) -> Position:
        found = decode_value(self.positions.records()[-1].value)
        assert isinstance(found, Position)
        return found

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the copier; drained at the end, so whatever it raises fails the test."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.copier.run())
            await asyncio.sleep(0)
            yield
            if not task.done():
                await self.copier.drain()


async def stopped_by_another_writer(stage: Stage) -> ForeignWriter:
    """Let a new copier take the lane; return the event about another writer's records that stops it."""
    stage.copier = stage.new_copier()
    stage.assign(epoch=2)
    async with stage.running():
        await until(lambda: stage.state() is State.FAILED)
    (event,) = stage.told(ForeignWriter)
    assert isinstance(event, ForeignWriter)
    return event


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the condition is the state of a fake, which tells nobody
            await asyncio.sleep(0.002)
