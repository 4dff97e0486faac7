"""`translation`: exactness of the target offsets that each system gives consumer groups, judged by the records."""

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.figures import machine
from bench.measure import running
from bench.parts import Parts, chosen
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from bench.translation.dataset import Dataset, fill
from bench.translation.groups import Commits, Found, Place, commit, random_commits, read_checkpoints
from bench.translation.truth import Judge, Log, read_log
from deploy.local.cluster import EmbeddedCluster, running_clusters

_LAUNCHES: dict[str, Callable[[Job, dict[str, str]], Launch]] = {
    "raymirror": raymirror.launch,
    "mm2": mm2.launch_default,
}
_RECORDS, _QUICK_RECORDS = 2_000_000, 100_000
_GROUPS, _QUICK_GROUPS = 1_000, 100
_PARTITIONS = 4
_COPY_S = 900.0
_SETTLE_S = 30.0
"""Seconds: here MM2 writes checkpoints every 5 s, its last offset syncs within another 5 s, and then no more."""
_SHOWN = ("places", "exact", "none", "skipping", "mean", "p50", "p95", "max")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--records", type=int, help=f"records on the source (default {_RECORDS:,})")
    parser.add_argument("--groups", type=int, help=f"consumer groups (default {_GROUPS:,})")
    parser.add_argument("--systems", default=",".join(_LAUNCHES), help="comma-separated")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system has no figures, or raymirror is not exact.

    Raises BenchError, ClusterError.
    """
    systems = chosen("translation", "system", args.systems, _LAUNCHES)
    records = args.records or (_QUICK_RECORDS if args.quick else _RECORDS)
    groups = args.groups or (_QUICK_GROUPS if args.quick else _GROUPS)
    parts = Parts()
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        eager = {"log.cleaner.backoff.ms": "500"}
        source = EmbeddedCluster("source", Path(name) / "source", overrides=eager)
        target = EmbeddedCluster("target", Path(name) / "target")
        with running_clusters(source, target):
            found = _Bench(source, target, Path(name), systems).run(records, groups, parts)
    _print(found)
    ours = found["systems"].get("raymirror")
    return {
        **found,
        "unmeasured": parts.unmeasured,
        "failed": bool(parts.unmeasured) or (ours is not None and not _is_right(ours)),
        "quick": args.quick,
        "machine": machine(),
    }


def _is_right(figures: dict[str, Any]) -> bool:
    return bool(figures["exact"] == figures["places"])


class _Bench:
    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path, systems: list[str]) -> None:
        self._source, self._target = source.bootstrap_servers, target.bootstrap_servers
        self._folder, self._systems = folder, systems

    def run(self, records: int, groups: int, parts: Parts) -> dict[str, Any]:
        """Return the figures of each system that has any."""
        data, logs, commits = asyncio.run(self._fill(records, groups))
        systems = {}
        for name in self._systems:
            figures = parts.measure(name, partial(self._measure, name, data, logs, commits))
            if figures is not None:
                systems[name] = figures
        return {
            "bench": "translation",
            "systems": systems,
            "ratios": {},
            "dataset": {"records": data.sent, "compacted_away": data.holes, "groups": groups, "places": len(commits)},
        }

    async def _fill(self, records: int, groups: int) -> tuple[Dataset, dict[tuple[str, int], Log], Commits]:
        """Fill the source, and let all groups commit."""
        data = await fill(self._source, records, _PARTITIONS)
        print(f"filled: {data.sent:,} records sent, {data.holes:,} of them compacted away", flush=True)
        logs = {
            (topic, partition): await read_log(self._source, topic, partition)
            for topic in data.topics
            for partition in range(data.partitions)
        }
        commits = random_commits(groups, {place: log.offsets[-1] + 1 for place, log in logs.items()})
        await commit(self._source, commits)
        print(f"{groups:,} groups have committed {len(commits):,} offsets", flush=True)
        return data, logs, commits

    def _measure(self, name: str, data: Dataset, logs: dict[tuple[str, int], Log], commits: Commits) -> dict[str, Any]:
        return asyncio.run(self._system(name, data, logs, commits))

    async def _system(
        self, name: str, data: Dataset, logs: dict[tuple[str, int], Log], commits: Commits
    ) -> dict[str, Any]:
        alias = f"tr{name}"
        backlog = Backlog.short(",".join(data.topics))
        job = Job.between(self._source, self._target, backlog, alias, self._folder / name)
        began = time.monotonic()
        with running(_LAUNCHES[name](job, _settings(alias)), job) as (process, _):
            checkpoints = await self._told(name, alias, process, logs, commits)
        judges = {
            (topic, partition): Judge(log, await read_log(self._target, f"{alias}.{topic}", partition))
            for (topic, partition), log in logs.items()
        }
        figures = judged(judges, commits, checkpoints)
        print(f"{name}: {figures['exact']:,} of {figures['places']:,} exact", flush=True)
        return {**figures, "wall_s": round(time.monotonic() - began, 1)}

    async def _told(
        self,
        name: str,
        alias: str,
        process: subprocess.Popen[bytes],
        logs: dict[tuple[str, int], Log],
        commits: Commits,
    ) -> dict[Place, Found]:
        """Wait until everything is copied and the checkpoints have not changed for a while; return them."""
        deadline = time.monotonic() + _COPY_S
        seen: dict[Place, Found] = {}
        changed = time.monotonic()
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise BenchError(name, f"the system ended with exit code {process.returncode}")
            await asyncio.sleep(2.0)
            now = await read_checkpoints(self._target, alias)
            if now != seen:
                seen, changed = now, time.monotonic()
                print(f"{name}: checkpoints of {len(seen.keys() & commits.keys()):,} places", flush=True)
            elif seen and time.monotonic() - changed > _SETTLE_S and await self._copied(alias, logs):
                return seen
        raise BenchError(name, f"not at rest within {_COPY_S:.0f} s")

    async def _copied(self, alias: str, logs: dict[tuple[str, int], Log]) -> bool:
        for (topic, partition), log in logs.items():
            copy = await read_log(self._target, f"{alias}.{topic}", partition)
            if len(copy.values) < len(log.values):
                return False
        return True


def _settings(alias: str) -> dict[str, str]:
    """Both systems copy the same records and write checkpoints often; their syncs are apart on the target."""
    return {
        f"{alias}->target.source.consumer.isolation.level": "read_committed",
        "offset-syncs.topic.location": "target",
        "emit.checkpoints.interval.seconds": "5",
        "refresh.groups.interval.seconds": "5",
        "target.offset.flush.interval.ms": "5000",
    }


def judged(judges: dict[tuple[str, int], Judge], commits: Commits, checkpoints: dict[Place, Found]) -> dict[str, Any]:
    """Compare every checkpoint with the truth: how many records a consumer reads again after its move."""
    repeated: list[int] = []
    none = 0
    for (group, topic, partition), offset in commits.items():
        told = checkpoints.get((group, topic, partition))
        if told is None:
            none += 1
        else:
            repeated.append(judges[topic, partition].repeated(offset, told.target))
    ordered = sorted(repeated) or [0]
    return {
        "places": len(commits),
        "exact": sum(one == 0 for one in repeated),
        "none": none,
        "skipping": sum(one < 0 for one in repeated),
        "mean": round(statistics.fmean(ordered), 1),
        "p50": ordered[len(ordered) // 2],
        "p95": ordered[len(ordered) * 95 // 100],
        "max": ordered[-1],
    }


def _print(found: dict[str, Any]) -> None:
    data = found["dataset"]
    table = Table(
        title=f"{data['groups']:,} groups, {data['places']:,} offsets, {data['records']:,} records;"
        " records read again by a consumer that moves"
    )
    table.add_column("system")
    for name in _SHOWN:
        table.add_column(name, justify="right")
    for system, figures in found["systems"].items():
        table.add_row(system, *(f"{figures[name]:,}" for name in _SHOWN))
    Console(width=None if os.isatty(1) else 140).print(table)
