"""`start`: seconds from `raymirror run` to its first output, to `running`, and to the first record on the target.

Each start is the first one of its mirror: topics are created, nothing is resumed. `warm` follows another start. Before
`cold` the files of Python, of its packages and of raymirror are dropped from the page cache, except for open ones.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.measure import running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.small import ALONE, make_topic
from bench.systems import raymirror
from bench.systems.launch import Job

ROOT = Path(__file__).parents[1]
KINDS = ("warm", "cold")
_TOPIC, _PARTITIONS, _RECORDS = "bench-start", 4, 500
_REPEATS, _QUICK_REPEATS = 5, 1
_LOOK_S = 0.01
_START_S = 300.0
"""The longest start, in seconds, on a machine at its limit."""
_RUNNING = b"\nrunning: "


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start: seconds since the command, and the CPU time of all processes of the mirror, Ray's too, until then."""

    first_output_s: float
    running_s: float
    first_record_s: float
    cpu_s: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--repeats", type=int, help=f"starts of each kind (default {_REPEATS}, quick {_QUICK_REPEATS})")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"comma-separated, of {', '.join(KINDS)}")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a start lacks figures. Raises BenchError, ClusterError."""
    kinds = chosen("start", "kind", args.kinds, KINDS)
    repeats = args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS)
    found: dict[str, list[Start]] = {kind: [] for kind in kinds}
    parts, loads = Parts(), [os.getloadavg()[0]]
    with cluster_pair() as (source, target, folder):
        asyncio.run(make_topic(source.bootstrap_servers, _TOPIC, _PARTITIONS, _RECORDS))
        servers = source.bootstrap_servers, target.bootstrap_servers
        backlog = Backlog.short(_TOPIC, _PARTITIONS, _RECORDS)

        def job(alias: str) -> Job:
            return Job.between(*servers, backlog, alias, folder / alias)

        _start(job("before"))  # later starts find brokers and page cache in the same state
        for number in range(repeats):
            for kind in kinds:
                if kind == "cold":
                    forget_files((Path(sys.prefix), Path(sys.base_prefix), ROOT))
                one = parts.measure(kind, partial(_start, job(f"{kind}{number}")))
                found[kind] += [one] if one is not None else []
                loads.append(os.getloadavg()[0])
    figures = {kind: summary(starts) for kind, starts in found.items() if starts}
    for kind, fields in figures.items():
        print(f"{kind:6}", "  ".join(f"{field} {fields[field]:.2f}" for field in Start.__struct_fields__))
    return report(
        "start",
        args,
        parts,
        kinds=figures,
        partitions=_PARTITIONS,
        load=[round(load, 1) for load in loads],
    )


def summary(starts: list[Start]) -> dict[str, Any]:
    """Medians of the fields, and every start."""
    medians = {
        field: round(statistics.median(getattr(one, field) for one in starts), 3) for field in Start.__struct_fields__
    }
    runs = [{field: round(value, 3) for field, value in msgspec.structs.asdict(one).items()} for one in starts]
    return {**medians, "runs": runs}


def forget_files(roots: Iterable[Path]) -> None:
    """Drop the files below some folders from the page cache; pages that a process has mapped stay."""
    for root in roots:
        for path in root.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            try:
                file = os.open(path, os.O_RDONLY)
            except PermissionError:
                continue
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def _start(job: Job) -> Start:
    """Start a mirror, watch it until its first record is copied and it says that it runs, end it."""
    launch = raymirror.launch(job, ALONE)
    with KafkaPeek(job.target) as peek:
        began_at = time.monotonic()
        with running(launch, job) as (process, tree):
            found = _watch(job, process, peek, began_at)
            tree.discover()
            return msgspec.structs.replace(found, cpu_s=sum(tree.sample().cpu_s.values()))


def _watch(job: Job, process: subprocess.Popen[bytes], peek: KafkaPeek, began_at: float) -> Start:
    """Note when each field is true for the first time. Raises BenchError."""
    seen: dict[str, float] = {}
    output = job.folder / "output.log"
    while len(seen) < 3:
        time.sleep(_LOOK_S)
        text = output.read_bytes()
        looks = {
            "first_output_s": bool(text),
            "running_s": _RUNNING in b"\n" + text,
            # a marker of the barrier is no record
            "first_record_s": max(peek.end_offsets(job.target_topic, _PARTITIONS)) > 1,
        }
        now_s = time.monotonic() - began_at
        for field, is_so in looks.items():
            if is_so:
                seen.setdefault(field, now_s)
        if process.poll() is not None:
            raise BenchError(job.alias, f"ended by itself with {process.returncode}")
        if now_s > _START_S:
            raise BenchError(job.alias, f"not within {_START_S:.0f} s: {sorted(looks.keys() - seen.keys())}")
    return Start(**seen)
