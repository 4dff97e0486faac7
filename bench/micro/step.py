"""CPU cost of a step of the supervisor with many partitions: `python -m bench.micro.step`.

A real supervisor controls copiers in memory that report once a second; every lane has its own traffic. Only the step
counts, in CPU time of this process, without packing and unpacking of reports. The kinds of steps are separate: ordinary
steps (they weigh sets and check scaling, a few copiers at a time), and steps that take a discovery in, find a dead
copier, or take over from another supervisor.
"""

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Sequence

import msgspec

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from actors.model.messages import Report
from engine.core.reports.progress import FlowProgress, LaneProgress
from policies.model import FlowName, LaneName, TopicPartition
from policies.placement.scaling import ScalingLimits
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeCopier, FakeFleet, ports

_PER_TOPIC = 100
_STEPS = 90
_DISCOVER_EVERY, _KILL_AT = 30, 45


class _Copier(FakeCopier):
    """Prepares its reports before the clock runs; its lanes copy at the rate that their weight in traffic gives."""

    def __init__(self, flow: FlowName, copier_id: str, recipe: str, clock: Clock, traffic: dict[LaneName, int]) -> None:
        super().__init__(flow, copier_id, recipe, clock)
        self.traffic = traffic
        self.prepared: Sequence[Report] = ()

    def reports(self) -> Sequence[Report]:
        taken, self.prepared = self.prepared, ()
        return taken

    def prepare(self) -> None:
        """Prepare the next report."""
        self.prepared = super().reports()

    def snapshot(self) -> FlowProgress:
        now_s = int(self._clock.now_s())
        lanes = tuple(
            LaneProgress(
                lane=lane.source,
                target=lane.target,
                state="copying",
                reason="",
                source_next=now_s * rate,
                target_next=now_s * rate,
                source_end=now_s * rate + rate // 2,
                records=now_s * rate,
                wire_bytes=now_s * rate * 500,
                in_flight=1,
                queued_bytes=0,
                resumed_by="position",
                reencoded=0,
                skipped=0,
                set_id=group.set_id,
                epoch=group.epoch,
                lag_bytes=rate * 250,
                behind_since_ms=now_s * 1000 - 200,
            )
            for group in self.sets.values()
            for lane in group.lanes
            for rate in (self.traffic[lane],)
        )
        return FlowProgress(
            flow=self.flow,
            at_ms=now_s * 1000,
            lanes=lanes,
            events=(),
            buffer_bytes=0,
            set_ids=tuple(self.sets),
            beat=now_s,
            records=sum(lane.records for lane in lanes),
            wire_bytes=sum(lane.wire_bytes for lane in lanes),
        )


class _Fleet(FakeFleet):
    def __init__(self, clock: Clock, traffic: dict[LaneName, int]) -> None:
        super().__init__(clock)
        self.traffic = traffic

    def start_copier(self, flow: FlowName, recipe: str) -> FakeCopier:
        self.copiers.append(_Copier(flow, f"copier-{len(self.copiers) + 1}", recipe, self._clock, self.traffic))
        self.copiers[-1].life = CopierVitals(state="ready")
        return self.copiers[-1]


def _lanes(count: int) -> tuple[LaneName, ...]:
    return tuple(
        LaneName(TopicPartition(topic, number % _PER_TOPIC), TopicPartition(f"A.{topic}", number % _PER_TOPIC))
        for number in range(count)
        for topic in (f"topic-{number // _PER_TOPIC:03d}",)
    )


class _Day:
    """The mirror and its traffic, in steps of a second."""

    def __init__(self, partitions: int, copiers: int) -> None:
        self._random = random.Random(7)
        self.names = _lanes(partitions)
        self.traffic = dict.fromkeys(self.names, 0)
        self.clock = Clock()
        self.fleet = _Fleet(self.clock, self.traffic)
        self._limits = ScalingLimits(minimum=copiers, maximum=copiers + 10)
        self.supervisor = self._begin()

    def take_over(self) -> None:
        """Let another supervisor take the copiers over."""
        self.fleet.left, self.fleet.copiers = [one for one in self.fleet.copiers if one.life.state == "ready"], []
        self.supervisor = self._begin()

    def _begin(self) -> Supervisor:
        return Supervisor(
            SPEC,
            [FlowPlan(name=FLOW, scaling=self._limits, fingerprint="r")],
            ports(self.fleet, self.clock),
        )

    def second(self, number: int) -> str:
        """Advance by a second to the next step; return the kind of that step."""
        self.clock.seconds += 1
        for lane in self.names:
            self.traffic[lane] = max(1, self.traffic[lane] + self._random.randint(-3, 4))
        kind = "ordinary"
        if number % _DISCOVER_EVERY == 0:
            self.fleet.discover(*self.names)
            kind = "discovery"
        elif number == _KILL_AT:
            self.fleet.copiers[0].life = CopierVitals(state="dead", cause="bench")
            kind = "death"
        for copier in self.fleet.copiers:
            if isinstance(copier, _Copier) and copier.life.state == "ready":
                copier.prepare()
        return kind


def measure(partitions: int, copiers: int, steps: int = _STEPS) -> dict[str, dict[str, float]]:
    """Return the milliseconds of CPU of the steps, by kind, and of a status without and with lanes."""
    day = _Day(partitions, copiers)
    found: dict[str, list[float]] = {}
    gc.collect()
    for number in range(steps):
        kind = day.second(number)
        began = time.process_time()
        day.supervisor.step()
        spent_ms = (time.process_time() - began) * 1000
        found.setdefault(kind if number > 2 else "start", []).append(spent_ms)
        for name, lanes in (("status", False), ("status_lanes", True)):
            began = time.process_time()
            status = day.supervisor.status(lanes=lanes)
            found.setdefault(name, []).append((time.process_time() - began) * 1000)
    day.take_over()
    for number in range(1, 6):
        day.second(number)
        began = time.process_time()
        day.supervisor.step()
        found.setdefault("takeover", []).append((time.process_time() - began) * 1000)
    assert len(msgspec.structs.asdict(status)["lanes"]) == partitions
    return {
        kind: {"count": len(each), "median_ms": round(statistics.median(each), 2), "max_ms": round(max(each), 2)}
        for kind, each in found.items()
    }


def main() -> None:
    """Print a row for each kind of step, and one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.step")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--copiers", type=int, default=50)
    args = parser.parse_args()
    found = measure(args.partitions, args.copiers)
    for kind, figures in found.items():
        print(f"{kind:13} {figures}")
    print(json.dumps({"bench": "micro.step", "partitions": args.partitions, "copiers": args.copiers, "cpu": found}))


if __name__ == "__main__":
    main()
