"""`drain`: time, CPU and memory of each system that copies the same backlog of real batches."""

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.admin import create_topic, delete_topics
from bench.dataset import PAYLOADS, Backlog, Payload, fill
from bench.figures import Runs, machine, print_table, summary
from bench.measure import Run, idle_rss_mib, run_relay, run_system
from bench.parts import chosen
from bench.systems import aiokafka_copy, mm2, raymirror
from bench.systems.launch import Job, Launch
from deploy.local.cluster import EmbeddedCluster, start_clusters

LAUNCHES: dict[str, Callable[[Job], Launch]] = {
    "raymirror": raymirror.launch,
    "raymirror-eos": raymirror.launch_eos,
    "mm2": mm2.launch_default,
    "mm2-tuned": mm2.launch_tuned,
    "aiokafka": aiokafka_copy.launch,
}
SYSTEMS = (*LAUNCHES, "relay")
_USUAL = tuple(name for name in SYSTEMS if name != "raymirror-eos")
_MIB, _QUICK_MIB = 1024, 64
_WARM_UP_MIB = 64
_REPEATS, _QUICK_REPEATS = 3, 1
_PARTITIONS = 8
_BROKER_HEAP_MIB = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(_USUAL), help=f"comma-separated, of {', '.join(SYSTEMS)}")
    parser.add_argument("--payloads", default=",".join(p.name for p in PAYLOADS), help="comma-separated")
    parser.add_argument("--repeats", type=int, help=f"rounds over all systems (default {_REPEATS}, quick 1)")
    parser.add_argument("--mib", type=int, help=f"MiB of records, uncompressed (default {_MIB}, quick {_QUICK_MIB})")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; raises BenchError, ClusterError."""
    systems = chosen("drain", "system", args.systems, SYSTEMS)
    names = chosen("drain", "payload", args.payloads, [payload.name for payload in PAYLOADS])
    payloads = [payload for payload in PAYLOADS if payload.name in names]
    repeats = args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS)
    mib = args.mib or (_QUICK_MIB if args.quick else _MIB)
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        folder = Path(name)
        bench = Drain(folder, systems, repeats)
        try:
            found = bench.run(payloads, mib, args.partitions)
        finally:
            bench.stop()
    for payload, figures in found.items():
        print_table(payload, figures)
    plain = found[payloads[0].name]
    return {
        "bench": "drain",
        "systems": plain["systems"],
        "ratios": plain["ratios"],
        "payload": payloads[0].name,
        "payloads": found,
        "repeats": repeats,
        "quick": args.quick,
        "machine": machine(),
    }


class Drain:
    """The pair of clusters, the backlogs on the source, and the runs over them."""

    def __init__(self, folder: Path, systems: list[str], repeats: int) -> None:
        self._folder, self._systems, self._repeats = folder, systems, repeats
        self._source = EmbeddedCluster("source", folder / "source", heap_mib=_BROKER_HEAP_MIB)
        # Kafka keeps deleted logs for a minute; fifteen copies of the backlog would fill the disk.
        at_once = {"file.delete.delay.ms": "1000"}
        self._target = EmbeddedCluster("target", folder / "target", heap_mib=_BROKER_HEAP_MIB, overrides=at_once)
        self._runs_made = 0

    def run(self, payloads: list[Payload], mib: int, partitions: int) -> dict[str, Any]:
        """Fill the source, then every system on every payload, once per repeat; returns the summary of each payload."""
        start_clusters(self._source, self._target)
        # A new broker appends at a fraction of its speed until Java has compiled the code for a batch.
        self._fill(self._target, payloads[0], "warm-up", _WARM_UP_MIB, partitions)
        backlogs = [self._fill(self._source, one, f"bench-{one.name}", mib, partitions) for one in payloads]
        runs: dict[str, Runs] = {payload.name: {system: [] for system in self._systems} for payload in payloads}
        idle_rss_mib = {system: self._idle(system, partitions) for system in self._systems if system == "raymirror"}
        for repeat in range(self._repeats):
            # Another system comes first in each round, so that none always meets cold brokers.
            first = repeat % len(self._systems)
            for backlog in backlogs:
                for system in self._systems[first:] + self._systems[:first]:
                    runs[backlog.payload][system].append(self._run_once(system, backlog))
        return {backlog.payload: summary(runs[backlog.payload], backlog, idle_rss_mib) for backlog in backlogs}

    def stop(self) -> None:
        """Stop both clusters."""
        self._source.stop()
        self._target.stop()

    def _fill(self, cluster: EmbeddedCluster, payload: Payload, topic: str, mib: int, partitions: int) -> Backlog:
        asyncio.run(create_topic(cluster.bootstrap_servers, topic, partitions))
        backlog = fill(cluster, payload, topic, partitions=partitions, mib=mib, folder=self._folder)
        print(f"filled {topic}: {backlog.records:,} records, {backlog.wire_bytes / 2**20:,.0f} MiB", flush=True)
        return backlog

    def _job(self, system: str, backlog: Backlog) -> Job:
        self._runs_made += 1
        alias = f"{system.replace('-', '')}{self._runs_made:03d}"
        folder = self._folder / f"run-{self._runs_made:03d}"
        return Job.between(self._source.bootstrap_servers, self._target.bootstrap_servers, backlog, alias, folder)

    def _idle(self, system: str, partitions: int) -> float:
        topic = "bench-idle"
        asyncio.run(create_topic(self._source.bootstrap_servers, topic, partitions))
        job = self._job(system, Backlog.short(topic, partitions))
        try:
            return idle_rss_mib(system, LAUNCHES[system](job), job)
        finally:
            asyncio.run(delete_topics(job.target, containing=job.alias))

    def _run_once(self, system: str, backlog: Backlog) -> Run:
        job = self._job(system, backlog)
        run = run_relay(job) if system == "relay" else self._copy(system, job)
        print(f"{backlog.payload} {system}: {run.wall_s:.2f} s, CPU {run.cpu_s:.2f} s", flush=True)
        return run

    def _copy(self, system: str, job: Job) -> Run:
        launch = LAUNCHES[system](job)
        if launch.needs_topic:
            asyncio.run(create_topic(job.target, job.target_topic, job.backlog.partitions))
        try:
            return run_system(system, launch, job)
        finally:
            # Delete all topics of this run, internal ones too: the next system finds the target as this one did.
            asyncio.run(delete_topics(job.target, containing=job.alias))
