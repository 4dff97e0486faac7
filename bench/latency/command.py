"""`latency`: time from a producer to a consumer through raymirror, through MM2, and through a broker alone."""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.admin import create_topic, delete_topics
from bench.dataset import Backlog
from bench.dr.sides import commit
from bench.errors import BenchError
from bench.latency.drills import MANY, Drills
from bench.latency.ends import CONSUME, PRODUCE, read_line, running_end, send_first_records, wait_copied
from bench.latency.judge import BROKER, Figures, faults, rows, summary
from bench.latency.stalls import read_counts, stalls
from bench.latency.stamped import Plan
from bench.measure import running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.processes import ProcessTree
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports

_PARTITIONS = 4
_RATES = (2_000, 10_000)
_WARM_UP_S, _QUICK_WARM_UP_S = 15.0, 5.0
_MEASURED_S, _QUICK_MEASURED_S = 60.0, 10.0
_REPEATS, _QUICK_REPEATS = 3, 1
_DRILLED = {"raymirror-drilled": MANY, "raymirror-drilled-once": 1}
"""Scheduled drills run one after the other while the mirror is measured; `-once`: one does."""
_OURS: dict[str, Callable[[Job, dict[str, str]], Launch]] = {
    "raymirror": raymirror.launch,
    "raymirror-pure": raymirror.launch_pure,
    **dict.fromkeys(_DRILLED, raymirror.launch),
}
_GROUP = "latency-drilled"


def _launch_mm2_without_linger(job: Job) -> Launch:
    """MM2 whose producer sends at once; Kafka's own default is to wait 5 ms for more records."""
    return mm2.launch_default(job, {f"{job.alias}->target.producer.override.linger.ms": "0"})


