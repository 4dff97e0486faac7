"""`upgrade`: exactness of a copy by two releases that take turns under load, stopped in order and killed."""

import argparse
import asyncio
import contextlib
import json
import logging
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.fault import nothing
from bench.recovery.judging import end_load, judge, wait_drained
from bench.recovery.opening import FLOWING_S, Size, opened, wait_flowing
from bench.recovery.scene import Scene
from bench.recovery.stage import Stage, StageKind, describe
from deploy.local.cluster import EmbeddedCluster
from tests.harness.variant import write_next_release

ROUNDS = 2
_ROOT = Path(__file__).parents[2]
_SETTINGS = {"replication.factor": "1", "offset.storage.replication.factor": "1", "offset.storage.partitions": "3"}
_CALM_S = 4.0
_QUIET_S = 5.0
_GROWN = 20
"""Records of each partition that a new mirror must have copied before it counts as copying."""
HOWS = ("stop", "kill")


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One change: the next release, how the previous one ended, seconds until the next one copies everything."""

    to: str
    how: str
    flowing_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument(
        "--other",
        type=Path,
        metavar="FOLDER",
        help="a checkout of the other release (default: this one with every format one version up)",
    )
    parser.add_argument("--rounds", type=int, help=f"rounds of four changes each (default {ROUNDS}, quick 1)")
    parser.add_argument("--per-s", type=int, default=5000, help="records per second (default 5000)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store the logs here")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench; return its JSON; `failed`: a record is missing, doubled or misplaced, or one side never wrote."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    size = Size(partitions=8 if args.quick else 40, per_s=args.per_s)
    with tempfile.TemporaryDirectory(prefix="rmu-") as name:
        other = args.other.resolve() if args.other else write_next_release(_ROOT, Path(name) / "next")
        if not (other / "actors" / "__main__.py").exists():
            raise BenchError("upgrade", f"{other} is no checkout of raymirror")
        folder = (args.keep or Path(name)) / "upgrade"
        folder.mkdir(parents=True)
        with contextlib.closing(Stage(StageKind(target_brokers=1), Path(name) / "clusters")) as stage:
            found = take_turns(stage, size, folder, other, args.rounds or (1 if args.quick else ROUNDS))
    return {
        "bench": "upgrade",
        "systems": {"raymirror": found},
        "ratios": {},
        "other": "given" if args.other else "next",
        "size": msgspec.to_builtins(size),
        "machine": machine(),
        "failed": found["failed"],
    }


def take_turns(stage: Stage, size: Size, folder: Path, other: Path, rounds: int) -> dict[str, Any]:
    """Let this release and another one copy in turn, then compare every record. Raises BenchError."""
    turns: list[Turn] = []
    told: dict[tuple[int, str], str] = {}
    with opened(stage, size, folder, "upgrade", ray=None, properties=_SETTINGS, prepare=nothing) as scene:
        wait_flowing(scene)
        for _ in range(rounds):
            for how in HOWS:
                for name, code in (("other", other), ("this", _ROOT)):
                    scene.stay(_CALM_S)
                    told |= _events(scene)
                    turns.append(_turn(scene, name, code, how))
                    print(turns[-1], flush=True)
        scene.stay(_CALM_S)
        sent = end_load(scene)
        wait_drained(scene, scene.partitions)
        told |= _events(scene)
        *_, difference = judge(scene, scene.partitions, folder)
        formats = asyncio.run(read_formats(stage.target, "mm2-offsets.source.internal"))
    print(f"{len(turns)} changes, {difference}, positions by format {dict(formats)}", flush=True)
    return {
        **msgspec.structs.asdict(difference),
        "sent": sent,
        "turns": msgspec.to_builtins(turns),
        "positions_by_format": {str(version): count for version, count in sorted(formats.items())},
        "notes": scene.notes,
        "errors": [text for (_, text), severity in sorted(told.items()) if severity == "error"],
        "failed": not difference.is_whole or bool(scene.notes) or len(formats) < 2,
    }


async def read_formats(cluster: EmbeddedCluster, topic: str) -> "Counter[int]":
    """Count the positions that are still in their topic by the version of their format: this shows who wrote them."""
    (described,) = await describe(cluster, topic)
    partitions = [TopicPartition(topic, one["partition"]) for one in described["partitions"]]
    servers = cluster.bootstrap_servers
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(partitions)
        found: Counter[int] = Counter()
        while batches := await consumer.getmany(timeout_ms=int(_QUIET_S * 1000)):
            values = [record.value for records in batches.values() for record in records]
            found.update(json.loads(value)["raymirror"] for value in values if value)
    finally:
        await consumer.stop()
    return found


def _events(scene: Scene) -> dict[tuple[int, str], str]:
    return {(event["at_ms"], event["text"]): event["severity"] for event in scene.mirror.status().get("events", [])}


def _turn(scene: Scene, name: str, code: Path, how: str) -> Turn:
    began_at = time.monotonic()
    if how == "stop":
        if not scene.mirror.end():
            raise BenchError("upgrade", f"`run` did not end in order; {scene.mirror.told()}")
    else:
        scene.mirror.process.kill()
        scene.mirror.process.wait()
    scene.mirror.restart(code)
    _wait_copying(scene)
    return Turn(to=name, how=how, flowing_s=round(time.monotonic() - began_at, 2))


def _wait_copying(scene: Scene) -> None:
    """Wait for the report of the new mirror: the target alone does not show who wrote the records, since a killed
    mirror's copiers continue to write for some seconds.
    """
    since_ms = time.time() * 1000

    def copying() -> bool:
        scene.mirror.require_running()
        status = scene.mirror.status()
        if not status or status["at_ms"] < since_ms:
            return False
        (flow,) = status["flows"]
        all_copy = flow["lane_states"].get("copying") == flow["lanes"] == scene.partitions
        return bool(all_copy and flow["records"] >= _GROWN * scene.partitions)

    scene.until(copying, "the new mirror copies every partition", FLOWING_S)
