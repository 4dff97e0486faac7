"""`outage`: bytes logged while the target is down for a long time under load, and exactness of the copy."""

import argparse
import collections
import contextlib
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from actors.ray.connect import OWNER, SESSION_PREFIX
from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.ends import ClusterEnds
from bench.recovery.fault import nothing
from bench.recovery.judging import end_load, judge, wait_drained
from bench.recovery.opening import Size, opened, wait_flowing
from bench.recovery.scene import Scene
from bench.recovery.stage import Stage, StageKind

MOST_BYTES = 5_000_000
_MINUTES, _QUICK_MINUTES = 30.0, 1.0
_PER_S = 100
_CALM_S = 5.0
_BACK_S = 900.0
_POLL_S = 0.1
_LOG_FOLDER = Path("raymirror") / "logs"
_SETTINGS = {
    "replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "true",  # this bench must count what fails once a second by default
}
_WORKER_FILES = ("worker-*", "python-core-worker-*")
"""Ray's files of raymirror's actors: their output, and the log of Ray's part of their processes."""


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes in files at one moment. `rotated`: raymirror's files that were rotated, so that bytes may be missing."""

    ours: int
    ray_of_our_actors: int
    rest_of_ray: int
    rotated: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--minutes", type=float, help=f"minutes without the target (default {_MINUTES:.0f}, quick 1)")
    parser.add_argument("--per-s", type=int, default=_PER_S, help=f"records per second (default {_PER_S})")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store the logs here")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the outage and return its JSON object; `failed`: too much was logged, or the copy is not exact."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    minutes = args.minutes or (_QUICK_MINUTES if args.quick else _MINUTES)
    size = Size(partitions=8 if args.quick else 40, per_s=args.per_s)
    with tempfile.TemporaryDirectory(prefix="rmo-") as name:
        folder = (args.keep or Path(name)) / "outage"
        folder.mkdir(parents=True)
        with contextlib.closing(Stage(StageKind(target_brokers=1), Path(name) / "clusters")) as stage:
            found = _outage(stage, size, folder, minutes * 60)
    figures = ", ".join(f"{key} {value}" for key, value in found.items() if not isinstance(value, dict))
    print(f"{minutes:g} minutes without the target: {figures}", flush=True)
    return {
        "bench": "outage",
        "systems": {"raymirror": found},
        "ratios": {},
        "minutes": minutes,
        "size": msgspec.to_builtins(size),
        "machine": machine(),
        "failed": found["failed"],
    }


def _outage(stage: Stage, size: Size, folder: Path, seconds: float) -> dict[str, Any]:
    with opened(stage, size, folder, "outage", ray=None, properties=_SETTINGS, prepare=nothing) as scene:
        wait_flowing(scene)
        scene.stay(_CALM_S)
        before, texts_before = _logged(scene, folder), _events(folder)
        (broker,) = stage.target.brokers
        broker.kill()
        scene.stay(seconds)
        after, texts_after = _logged(scene, folder), _events(folder)
        broker.launch(stage.target.heap_mib)
        broker.wait_ready(alive=1)
        back_s = _wait_copied(scene)
        print(f"logged {after}, before {before}; copied {back_s} s after the target was back", flush=True)
        sent = end_load(scene)
        wait_drained(scene, scene.partitions)
        *_, difference = judge(scene, scene.partitions, folder)
    grown = {
        key: value - msgspec.structs.asdict(before)[key]
        for key, value in msgspec.structs.asdict(after).items()
        if key != "rotated"
    }
    logged = grown["ours"] + grown["ray_of_our_actors"]
    return {
        "logged_bytes": logged,
        **{f"{key}_bytes": value for key, value in grown.items()},
        "rotated_files": after.rotated,
        "log_lines_by_event": dict(texts_after - texts_before),
        "log_lines": (texts_after - texts_before).total(),
        "back_s": back_s,
        "sent": sent,
        **msgspec.structs.asdict(difference),
        "failed": logged >= MOST_BYTES or after.rotated > 0 or not difference.is_whole or back_s is None,
    }


def _logged(scene: Scene, folder: Path) -> Logged:
    """Add up the bytes in the files: raymirror's own logs, the command's stderr, and Ray's folder."""
    files = _own_files(folder)
    session = _session_logs(scene.mirror.process.pid)
    everything = {file for file in session.rglob("*") if file.is_file() and not file.is_symlink()}
    workers = {file for pattern in _WORKER_FILES for file in session.glob(pattern)} & everything
    return Logged(
        ours=_bytes(files) + _bytes({folder / "run.err"}),
        ray_of_our_actors=_bytes(workers),
        rest_of_ray=_bytes(everything - workers),
        rotated=sum(file.suffix != ".jsonl" for file in files),
    )


def _own_files(folder: Path) -> set[Path]:
    return {file for file in (folder.parent / "state" / _LOG_FOLDER).rglob("*") if file.is_file()}


def _bytes(files: set[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _session_logs(pid: int) -> Path:
    """Find the folder of the local Ray that a process owns. Raises BenchError."""
    for owner in Path(tempfile.gettempdir()).glob(f"{SESSION_PREFIX}*/{OWNER}"):
        if owner.read_text().split()[:1] == [str(pid)]:
            return Path(os.path.realpath(owner.parent / "session_latest")) / "logs"
    raise BenchError("outage", f"no Ray folder of process {pid}")


def _events(folder: Path) -> "collections.Counter[str]":
    """Count the lines of raymirror's logs by their kind of event; lines without an event under `-`."""
    lines = [line for file in _own_files(folder) for line in file.read_bytes().splitlines()]
    return collections.Counter(msgspec.json.decode(line)["event"] or "-" for line in lines)


def _wait_copied(scene: Scene) -> float | None:
    """Wait until the target has what the source has now; return the seconds, None after a quarter of an hour: on a
    machine that is so busy that leases run out, copiers end and start again.
    """
    source, target = (ClusterEnds(side.bootstrap_servers) for side in (scene.stage.source, scene.stage.target))
    began_at = time.monotonic()
    with contextlib.closing(source), contextlib.closing(target):
        wanted = source.read(scene.topic, scene.partitions)
        while (waited_s := time.monotonic() - began_at) < _BACK_S:
            ends = target.read(scene.target_topic, scene.partitions)
            if all(end >= want for end, want in zip(ends, wanted, strict=True)):
                return round(waited_s, 2)
            time.sleep(_POLL_S)
    return None