LAUNCHES: dict[str, Callable[[Job], Launch]] = {
    "mm2": mm2.launch_default,
    "mm2-linger-0": _launch_mm2_without_linger,
}
CHOICES = (BROKER, *_OURS, *LAUNCHES)
_USUAL = tuple(name for name in CHOICES if name not in _DRILLED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(_USUAL), help=f"comma-separated, of {', '.join(CHOICES)}")
    parser.add_argument("--rates", default=",".join(map(str, _RATES)), help="records a second, comma-separated")
    parser.add_argument("--seconds", type=float, help=f"measured seconds (default {_MEASURED_S:.0f}, quick 10)")
    parser.add_argument("--repeats", type=int, help=f"rounds over all systems (default {_REPEATS}, quick 1)")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS)
    parser.add_argument("--linger-ms", type=float, default=0.0, help="linger of the bench's producer (default 0)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a run lacks figures. Raises BenchError, ClusterError."""
    systems = chosen("latency", "system", args.systems, CHOICES)
    rates = [int(word) for word in args.rates.split(",")]
    seconds = args.seconds or (_QUICK_MEASURED_S if args.quick else _MEASURED_S)
    warm_up_s = _QUICK_WARM_UP_S if args.quick else _WARM_UP_S
    repeats = args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS)
    parts = Parts()
    load_before = os.getloadavg()[0]
    with cluster_pair() as (source, target, folder):
        load = Load(args.partitions, warm_up_s, seconds, args.linger_ms)
        bench = Latency(source, target, folder, load)
        if copying := [system for system in systems if system != BROKER]:
            parts.measure("warm-up", partial(bench.warm, copying[0], rates[:1]))
        for repeat in range(repeats):
            first = repeat % len(systems)  # another system comes first in each round
            for system in systems[first:] + systems[:first]:
                parts.measure(f"{system}, round {repeat + 1}", partial(bench.measure, system, rates))
    found = {rate: summary(bench.runs_of(rate, systems)) for rate in rates}
    for rate, figures in found.items():
        print("\n".join(rows(rate, figures)))
    return report(
        "latency",
        args,
        parts,
        rates={str(rate): figures for rate, figures in found.items()},
        partitions=args.partitions,
        linger_ms=args.linger_ms,
        seconds=seconds,
        warm_up_s=warm_up_s,
        repeats=repeats,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


class Load(msgspec.Struct, frozen=True):
    """What the producer sends in each run, beside the rate."""

    partitions: int
    warm_up_s: float
    measured_s: float
    linger_ms: float


class Latency:
    """The pair of clusters and the runs on them."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path, load: Load) -> None:
        self._source, self._target = source.bootstrap_servers, target.bootstrap_servers
        self._folder, self._load, self._partitions = folder, load, load.partitions
        self._rounds: list[tuple[str, dict[int, Figures]]] = []
        self._started = 0

    def runs_of(self, rate: int, systems: list[str]) -> dict[str, list[Figures]]:
        """Return the runs at one rate by system; a round counts for no system if one of them has no figures in it.

        Raises BenchError if no round counts.
        """
        by_system = [[found for name, found in self._rounds if name == system] for system in systems]
        whole = [one for one in zip(*by_system, strict=False) if all(rate in found for found in one)]
        if not whole:
            raise BenchError("latency", "no round gave figures of every system")
        return {system: [one[at][rate] for one in whole] for at, system in enumerate(systems)}

    def warm(self, system: str, rates: list[int]) -> None:
        """Let a system copy without figures. Raises BenchError.

        The first one that copies to a new cluster stands still for seconds once, whichever it is.
        """
        try:
            self.measure(system, rates)
        finally:
            self._rounds.clear()

    def measure(self, system: str, rates: list[int]) -> None:
        """Start a system, and measure it at every rate, each with a topic of its own. Raises BenchError."""
        self._started += 1
        found: dict[int, Figures] = {}
        self._rounds.append((system, found))
        alias = f"{system.replace('-', '')}{self._started:03d}"
        topics = {rate: f"latency-{self._started:03d}-{rate}" for rate in rates}
        for topic in topics.values():
            asyncio.run(create_topic(self._source, topic, self._partitions))
        backlog = Backlog.short(",".join(topics.values()), self._partitions)
        job = Job.between(self._source, self._target, backlog, alias, self._folder / alias)
        try:
            with self._running(system, job) as subject:
                for topic in topics.values():
                    asyncio.run(send_first_records(self._source, topic, self._partitions))
                if subject.drills is not None:
                    ends = {(topic, number): 0 for topic in topics.values() for number in range(self._partitions)}
                    commit(self._source, _GROUP, ends)
                for rate, topic in topics.items():
                    found[rate] = self._run(subject, rate, topic)
        finally:
            asyncio.run(delete_topics(self._target, containing=alias))
            asyncio.run(delete_topics(self._source, containing=f"latency-{self._started:03d}"))

    @contextlib.contextmanager
    def _running(self, system: str, job: Job) -> Iterator["Subject"]:
        """Run a system."""
        if system == BROKER:
            yield Subject(system)
            return
        launch, port = launched(system, job)
        with running(launch, job) as (_, tree):
            drills = None
            if system in _DRILLED:
                flow = f"{job.alias}->target"
                drills = partial(Drills, flow, Path(launch.command[-1]), _DRILLED[system])
            yield Subject(system, f"{job.alias}.", tree, port, drills)

    def _run(self, subject: "Subject", rate: int, topic: str) -> Figures:
        system, prefix = subject.name, subject.prefix
        warm_up_s, measured_s = self._load.warm_up_s, self._load.measured_s
        sent = Plan(
            bootstrap=self._source,
            topic=topic,
            partitions=self._partitions,
            per_s=rate,
            warm_up_s=warm_up_s,
            measured_s=measured_s,
            linger_ms=self._load.linger_ms,
        )
        read_from = self._target if prefix else self._source
        read = msgspec.structs.replace(sent, bootstrap=read_from, topic=f"{prefix}{topic}")
        wait_copied(system, read)
        with running_end(CONSUME, read) as consumer:
            read_line(system, consumer)
            with running_end(PRODUCE, sent) as producer:
                began_s = read_line(system, producer)["began"]
                watched = subject.watch(began_s + warm_up_s, began_s + warm_up_s + measured_s)
                produced, figures = read_line(system, producer), read_line(system, consumer)
        if wrong := faults(figures, produced):
            raise BenchError(system, f"{rate} records a second: {wrong}")
        figures |= {"late_ms": produced["late_ms"], **watched}
        shown = "  ".join(f"{name} {value:g}" for name, value in figures.items())
        print(f"{system}, {rate:,} a second: {shown}", flush=True)
        return figures


def launched(system: str, job: Job) -> tuple[Launch, int]:
    """Return how a system that copies is started, and the port of its metrics; 0 if it has none to read."""
    if system not in _OURS:
        return LAUNCHES[system](job), 0
    port = pick_ports(1)[0]
    return _OURS[system](job, {"raymirror.metrics.port": str(port)}), port


class Subject(msgspec.Struct, frozen=True):
    """A system that runs: prefix of its topics, its processes, and port of its metrics, as far as it has them."""

    name: str
    prefix: str = ""
    tree: ProcessTree | None = None
    port: int = 0
    drills: Callable[[], Drills] | None = None

    def watch(self, from_s: float, to_s: float) -> dict[str, float]:
        """Sleep until `to_s`; return what was seen since `from_s`: CPU in percent of a core, stalls of event loops.

        Raises BenchError if a drill fails.
        """
        _sleep_until(from_s)
        if self.drills is None:
            return self._seen(to_s)
        with self.drills() as drills:
            found = self._seen(to_s)
        drills.require_done()
        return {**found, "drills": drills.count}

    def _seen(self, to_s: float) -> dict[str, float]:
        tree = self.tree
        if tree is None:
            _sleep_until(to_s)
            return {"cpu_percent": 0.0}
        tree.discover()
        counts = read_counts(self.port) if self.port else []
        before, began_s = tree.sample(), time.monotonic()
        _sleep_until(to_s)
        after, wall_s = tree.sample(), time.monotonic() - began_s
        found = {"cpu_percent": round(100 * after.since(before) / wall_s, 1)}
        return {**found, **stalls(counts, read_counts(self.port))} if self.port else found


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))
