"""`soak`: exactness and memory of one mirror under load and random faults for a long time."""

import argparse
import contextlib
import logging
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.acts_mirror import three_nodes
from bench.recovery.acts_topics import ADDED
from bench.recovery.control import controlled
from bench.recovery.fault import nothing
from bench.recovery.judging import end_load, judge, wait_drained
from bench.recovery.memory import MemoryWatch, summarise
from bench.recovery.mirror import COPIER, METADATA, SUPERVISOR
from bench.recovery.opening import Size, opened, wait_abreast, wait_flowing
from bench.recovery.scene import Scene
from bench.recovery.stage import Stage, StageKind
from bench.recovery.table import FAULTS
from bench.recovery.watching import Healthy, end_watch, judge_healthy, watched

LEFT_OUT = ("unclean_election", "topic_delete")
"""An unclean election loses nothing that two replicas have; a deleted topic is not compared with anything."""
SOAKED = tuple(fault for fault in FAULTS if fault not in LEFT_OUT)
MOST_WIDENINGS = 3
_RECOVERED_S = 120.0
_CALM_S = (3.0, 15.0)
_EFFECT_S = 2.0
"""Seconds: a status must be this much newer than the fault, because an older one may not show it."""


class Blow(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the soak, in seconds: when it came, how long its cause lasted, how long from then (and from a new
    node or a new follower, if it needs one) until all was copied, None if that took too long.
    """

    fault: str
    at_s: float
    cause_s: float
    recovered_s: float | None
    healthy: Healthy | None = None
    """The lanes that it did not hit, from its start until its cause was over; None if it hits all."""

    @property
    def stood(self) -> bool:
        """Whether a lane that it did not hit made no progress for too long, or no such lane was left to judge."""
        healthy = self.healthy
        return healthy is not None and not (healthy.lanes and healthy.most_s <= FAULTS[self.fault].healthy_s)


class _Hit(NamedTuple):
    """The lanes that a fault hit, and the range of time that is judged; monotonic seconds."""

    lanes: dict[int, tuple[str, ...]] | None
    began: float
    until: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--minutes", type=float, help="length of the soak in minutes (default 20, quick 3)")
    parser.add_argument("--seed", type=int, help="seed of the order of faults (default: random; it is printed)")
    parser.add_argument("--fault", nargs="+", metavar="ID", default=list(SOAKED), help=f"any of {', '.join(SOAKED)}")
    parser.add_argument("--per-s", type=int, default=5000, help="records per second (default 5000)")
    parser.add_argument("--partitions", type=int, help="partitions of the topic (default 40, quick 8)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store the logs here")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the soak and return its JSON object. Raises BenchError."""
    if unknown := [fault for fault in args.fault if fault not in SOAKED]:
        raise BenchError("bench", f"no fault {unknown[0]!r} here; there are {', '.join(SOAKED)}")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    minutes = args.minutes or (3.0 if args.quick else 20.0)
    seed = args.seed if args.seed is not None else time.time_ns() % 100_000
    size = Size(partitions=args.partitions or (8 if args.quick else 40), per_s=args.per_s)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="rms-") as name:
        folder = (args.keep or Path(name)) / "soak"
        folder.mkdir(parents=True)
        stage = Stage(soak_stage(args.fault), Path(name) / "clusters")
        with contextlib.closing(stage):
            found = _soak(stage, size, folder, minutes * 60, random.Random(seed), args.fault)
    found |= {"seed": seed, "minutes": minutes, "size": msgspec.to_builtins(size), "machine": machine()}
    return {"bench": "soak", "systems": {"raymirror": found}, "ratios": {}, "failed": found["failed"]}


def soak_stage(faults: list[str]) -> StageKind:
    """Return the needs of all these faults together: the most source brokers that any of them needs."""
    return StageKind(proxied=True, source_brokers=max(FAULTS[fault].stage.source_brokers for fault in faults))


