"""A fleet without Ray: copiers in memory that die on request."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from actors.control.flow_state import FlowPlan, Plan
from actors.control.ports import (
    ConfigRound,
    ControlSpan,
    CopierVitals,
    DiscoveryAnswer,
    Ports,
    RememberedFlow,
    RoundAnswer,
    SparkPort,
)
from actors.control.supervisor import Supervisor
from actors.model.messages import ConfigRef, MirrorSpec, Orders, Report
from actors.model.spark_status import SparkNews, SparkStatus
from actors.model.status import EventLine
from actors.spark.job_registry import UnknownJobId
from actors.spark.service import SparkOff
from engine.core.events.events import AnyEvent, Event
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.jobs.proof.state import FlowProof
from engine.jobs.runtime.runner import JobLine
from policies.model import FlowName, LaneName, PartitionSet, TopicPartition
from policies.placement.scaling import ScalingLimits
from policies.traffic import TrafficRules

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
    """A CopierPort that follows its orders at once, unless it is deaf."""

    def __init__(self, flow: FlowName, copier_id: str, fingerprint: str, clock: "Clock") -> None:
        self.flow, self.copier_id, self.fingerprint = flow, copier_id, fingerprint
        self.life = CopierVitals(state="starting")
        self.calls: list[str] = []
        self.sets: dict[str, PartitionSet] = {}
        self.slow_to_let_go = False
        self.events: list[AnyEvent] = []
        self.at: dict[LaneName, tuple[int, int]] = {}
        self.deaf = False
        self.adjust: Callable[[FlowProgress], FlowProgress] = lambda progress: progress
        self.frozen_loop = False
        self.hushed = False
        self.trouble = ""
        self.granted_until_s = 0.0
        self.orders = Orders(term=0, version=0, sets=None, lease_s=0.0)
        self._clock = clock
        self.told_traffic: TrafficRules | None = None
        self._due = False
        self._beat = 0

    def vital(self) -> CopierVitals:
        return self.life

    def hush(self) -> None:
        self.hushed = True

    def send(self, orders: Orders) -> None:
        if self.hushed or self.life.state != "ready":
            return
        self.trouble = "deaf" if self.deaf else ""
        if self.deaf or orders.term < self.orders.term:
            return
        self.granted_until_s = self._clock.now_s() + orders.lease_s
        self.told_traffic = orders.traffic or self.told_traffic
        self._due = True
        self._introduce = orders.version == 0
        if orders.version == 0:
            self.orders = msgspec.structs.replace(self.orders, term=orders.term)
            return
        if (orders.term, orders.version) == (self.orders.term, self.orders.version):
            return
        self._note_difference(orders)
        self.orders = orders
        wanted = {group.set_id: group for group in orders.sets or ()}
        if not self.slow_to_let_go:
            self.sets = {set_id: group for set_id, group in self.sets.items() if set_id in wanted}
        self.sets.update(wanted)

    def _note_difference(self, orders: Orders) -> None:
        before, wanted = self.orders, {group.set_id: group for group in orders.sets or ()}
        if orders.paused != before.paused or orders.paused_topics != before.paused_topics:
            self.calls.append(f"pause {'*' if orders.paused else ','.join(sorted(orders.paused_topics)) or 'nothing'}")
        elif orders.wake != before.wake:
            self.calls.append("wake")
        for set_id in sorted(self.sets.keys() - wanted.keys()):
            self.calls.append(f"release {set_id}")
        for set_id, group in wanted.items():
            if self.sets.get(set_id) != group:
                self.calls.append(f"assign {set_id} @{group.epoch} x{len(group.lanes)}")
        if orders.drain and not before.drain:
            self.calls.append("drain")

    def reports(self) -> Sequence[Report]:
        if not self._due or self.deaf or self.life.state != "ready":
            return ()
        self._due = False
        if not self.frozen_loop:
            self._beat += 1
        snapshot = self.snapshot()
        self.events.clear()
        return (
            Report(
                copier_id=self.copier_id,
                fingerprint=self.fingerprint,
                node="n1",
                term=self.orders.term,
                version=self.orders.version,
                stamp=self._clock.now_s(),
                beat=self._beat,
                held={set_id: group.epoch for set_id, group in self.sets.items()},
                progress=snapshot,
                sets=tuple(self.sets.values()),
            ),
        )

    def snapshot(self) -> FlowProgress:
        """Give what a real copier would report."""
        owned = [lane for group in self.sets.values() for lane in group.lanes]
        progress = tuple(
            lane_progress(lane, source_next=self.at.get(lane, (0, 0))[0], source_end=self.at.get(lane, (0, 0))[1])
            for lane in owned
        )
        return self.adjust(
            FlowProgress(
                flow=self.flow,
                at_ms=0,
                lanes=progress,
                events=tuple(self.events),
                buffer_bytes=0,
                set_ids=tuple(self.sets),
                records=sum(lane.records for lane in progress),
                wire_bytes=sum(lane.wire_bytes for lane in progress),
            )
        )


class FakeFleet:
    """A Fleet and a MetadataPort."""

    def __init__(self, clock: "Clock") -> None:
        self.copiers: list[FakeCopier] = []
        self.left: list[FakeCopier] = []
        self.retired: list[str] = []
        self.answers: dict[FlowName, DiscoveryAnswer] = {}
        self.kept: list[RememberedFlow] = []
        self.told: list[Event] = []
        self.given_back: list[FlowName] = []
        self.config_rounds: dict[FlowName, ConfigRound] = {}
        self.round_answers: list[tuple[FlowName, RoundAnswer]] = []
        self.lacking = ""
        self._clock = clock

    def start_copier(self, flow: FlowName, fingerprint: str) -> FakeCopier:
        copier_id = f"copier-{len(self.copiers) + 1}"
        self.copiers.append(FakeCopier(flow, copier_id, fingerprint, self._clock))
        return self.copiers[-1]

    async def run(self) -> None:
        """Have nothing to look for."""

    def lacks(self, flow: FlowName) -> str:
        return self.lacking

    def find_copiers(self) -> Sequence[FakeCopier]:
        self.copiers.extend(self.left)
        return self.left

    def retire(self, copier: object) -> None:
        assert isinstance(copier, FakeCopier)
        self.retired.append(copier.copier_id)

    def found(self, flow: FlowName) -> DiscoveryAnswer:
        answer = self.answers.get(flow, DiscoveryAnswer(serial=0, kept=RememberedFlow()))
        self.answers[flow] = msgspec.structs.replace(answer, events=())
        return answer

    def store_state(self, flow: FlowName, state: RememberedFlow) -> None:
        self.kept.append(state)

    def store_event(self, event: Event) -> None:
        self.told.append(event)

    def give_back(self, flow: FlowName) -> None:
        self.given_back.append(flow)

    def config_round(self, flow: FlowName) -> ConfigRound | None:
        return self.config_rounds.get(flow)

    def answer_round(self, flow: FlowName, answer: RoundAnswer) -> None:
        self.round_answers.append((flow, answer))

    def discover(
        self,
        *names: LaneName,
        highest_epoch: int = 0,
        events: tuple[AnyEvent, ...] = (),
        kept: RememberedFlow | None = RememberedFlow(),  # noqa: B008 # frozen
    ) -> None:
        """Let Metadata answer with these lanes from now on."""
        serial = self.answers.get(FLOW, DiscoveryAnswer(serial=0)).serial + 1
        self.answers[FLOW] = DiscoveryAnswer(
            serial=serial, lanes=names, highest_epoch=highest_epoch, events=events, kept=kept
        )


class Clock:
    """Monotonic seconds that move when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_s(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)


