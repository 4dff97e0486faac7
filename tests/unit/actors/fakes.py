"""A fleet without Ray: copiers that live in memory, and die when told to."""

from collections.abc import Mapping

import msgspec

from actors.ports import CopierUnreachable, Found, Vital
from actors.supervisor import FlowPlan, Identity, Supervisor
from engine.core.events import AnyEvent
from engine.core.progress import FlowProgress, LaneProgress
from policies.model import FlowName, LaneName, PartitionSet, TopicPartition

FLOW = FlowName("A", "B")


def lanes(topic: str, count: int, first: int = 0) -> tuple[LaneName, ...]:
    """Make the lanes of one topic."""
    return tuple(
        LaneName(TopicPartition(topic, number), TopicPartition(f"A.{topic}", number))
        for number in range(first, first + count)
    )


def lane_progress(lane: LaneName, *, source_next: int = 0, source_end: int = 0, state: str = "copying") -> LaneProgress:
    """Make a lane's progress."""
    return LaneProgress(
        lane=lane.source,
        target=lane.target,
        state=state,
        reason="",
        source_next=source_next,
        target_next=source_next,
        source_end=source_end,
        records=max(0, source_next),
        wire_bytes=max(0, source_next) * 100,
        in_flight=0,
        queued_bytes=0,
        resumed_by="start",
        reencoded=0,
        skipped=0,
    )


class FakeCopier:
    """A CopierPort that notes what it was told."""

    def __init__(self, flow: FlowName, copier_id: str) -> None:
        self.flow, self.copier_id = flow, copier_id
        self.life = Vital(state="starting")
        self.calls: list[str] = []
        self.sets: dict[str, PartitionSet] = {}
        self.events: list[AnyEvent] = []
        self.at: dict[LaneName, tuple[int, int]] = {}
        self.deaf = False

    def vital(self) -> Vital:
        return self.life

    async def assign(self, partition_set: PartitionSet) -> None:
        self._hear(f"assign {partition_set.set_id} @{partition_set.epoch} x{len(partition_set.lanes)}")
        self.sets[partition_set.set_id] = partition_set

    async def pause(self, topics: frozenset[str] | None) -> None:
        self._hear(f"pause {'*' if topics is None else ','.join(sorted(topics))}")

    async def resume(self, topics: frozenset[str] | None) -> None:
        self._hear(f"resume {'*' if topics is None else ','.join(sorted(topics))}")

    async def drain(self) -> None:
        self._hear("drain")

    async def progress(self) -> FlowProgress:
        if self.deaf:
            raise CopierUnreachable(self.copier_id, "progress", "deaf")
        snapshot = self.snapshot()
        self.events.clear()
        return snapshot

    def snapshot(self) -> FlowProgress:
        """Give what a real copier would report."""
        owned = [lane for group in self.sets.values() for lane in group.lanes]
        return FlowProgress(
            flow=self.flow,
            at_ms=0,
            lanes=tuple(
                lane_progress(lane, source_next=self.at.get(lane, (0, 0))[0], source_end=self.at.get(lane, (0, 0))[1])
                for lane in owned
            ),
            events=tuple(self.events),
            buffer_bytes=0,
            set_ids=tuple(self.sets),
        )

    def _hear(self, call: str) -> None:
        if self.deaf:
            raise CopierUnreachable(self.copier_id, call, "deaf")
        self.calls.append(call)


class FakeFleet:
    """A Fleet and a MetadataPort."""

    def __init__(self) -> None:
        self.copiers: list[FakeCopier] = []
        self.retired: list[str] = []
        self.answers: dict[FlowName, Found] = {}
        self.metadata_down = False

    def start_copier(self, flow: FlowName, copier_id: str) -> FakeCopier:
        self.copiers.append(FakeCopier(flow, copier_id))
        return self.copiers[-1]

    async def retire(self, copier: object) -> None:
        assert isinstance(copier, FakeCopier)
        self.retired.append(copier.copier_id)

    async def found(self, flow: FlowName) -> Found:
        if self.metadata_down:
            raise CopierUnreachable("metadata", "found", "down")
        answer = self.answers.get(flow, Found(serial=0))
        self.answers[flow] = msgspec.structs.replace(answer, events=())
        return answer

    def discover(self, *names: LaneName, highest_epoch: int = 0, events: tuple[AnyEvent, ...] = ()) -> None:
        """Let Metadata answer with these lanes from now on."""
        serial = self.answers.get(FLOW, Found(serial=0)).serial + 1
        self.answers[FLOW] = Found(serial=serial, lanes=names, highest_epoch=highest_epoch, events=events)


class Clock:
    """Monotonic seconds that move when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def by_topic(
    flow: FlowName, names: tuple[LaneName, ...], known: Mapping[str, PartitionSet], hands: int
) -> tuple[PartitionSet, ...]:
    """Plan one set per topic: simple enough to read in an assertion."""
    topics = sorted({lane.source.topic for lane in names})
    return tuple(
        PartitionSet(
            set_id=f"{flow}/{topic}",
            flow=flow,
            epoch=0,
            lanes=tuple(lane for lane in names if lane.source.topic == topic),
        )
        for topic in topics
    )


def make(fleet: FakeFleet, clock: Clock, copiers: int = 1) -> Supervisor:
    """Make a supervisor of one flow over a fake fleet."""
    return Supervisor(
        Identity(namespace="raymirror-t", version="0", config_path="mm2.properties", config_digest="d"),
        [FlowPlan(name=FLOW, copiers=copiers)],
        fleet=fleet,
        metadata=fleet,
        plan=by_topic,
        clock_s=clock,
        wall_ms=lambda: int(clock.now_s * 1000),
        drain_s=20.0,
    )