def _soak(
    stage: Stage, size: Size, folder: Path, seconds: float, chance: random.Random, faults: list[str]
) -> dict[str, Any]:
    properties = {key: value for fault in faults for key, value in FAULTS[fault].properties.items()}
    opening = opened(stage, size, folder, "soak", ray=three_nodes, properties=properties, prepare=nothing)
    most = size.partitions + MOST_WIDENINGS * ADDED
    wanted = any(FAULTS[fault].spares_lanes for fault in faults)
    with (
        controlled(stage, folder, wanted=wanted) as is_controlled,
        opening as scene,
        watched(scene, most, folder, controlled=is_controlled) as watch,
    ):
        wait_flowing(scene)
        wait_abreast(scene, size)
        memory = MemoryWatch(lambda: {role: scene.find(title) for role, title in _ROLES.items()})
        memory.start()
        rain = _rain(scene, seconds, chance, faults)
        memory.stop()
        sent = end_load(scene)
        wait_drained(scene, scene.partitions)
        source, target, difference = judge(scene, scene.partitions, folder)
        seen = end_watch(watch, source, target)
    blows = [replace(blow, healthy=judge_healthy(seen, *hit)) for blow, hit in rain]
    roles = summarise(memory.readings)
    stuck = [blow.fault for blow in blows if blow.recovered_s is None]
    flat = all(role.is_flat for role in roles.values())
    stood = [blow.fault for blow in blows if blow.stood]
    for blow in blows:
        if blow.healthy is not None:
            print(f"{blow.fault} at {blow.at_s:.0f} s: {blow.healthy}{' TOO LONG' if blow.stood else ''}", flush=True)
    print(f"{len(blows)} faults, {difference}, memory {'flat' if flat else 'NOT FLAT'}: {roles}", flush=True)
    return {
        **msgspec.structs.asdict(difference),
        "sent": sent,
        "faults": msgspec.to_builtins(blows),
        "not_recovered": stuck,
        "healthy_stood": stood,
        "memory": msgspec.to_builtins(roles),
        "memory_flat": flat,
        "notes": scene.notes,
        "failed": bool(stuck or stood) or not difference.is_whole or not flat,
    }


_ROLES = {"copier": COPIER, "supervisor": SUPERVISOR, "metadata": METADATA}


def _rain(scene: Scene, seconds: float, chance: random.Random, faults: list[str]) -> list[tuple[Blow, _Hit]]:
    """Run one fault after the other, each after the last one is over and copied, until the time has passed."""
    rain: list[tuple[Blow, _Hit]] = []
    began_at = time.monotonic()
    while (at_s := time.monotonic() - began_at) < seconds:
        name = chance.choice(faults)
        if name == "add_partitions" and sum(blow.fault == name for blow, _ in rain) == MOST_WIDENINGS:
            continue
        scene.hit = None
        cause = FAULTS[name].act(scene)
        hit = _Hit(scene.hit, cause.began, time.monotonic())
        FAULTS[name].mend(scene)
        recovered_s = _until_copied(scene)
        blow = Blow(
            fault=name,
            at_s=round(at_s, 1),
            cause_s=round(cause.ended - cause.began, 1),
            recovered_s=None if recovered_s is None else round(recovered_s, 1),
        )
        rain.append((blow, hit))
        print(blow, flush=True)
        scene.stay(chance.uniform(*_CALM_S))
    return rain


def _until_copied(scene: Scene) -> float | None:
    """Wait until the mirror reports that all partitions are copied and the lag is small; return the seconds, None after
    two minutes. The mirror's report is enough here: at the end every record is compared.
    """
    since, since_ms = time.monotonic(), (time.time() + _EFFECT_S) * 1000
    while (waited_s := time.monotonic() - since) < _RECOVERED_S:
        scene.stay(0.5)
        status = scene.mirror.status()
        if not status or status["at_ms"] < since_ms:
            continue
        (flow,) = status["flows"]
        states = flow["lane_states"]
        copying = states.get("copying", 0) == flow["lanes"] == scene.partitions
        if copying and flow["lag_records"] is not None and flow["lag_records"] < _SMALL_LAG * scene.partitions:
            return waited_s
    return None


_SMALL_LAG = 500
"""Records of lag per partition: a little more than a mirror under load has at any time."""
