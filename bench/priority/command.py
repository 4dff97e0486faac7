"""`priority`: latency of a hot topic beside a bulk backlog: with classes, with a limit, without, and in MM2."""

import argparse
import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.admin import create_topic, delete_topics
from bench.dataset import INCOMPRESSIBLE, LZ4, Backlog, Payload, fill
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.latency.ends import CONSUME, PRODUCE, read_line, running_end, send_first_records, wait_copied
from bench.latency.judge import faults
from bench.latency.stalls import read_counts, stalls
from bench.latency.stamped import Plan
from bench.measure import running
from bench.parts import Parts, chosen, report
from bench.priority.bulk import BulkWatch, Look, Window, window
from bench.priority.cases import CASES, MIB, Case
from bench.priority.figures import Figures, goals, hot, rows, summary
from bench.processes import ProcessTree
from bench.systems import mm2, raymirror
from bench.systems.launch import Job
from bench.watch import START_TIMEOUT_S
from deploy.local.cluster import EmbeddedCluster, start_clusters
from deploy.local.ports import pick_ports

_BULK = "bulk"
_PAYLOADS = {payload.name: payload for payload in (LZ4, INCOMPRESSIBLE)}
_GIB, _QUICK_GIB = 10.0, 2.0
_SECONDS, _QUICK_SECONDS = 30.0, 8.0
_LEAST_S, _QUICK_LEAST_S = 5.0, 0.5
_WARM_UP_S, _QUICK_WARM_UP_S = 5.0, 1.0
_REPEATS, _QUICK_REPEATS = 3, 1
_RATE, _HOT_PARTITIONS, _BULK_PARTITIONS, _CAP_MIB = 1_000, 4, 8, 20.0
_BROKER_HEAP_MIB = 1024
_WARM_UP_MIB = 64
_SPARE_GIB = 2.0
_DELETED_WITHIN_S = 120.0
_LOOK_S = 0.1
_GIB_BYTES = 1024 * MIB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--cases", default=",".join(CASES), help=f"comma-separated, of {', '.join(CASES)}")
    parser.add_argument("--gib", type=float, help=f"GiB of bulk records, uncompressed (default {_GIB:g}, quick 2)")
    parser.add_argument("--payload", default=LZ4.name, help=f"of {', '.join(_PAYLOADS)}")
    parser.add_argument("--rate", type=int, default=_RATE, help="records a second of the hot topic")
    parser.add_argument("--cap-mib", type=float, default=_CAP_MIB, help="limit of the bulk in the capped cases, MiB/s")
    parser.add_argument("--seconds", type=float, help=f"measured seconds at most (default {_SECONDS:g}, quick 8)")
    parser.add_argument("--repeats", type=int, help=f"rounds over all cases (default {_REPEATS}, quick 1)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a property of raymirror alone")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a run lacks figures. Raises BenchError, ClusterError."""
    cases = [CASES[name] for name in chosen("priority", "case", args.cases, CASES)]
    (payload,) = (_PAYLOADS[name] for name in chosen("priority", "payload", args.payload, _PAYLOADS))
    gib = args.gib or (_QUICK_GIB if args.quick else _GIB)
    sizes = Sizes(
        rate=args.rate,
        cap_mib=args.cap_mib,
        warm_up_s=_QUICK_WARM_UP_S if args.quick else _WARM_UP_S,
        most_s=args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS),
        least_s=_QUICK_LEAST_S if args.quick else _LEAST_S,
    )
    repeats = args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS)
    more = dict(entry.split("=", 1) for entry in args.set)
    parts, load_before = Parts(), os.getloadavg()[0]
    rounds: list[dict[str, Figures]] = []
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        require_space(Path(name), gib)
        bench = PriorityBench(Path(name), sizes, more)
        try:
            bench.start(payload, gib)
            for repeat in range(repeats):
                rounds.append({})
                first = repeat % len(cases)  # another case comes first in each round
                for case in cases[first:] + cases[:first]:
                    figures = parts.measure(f"{case.name}, round {repeat + 1}", partial(bench.measure, case))
                    if figures is not None:
                        rounds[-1][case.name] = figures
        finally:
            bench.stop()
    found = summary(rounds)
    judged = goals(found)
    print("\n".join(rows(found, judged)))
    return report(
        "priority",
        args,
        parts,
        cases=found,
        goals=judged,
        payload=payload.name,
        gib=gib,
        sizes=msgspec.to_builtins(sizes),
        repeats=repeats,
        set=more,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def require_space(folder: Path, gib: float) -> None:
    """Refuse to begin if the disk is too small. Raises BenchError."""
    needed = 2 * gib + _SPARE_GIB  # the backlog, and one copy that a system may have decompressed
    free = shutil.disk_usage(folder).free / _GIB_BYTES
    if free < needed:
        raise BenchError("priority", f"{folder} has {free:.1f} GiB free; a backlog of {gib:g} GiB needs {needed:.1f}")


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a run: hot records a second, the limit of the bulk, seconds of warm-up, most and least that count."""

    rate: int
    cap_mib: float
    warm_up_s: float
    most_s: float
    least_s: float


