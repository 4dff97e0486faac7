"""Runs one fault once: starts everything, waits for records, the fault, the end of the load, the drain, the judging."""

import os
import time
from pathlib import Path

import msgspec

from bench.recovery.compare import Difference
from bench.recovery.control import controlled
from bench.recovery.far.figures import FarFigures, far_figures, wait_full
from bench.recovery.far.flight import flight_watched
from bench.recovery.fault import Fault
from bench.recovery.gaps import longest_pause, longest_wait, usual_pause
from bench.recovery.group_judging import GroupFigures, end_movers, judge_groups
from bench.recovery.judging import DRAIN_S, FAR_DRAIN_S, end_load, judge, wait_drained
from bench.recovery.opening import Size, opened, wait_abreast, wait_flowing
from bench.recovery.scene import Cause, Scene
from bench.recovery.stage import Stage
from bench.recovery.watching import Healthy, Watched, end_watch, judge_healthy, watched


class Row(GroupFigures, frozen=True, kw_only=True):
    """One run, as in the JSON. Seconds and records.

    `pause_s`: longest time without progress of any partition, around the fault. `usual_s`: the same in the calm before.
    `after_s`: longest wait of a partition that had something to copy, counted from the end of the cause, which
    lasted `cause_s`. `machine_load`: processes that ran or wanted to over the last minute, the bench's own included;
    above the number of cores, all times are longer. `failures` says in words what was wrong besides missing, doubled
    and misplaced records; wrong checkpoints are among them.
    """

    fault: str
    run: int
    pause_s: float
    lost: int
    duplicated: int
    reordered: int
    usual_s: float
    after_s: float
    cause_s: float
    bound: str
    bound_s: float
    met: bool
    records: int
    foreign: int
    machine_load: float
    notes: list[str]
    failures: list[str]
    phases_s: dict[str, float] = msgspec.field(default_factory=dict)
    """How long each part of the run took, in order."""
    healthy: Healthy | None = None
    """Lanes that the fault did not hit, from its start on; None if it hits all."""
    far: FarFigures | None = None
    """Over a distance: the windows, the proof, the translations, the merging."""

    @property
    def is_whole(self) -> bool:
        """Whether the copy is exact and nothing else was wrong; a bound that was not met is not counted here."""
        return not (self.lost or self.duplicated or self.reordered or self.failures)


class _Phases:
    """How long the parts of a run take, in seconds."""

    def __init__(self) -> None:
        self.took_s: dict[str, float] = {}
        self._at = time.monotonic()

    def end(self, name: str) -> None:
        """End a part; the next one begins."""
        now = time.monotonic()
        self.took_s[name] = round(now - self._at, 1)
        self._at = now


def play(fault: Fault, run: int, stage: Stage, size: Size, folder: Path) -> Row:
    """Run one fault once. Raises BenchError when there is nothing to judge."""
    folder.mkdir(parents=True)
    phases = _Phases()
    topic = f"{fault.id.replace('_', '-')}-{run}-{time.time_ns() // 10**9 % 10**6}"
    partitions = size.partitions + fault.more_partitions
    if size.far is not None:
        seconds = size.before_s + fault.copies_s + size.after_s
        size = msgspec.structs.replace(size, far=size.far.lasting(seconds))
    opening = opened(
        *(stage, size, folder, topic),
        ray=fault.ray,
        properties=fault.properties,
        more_topics=fault.more_topics,
        prepare=fault.prepare,
    )
    with (
        controlled(stage, folder, wanted=fault.spares_lanes) as is_controlled,
        opening as scene,
        watched(scene, partitions, folder, controlled=is_controlled) as watch,
        flight_watched(scene.mirror.env, wanted=size.far is not None) as flight,
    ):
        wait_flowing(scene)
        phases.end("start")
        calm_from = wait_abreast(scene, size) if size.far is None else wait_full(scene, flight, size.far)
        phases.end("windows")
        scene.stay(size.before_s)
        phases.end("calm")
        machine_load = os.getloadavg()[0]
        calm = calm_from, time.monotonic()
        cause = fault.act(scene)
        (folder / "cause.json").write_bytes(msgspec.json.encode(cause))
        phases.end("fault")
        scene.stay(size.after_s)
        phases.end("after")
        sent = end_load(scene)
        standing = end_movers(scene.movers) if scene.movers is not None else None
        wait_drained(scene, partitions, DRAIN_S if size.far is None else FAR_DRAIN_S)
        phases.end("drain")
        source, target, difference = judge(scene, partitions, folder)
        until = time.monotonic()
        phases.end("read")
        groups = GroupFigures()
        if standing is not None:
            groups = judge_groups(scene, standing, source, target, target_lost=fault.target_loses)
        phases.end("groups")
        fault.check(scene)
        seen = end_watch(watch, source, target)
        far = None
        if size.far is not None:
            copies = source, target
            far = far_figures(scene, flight, size.far, calm_from, cause, copies, folder, target_lost=fault.target_loses)
            phases.end("proof")
    if difference.records != sent:
        scene.notes.append(f"the source has {difference.records} of {sent} acknowledged records")
    row = _row(fault, run, scene, cause, difference, seen, calm, until, machine_load)
    return msgspec.structs.replace(row, **msgspec.structs.asdict(groups), far=far, phases_s=phases.took_s)


def _row(
    fault: Fault,
    run: int,
    scene: Scene,
    cause: Cause,
    difference: Difference,
    seen: Watched,
    calm: tuple[float, float],
    until: float,
    machine_load: float,
) -> Row:
    pause_s = longest_pause(seen.feeds.values(), cause.began, until)
    usual_s = usual_pause(seen.feeds.values(), *calm)
    after_s = longest_wait(seen.feeds.values(), cause.ended, until).length
    healthy = judge_healthy(seen, scene.hit, cause.began, until)
    if healthy is not None and not healthy.lanes:
        scene.failures.append("the fault hit every lane: no healthy lane is left to judge")
    return Row(
        fault=fault.id,
        run=run,
        pause_s=round(pause_s, 3),
        lost=difference.lost,
        duplicated=difference.duplicated,
        reordered=difference.reordered,
        usual_s=round(usual_s, 3),
        after_s=round(after_s, 3),
        cause_s=round(cause.ended - cause.began, 3),
        bound=fault.bound.value,
        bound_s=fault.bound_s,
        met=fault.is_met(pause_s, after_s, usual_s, healthy.most_s if healthy is not None else 0.0),
        records=difference.records,
        foreign=difference.foreign,
        machine_load=round(machine_load, 1),
        notes=scene.notes,
        failures=scene.failures,
        healthy=healthy,
    )