class NoSpark:
    """A SparkPort of a mirror without Spark, and with the proofs that are given."""

    def __init__(self, proofs: dict[str, FlowProof] | None = None) -> None:
        self._proofs = proofs or {}

    def status(self) -> SparkStatus:
        return SparkStatus()

    def note_activity(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> None:
        return

    def take_news(self) -> tuple[SparkNews, ...]:
        return ()

    def take_events(self) -> tuple[Event, ...]:
        return ()

    def proofs(self) -> dict[str, FlowProof]:
        return self._proofs

    def submit(self, job: str, options: bytes, job_id: str = "") -> str:
        raise SparkOff

    def line(self, job_id: str) -> JobLine:
        raise UnknownJobId(job_id)

    def report(self, job_id: str) -> bytes | None:
        raise UnknownJobId(job_id)

    def drop(self, job_id: str) -> None:
        return


class Observed:
    """An Observer that keeps what it hears."""

    def __init__(self) -> None:
        self.lines: list[EventLine] = []
        self.spans: list[ControlSpan] = []

    def count(self, line: EventLine) -> None:
        self.lines.append(line)

    def record(self, span: ControlSpan) -> None:
        self.spans.append(span)


SPEC = MirrorSpec(
    config=ConfigRef(path="mm2.properties", digest="d"),
    namespace="raymirror-t",
    version="0",
    deployment_id="x",
    drain_s=20.0,
)


def ports(fleet: "FakeFleet", clock: Clock, spark: SparkPort | None = None, observer: Observed | None = None) -> Ports:
    """Give what a supervisor over a fake fleet uses."""
    return Ports(fleet, fleet, spark or NoSpark(), observer or Observed(), clock)


def by_topic(
    flow: FlowName, names: tuple[LaneName, ...], known: Mapping[str, tuple[LaneName, ...]], hands: int
) -> Mapping[str, tuple[LaneName, ...]]:
    """Plan one set per topic: simple enough to read in an assertion."""
    topics = sorted({lane.source.topic for lane in names})
    emptied: dict[str, tuple[LaneName, ...]] = dict.fromkeys(known, ())
    return emptied | {
        f"{flow}/{topic}": tuple(lane for lane in names if lane.source.topic == topic) for topic in topics
    }


def make(
    fleet: FakeFleet,
    clock: Clock,
    copiers: int = 1,
    fingerprint: str = "r1",
    most: int = 0,
    plan: Plan = by_topic,
    spark: SparkPort | None = None,
    observer: Observed | None = None,
) -> Supervisor:
    """Make a supervisor of one flow over a fake fleet."""
    limits = ScalingLimits(minimum=copiers, maximum=most or copiers)
    flows = [FlowPlan(name=FLOW, scaling=limits, fingerprint=fingerprint)]
    return Supervisor(SPEC, flows, ports(fleet, clock, spark, observer), plan)
