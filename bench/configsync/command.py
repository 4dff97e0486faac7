"""`configsync`: config sync of many topics, by raymirror and by MM2: wall time, requests, written configs."""

import argparse
import asyncio
import math
import os
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.configsync import topics
from bench.configsync.passes import (
    LoopPasses,
    Mm2Passes,
    Pass,
    Passes,
    RaymirrorPasses,
    RoundPasses,
    SparkPasses,
)
from bench.configsync.requests import RequestLog
from bench.configsync.settled import store_positions
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.parts import Parts, chosen, report
from bench.systems.launch import Job
from deploy.local.cluster import EmbeddedCluster

_TOPICS, _QUICK_TOPICS = 5_000, 200
_CHANGED, _QUICK_CHANGED = 500, 20
_PARTITIONS = 4
_PASSES, _QUICK_PASSES = 3, 1
_BROKERS, _QUICK_BROKERS = 2, 1
_PARTITIONS_OF_A_BROKER = 17_000
"""Each partition is an open file: one process may not have 20,000 everywhere."""
_PATIENCE_S = 1800.0
_WARM_CHANGES, _WARM_LOOKS = 12, 6
_HEAP_MIB = 2304
_HEAPS_MIB = 6912
"""Memory of the heaps of a cluster of many brokers."""
_PATIENT = {"broker.session.timeout.ms": "60000", "min.insync.replicas": "1"}
"""A broker that creates thousands of partitions must not be treated as dead; topics have one replica everywhere."""
_QUIET = {"kafka": "WARN", "org.apache.kafka": "WARN"}
"""Otherwise a broker logs four lines for each partition."""
_SHARED_ALIAS = "c"
_WANTED = Backlog.short("t-.*")
_SYSTEMS: dict[str, type[Passes]] = {
    "raymirror": RaymirrorPasses,
    "raymirror-round": RoundPasses,
    "raymirror-loop": LoopPasses,
    "raymirror-spark": SparkPasses,
    "mm2": Mm2Passes,
}
_USUAL = ("raymirror", "raymirror-round", "mm2")
"""The systems that are measured unless others are named: the others copy all topics too, and need more memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--topics", type=int, help=f"number of topics (default {_TOPICS:,})")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS, help="partitions of each (default %(default)s)")
    parser.add_argument("--changed", type=int, help=f"number of topics that are changed (default {_CHANGED:,})")
    parser.add_argument(
        "--one-target",
        action="store_true",
        help="all systems use one target, one after the other, with its changed topics restored: tens of thousands of"
        " topics take longer to create than to keep in step",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=_PATIENCE_S,
        metavar="SECONDS",
        help="a system that has not brought a change by then has figures of rounds with nothing to do alone"
        " (default %(default)s)",
    )
    parser.add_argument("--passes", type=int, help=f"number of timed passes (default {_PASSES})")
    parser.add_argument("--systems", default=",".join(_USUAL), help=f"comma-separated, of {', '.join(_SYSTEMS)}")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system has no figures. Raises BenchError, ClusterError."""
    systems = chosen("configsync", "system", args.systems, _SYSTEMS)
    count = args.topics or (_QUICK_TOPICS if args.quick else _TOPICS)
    changed = args.changed or (_QUICK_CHANGED if args.quick else _CHANGED)
    passes = args.passes or (_QUICK_PASSES if args.quick else _PASSES)
    brokers = max(
        _QUICK_BROKERS if args.quick else _BROKERS, math.ceil(count * args.partitions / _PARTITIONS_OF_A_BROKER)
    )
    scene = _Scene(count, args.partitions, changed, passes, brokers, args.patience, one_target=args.one_target)
    parts = Parts()
    measured = scene.run(systems, parts)
    found = report(
        "configsync",
        args,
        parts,
        systems=measured,
        ratios=_ratios(measured),
        dataset={"topics": count, "partitions": args.partitions, "changed": changed, "one_target": args.one_target},
        load=os.getloadavg()[0],
    )
    _print(found)
    return found