class PriorityBench:
    """The pair of clusters, the bulk on the source, and the runs on them; `more`: properties of raymirror alone."""

    def __init__(self, folder: Path, sizes: Sizes, more: dict[str, str]) -> None:
        self._folder, self._sizes, self._more = folder, sizes, more
        # Kafka keeps deleted logs for a minute; the copies of three rounds would fill the disk.
        at_once = {"log.segment.delete.delay.ms": "1000"}
        self._source = EmbeddedCluster("source", folder / "source", heap_mib=_BROKER_HEAP_MIB, overrides=at_once)
        self._target = EmbeddedCluster("target", folder / "target", heap_mib=_BROKER_HEAP_MIB, overrides=at_once)
        self._bulk = Backlog.short(_BULK, _BULK_PARTITIONS)
        self._started = 0

    def start(self, payload: Payload, gib: float) -> None:
        """Start the clusters, and fill the bulk."""
        start_clusters(self._source, self._target)
        # A new broker appends at a fraction of its speed until Java has compiled the code for a batch.
        self._fill(self._target, payload, "warm-up", _WARM_UP_MIB)
        self._bulk = self._fill(self._source, payload, _BULK, int(gib * 1024))

    def stop(self) -> None:
        """Stop both clusters."""
        self._source.stop()
        self._target.stop()

    def _fill(self, cluster: EmbeddedCluster, payload: Payload, topic: str, mib: int) -> Backlog:
        asyncio.run(create_topic(cluster.bootstrap_servers, topic, _BULK_PARTITIONS))
        filled = fill(cluster, payload, topic, partitions=_BULK_PARTITIONS, mib=mib, folder=self._folder)
        print(f"filled {topic}: {filled.records:,} records, {filled.wire_bytes / MIB:,.0f} MiB", flush=True)
        return filled

    def measure(self, case: Case) -> Figures:
        """Start the system of a case, and measure the hot topic. Raises BenchError."""
        self._started += 1
        alias = f"{case.name.replace('-', '')}{self._started:03d}"
        topic = f"hot-{self._started:03d}"
        asyncio.run(create_topic(self._source.bootstrap_servers, topic, _HOT_PARTITIONS))
        asyncio.run(send_first_records(self._source.bootstrap_servers, topic, _HOT_PARTITIONS))
        topics = Backlog.short(f"{topic},{_BULK}" if case.has_bulk else topic)
        addresses = self._source.bootstrap_servers, self._target.bootstrap_servers
        job = Job.between(*addresses, topics, alias, self._folder / alias)
        try:
            figures = self._run(case, topic, job)
        finally:
            asyncio.run(delete_topics(job.target, containing=alias))
            asyncio.run(delete_topics(job.source, containing=topic))
            self._wait_deleted(alias)
        shown = "  ".join(f"{name} {value:g}" for name, value in figures.items())
        print(f"{case.name}: {shown}", flush=True)
        return figures

    def _wait_deleted(self, alias: str) -> None:
        """Wait until the copy is not on the disk any more: the next copy needs its place. Raises BenchError."""
        give_up_s = time.monotonic() + _DELETED_WITHIN_S
        while any(self._target.folder.rglob(f"{alias}.*")):
            if time.monotonic() > give_up_s:
                raise BenchError("priority", f"the logs of {alias} are still on the disk of the target")
            time.sleep(_LOOK_S)

    def _run(self, case: Case, topic: str, job: Job) -> Figures:
        sizes = self._sizes
        sent = Plan(
            bootstrap=job.source,
            topic=topic,
            partitions=_HOT_PARTITIONS,
            per_s=sizes.rate,
            warm_up_s=sizes.warm_up_s,
            measured_s=sizes.most_s,
        )
        at_source = msgspec.structs.replace(sent, samples=str(job.folder / "source.npy"))
        at_target = msgspec.structs.replace(
            sent, bootstrap=job.target, topic=f"{job.alias}.{topic}", samples=str(job.folder / "target.npy")
        )
        with contextlib.ExitStack() as stack:
            tree, port = stack.enter_context(self._running(case, topic, job))
            peek = stack.enter_context(KafkaPeek(job.target))
            watch = BulkWatch(peek, f"{job.alias}.{_BULK}", self._bulk)
            wait_copied(case.name, at_target)
            consumers = [stack.enter_context(running_end(CONSUME, plan)) for plan in (at_source, at_target)]
            for consumer in consumers:
                read_line(case.name, consumer)
            producer = stack.enter_context(running_end(PRODUCE, sent))
            began_s = read_line(case.name, producer)["began"]
            to_s = began_s + sizes.warm_up_s + sizes.most_s
            from_s = began_s + sizes.warm_up_s
            if case.has_bulk:
                from_s = max(from_s, watch.until_begun(time.monotonic() + START_TIMEOUT_S, case.name))
            time.sleep(max(0.0, from_s - time.monotonic()))
            seen = Seen(tree, port)
            if case.has_bulk:
                watch.until(to_s)
            time.sleep(0.0 if case.has_bulk else max(0.0, to_s - time.monotonic()))
            used = seen.since()
            produced = read_line(case.name, producer)
            for where, consumer in zip(("source", "target"), consumers, strict=True):
                if wrong := faults(read_line(case.name, consumer), produced):
                    raise BenchError(case.name, f"hot topic at the {where}: {wrong}")
        counts = self._counted(case, watch.looks, from_s, to_s)
        if counts.seconds < sizes.least_s:
            raise BenchError(
                case.name, f"the bulk was over after {counts.seconds:.1f} s of measuring: take a larger --gib"
            )
        numbers = counts.numbers(sent, began_s)
        source_p99_ms = hot(np.load(at_source.samples), numbers)["p99_ms"]
        return {
            **hot(np.load(at_target.samples), numbers),
            "source_p99_ms": source_p99_ms,
            **self._bulk_speed(counts),
            "seconds": round(counts.seconds, 1),
            "late_ms": produced["late_ms"],
            **used,
        }

    def _counted(self, case: Case, looks: list[Look], from_s: float, to_s: float) -> Window:
        return window(looks, self._bulk, from_s, to_s) if case.has_bulk else Window(from_s, to_s, 0)

    def _bulk_speed(self, counts: Window) -> dict[str, float]:
        by_record = self._bulk.logical_bytes / self._bulk.records, self._bulk.wire_bytes / self._bulk.records
        speeds = [counts.bulk_records * size / MIB / counts.seconds for size in by_record]
        return {"bulk_mib_per_s": round(speeds[0], 1), "bulk_wire_mib_per_s": round(speeds[1], 1)}

    @contextlib.contextmanager
    def _running(self, case: Case, topic: str, job: Job) -> Iterator[tuple[ProcessTree, int]]:
        """Run the system of a case; give its processes, and the port of its metrics (0: none)."""
        port = 0 if case.is_mm2 else pick_ports(1)[0]
        settings = case.settings(f"{job.alias}->target", topic, _BULK, self._sizes.cap_mib)
        if case.is_mm2:
            launch = mm2.launch_default(job)
        else:
            launch = raymirror.launch(job, {"raymirror.metrics.port": str(port), **settings, **self._more})
        with running(launch, job) as (_, tree):
            yield tree, port


class Seen:
    """CPU time and stalls of a system from now on; `port`: of its metrics (0: none)."""

    def __init__(self, tree: ProcessTree, port: int) -> None:
        self._tree, self._port = tree, port
        tree.discover()
        self._counts = read_counts(port) if port else []
        self._before, self._at_s = tree.sample(), time.monotonic()

    def since(self) -> dict[str, float]:
        """Return CPU in percent of a core, and quantiles of the stalls of event loops."""
        used_s, wall_s = self._tree.sample().since(self._before), time.monotonic() - self._at_s
        found = {"cpu_percent": round(100 * used_s / wall_s, 1)}
        return {**found, **stalls(self._counts, read_counts(self._port))} if self._port else found