class _Scene:
    """One source, and a target that has all copies already: a fresh one for each system, or one for all."""

    def __init__(
        self,
        count: int,
        partitions: int,
        changed: int,
        passes: int,
        brokers: int,
        patience_s: float,
        *,
        one_target: bool,
    ) -> None:
        self._one_target, self._patience_s = one_target, patience_s
        self._partitions = partitions
        self._names = [f"t-{number:05}" for number in range(count)]
        # About every tenth: a system that works in order of names finds them all along.
        self._changed = self._names[:: max(1, count // changed)][:changed]
        self._passes, self._brokers = passes, brokers
        self._value = int(topics.OWN[topics.CHANGED])

    def run(self, systems: list[str], parts: Parts) -> dict[str, dict[str, Any]]:
        """Return the figures of each system that has any."""
        found = {}
        with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
            folder = Path(name)
            with self._cluster(folder, "source") as source, ExitStack() as stack:
                shared = stack.enter_context(self._cluster(folder, "target")) if self._one_target else None
                asyncio.run(self._create(source, shared))
                if shared is not None:
                    servers = source.bootstrap_servers, shared.bootstrap_servers
                    job = Job.between(*servers, _WANTED, _SHARED_ALIAS, folder / "settled")
                    asyncio.run(store_positions(job))
                    print("target: has the positions", flush=True)
                for system in systems:
                    figures = parts.measure(system, partial(self._on_target, system, source, shared, folder))
                    if figures is not None:
                        found[system] = figures
                        if "unchanged" in figures:
                            parts.unmeasured.append({"part": f"{system}: changes", "why": figures["unchanged"]})
                        print(f"{system}: {figures}", flush=True)
        return found

    async def _create(self, source: EmbeddedCluster, shared: EmbeddedCluster | None) -> None:
        """Create the topics, on the shared target too: both at once, since brokers need a quarter of an hour."""
        async with asyncio.TaskGroup() as group:
            group.create_task(topics.create(source.bootstrap_servers, self._names, self._partitions))
            if shared is not None:
                group.create_task(self._create_copies(shared, _SHARED_ALIAS))
        print(f"source: {len(self._names):,} topics", flush=True)

    async def _create_copies(self, target: EmbeddedCluster, alias: str) -> None:
        await topics.create(target.bootstrap_servers, self._copies(alias, self._names), self._partitions)
        print("target: has the copies", flush=True)

    def _copies(self, alias: str, names: Sequence[str]) -> list[str]:
        return [f"{alias}.{name}" for name in names]

    def _on_target(
        self, system: str, source: EmbeddedCluster, shared: EmbeddedCluster | None, folder: Path
    ) -> dict[str, Any]:
        own = topics.OWN[topics.CHANGED]
        # Restore the source, so that every target starts equal to it.
        asyncio.run(topics.change(source.bootstrap_servers, self._changed, own))
        if shared is not None:
            asyncio.run(topics.change(shared.bootstrap_servers, self._copies(_SHARED_ALIAS, self._changed), own))
            return self._system(system, source, shared, _SHARED_ALIAS, folder / system)
        alias = f"c{len(system)}"
        with self._cluster(folder, f"target-{system}") as target:
            asyncio.run(self._create_copies(target, alias))
            return self._system(system, source, target, alias, folder / system)

    def _cluster(self, folder: Path, name: str) -> EmbeddedCluster:
        heap_mib = min(_HEAP_MIB, _HEAPS_MIB // self._brokers)
        return EmbeddedCluster(
            name, folder / name, brokers=self._brokers, heap_mib=heap_mib, overrides=_PATIENT, log_levels=_QUIET
        )

    def _system(
        self, system: str, source: EmbeddedCluster, target: EmbeddedCluster, alias: str, folder: Path
    ) -> dict[str, Any]:
        servers = source.bootstrap_servers, target.bootstrap_servers
        job = Job.between(*servers, _WANTED, alias, folder)
        self._warm(job)
        with _SYSTEMS[system](job, len(self._names), self._patience_s) as passes:
            return self._measure(passes, RequestLog(source, target), job)

    def _warm(self, job: Job) -> None:
        """Let the brokers do the same work for a while before a system is measured.

        Java compiles what runs often; otherwise the system that is measured first would pay for it at the source. A
        round of ten times the topics is ten times the work, so there are fewer.
        """
        rounds = max(1, _WARM_CHANGES * _TOPICS // max(_TOPICS, len(self._names)))
        folder = job.folder / "warm"
        folder.mkdir()
        with RoundPasses(msgspec.structs.replace(job, folder=folder), len(self._names), self._patience_s) as passes:
            for _ in range(rounds):
                self._change(job, passes)
                for _ in range(_WARM_LOOKS):
                    passes.nothing()

    def _measure(self, passes: Passes, log: RequestLog, job: Job) -> dict[str, Any]:
        """Warm up, count the requests of two passes (the brokers log them), and time the other passes.

        `unchanged`: why a system did not bring the change; it has figures of passes with nothing to do alone.
        """
        unchanged = ""
        try:
            self._change(job, passes)
        except BenchError as error:
            print(f"the change was not brought: {error}", flush=True)
            unchanged = str(error)
        log.switch(on=True)
        requests = {} if unchanged else log.count(passes, self._change(job, passes))
        requests_idle = log.count(passes, passes.nothing())
        log.switch(on=False)
        passes.begin_costs()
        walls = [] if unchanged else [self._change(job, passes).wall_s for _ in range(self._passes)]
        idle = [passes.nothing().wall_s for _ in range(self._passes)]
        costs = passes.costs()
        changed = {"wall_s": round(statistics.median(walls), 3), "requests": requests} if walls else {}
        return {
            **changed,
            "idle_wall_s": round(statistics.median(idle), 3),
            "requests_idle": requests_idle,
            "walls_s": [round(one, 3) for one in walls],
            "idle_walls_s": [round(one, 3) for one in idle],
            **({"unchanged": unchanged} if unchanged else {}),
            **costs,
        }

    def _change(self, job: Job, passes: Passes) -> Pass:
        """Change the topics at the source, and time the pass that makes the copies equal again."""
        self._value += 1000

        def change() -> None:
            asyncio.run(topics.change(job.source, self._changed, str(self._value)))

        return passes.changed(change, self._copies(job.alias, self._changed), str(self._value))


def _ratios(systems: dict[str, dict[str, Any]]) -> dict[str, float]:
    mm2 = systems.get("mm2")
    return {
        f"{name}/mm2 wall_s": float(f"{one['wall_s'] / mm2['wall_s']:.3g}")
        for name, one in systems.items()
        if mm2 is not None and name != "mm2" and "wall_s" in mm2 and "wall_s" in one
    }


def _print(found: dict[str, Any]) -> None:
    data = found["dataset"]
    table = Table(title=f"{data['topics']:,} topics of {data['partitions']} partitions, {data['changed']:,} changed")
    for name in ("system", "wall s", "with nothing to do", "requests", "topics written", "with nothing to do"):
        table.add_column(name, justify="left" if name == "system" else "right")
    for system, one in found["systems"].items():
        requests = one.get("requests", {})
        sent = sum(count for kind, count in requests.items() if not kind.startswith("altered"))
        table.add_row(
            system,
            f"{one['wall_s']:.2f}" if requests else "-",
            f"{one['idle_wall_s']:.2f}",
            f"{sent:,}" if requests else "-",
            f"{requests['altered_topics']:,}" if requests else "-",
            f"{one['requests_idle']['altered_topics']:,}",
        )
    console = Console(width=None if os.isatty(1) else 140)
    console.print(table)
    for name, ratio in found["ratios"].items():
        console.print(f"  {name:<40} {ratio:>8.2f}", highlight=False)
