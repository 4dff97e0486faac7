"""`metadata`: bytes that a mirror writes besides the records, on both clusters, every internal topic counted."""

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.measure import running
from bench.parts import Parts, chosen, report
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from deploy.local.cluster import EmbeddedCluster, running_clusters

LAUNCHES: dict[str, Callable[[Job], Launch]] = {"raymirror": raymirror.launch, "mm2": mm2.launch_default}
_TOPIC = "metadata"
_PARTITIONS, _QUICK_PARTITIONS = 200, 20
_SECONDS, _QUICK_SECONDS = 600.0, 20.0
_MIB_PER_S, _QUICK_MIB_PER_S = 20, 2
_RECORD_BYTES = 1024
_IN_TRANSACTION_BYTES = 10 * 1024
_IN_TRANSACTION, _MOST_IN_TRANSACTION = 10, 50
_PRODUCERS = 8
_READY_S, _DRAIN_S, _SETTLE_S = 180.0, 120.0, 15.0
"""Seconds to settle: at its defaults MM2 writes the last positions and syncs of idle partitions within a minute."""
_MIB = 1024 * 1024
_TRANSACTIONS, _RANDOM = "in transactions", "in transactions of random length"
_OF_THE_LOAD = "source __transaction_state"
DATASETS = ("contiguous", _TRANSACTIONS, _RANDOM)
_TOOL = "org.apache.kafka.tools.ProducerPerformance"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(LAUNCHES), help=f"comma-separated, of {', '.join(LAUNCHES)}")
    parser.add_argument("--datasets", default=",".join(DATASETS), help=f"comma-separated, of {', '.join(DATASETS)}")
    parser.add_argument("--seconds", type=float, help=f"seconds of load (default {_SECONDS:.0f})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a part has no figures. Raises BenchError."""
    systems = chosen("metadata", "system", args.systems, LAUNCHES)
    datasets = chosen("metadata", "dataset", args.datasets, DATASETS)
    seconds = args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS)
    partitions = _QUICK_PARTITIONS if args.quick else _PARTITIONS
    mib_per_s = _QUICK_MIB_PER_S if args.quick else _MIB_PER_S
    found: dict[str, dict[str, dict[str, Any]]] = {}
    parts = Parts()
    for dataset in datasets:
        for system in systems:
            scene = _Scene(system, dataset, partitions, mib_per_s, seconds)
            figures = parts.measure(f"{dataset} {system}", scene.run)
            if figures is not None:
                found.setdefault(dataset, {})[system] = figures
                print(f"{dataset} {system}: {figures['metadata_bytes']:,} bytes", flush=True)
    _print(found)
    first = found.get(datasets[0], {})
    return report(
        "metadata",
        args,
        parts,
        systems=first,
        ratios={name: _ratio(figures) for name, figures in found.items() if len(figures) > 1},
        datasets=found,
        seconds=seconds,
        partitions=partitions,
    )


def _ratio(systems: dict[str, dict[str, Any]]) -> float:
    ours, theirs = systems["raymirror"], systems["mm2"]
    per_mib = [one["metadata_bytes"] / one["logical_mib"] for one in (ours, theirs)]
    return float(f"{per_mib[0] / per_mib[1]:.4g}")


class _Scene:
    """A pair of clusters whose log cleaner is off, so that all written bytes can still be counted."""

    def __init__(self, system: str, dataset: str, partitions: int, mib_per_s: int, seconds: float) -> None:
        self._system, self._dataset, self._partitions = system, dataset, partitions
        self._mib_per_s, self._seconds = mib_per_s, seconds

    def run(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
            folder = Path(name)
            keep = {"log.cleaner.enable": "false"}
            source = EmbeddedCluster("source", folder / "source", overrides=keep, heap_mib=1024)
            target = EmbeddedCluster("target", folder / "target", overrides=keep, heap_mib=1024)
            with running_clusters(source, target):
                return self._run(source, target, folder)

    def _run(self, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path) -> dict[str, Any]:
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, self._partitions))
        servers = source.bootstrap_servers, target.bootstrap_servers
        job = Job.between(*servers, Backlog.short(_TOPIC), "meta", folder / "job")
        with running(LAUNCHES[self._system](job), job):
            with KafkaPeek(job.target) as peek:
                self._until(lambda: self._ready(peek, job), _READY_S, "the copied topic does not exist")
            before = _beside(folder, job)
            sent = self._load(source, folder)
            with KafkaPeek(job.target) as peek:  # a broker closes a connection that was idle for ten minutes
                self._until(lambda: self._count(peek, job) >= sent, _DRAIN_S, "not everything is copied")
            time.sleep(_SETTLE_S)
            topics = {topic: size - before.get(topic, 0) for topic, size in _beside(folder, job).items()}
        record_bytes = _RECORD_BYTES if self._dataset == DATASETS[0] else _IN_TRANSACTION_BYTES
        return {
            "metadata_bytes": sum(topics.values()),
            "logical_mib": round(sent * record_bytes / _MIB, 1),
            "records": sent,
            "topics": {topic: size for topic, size in sorted(topics.items()) if size},
        }

    def _until(self, holds: Callable[[], bool], deadline_s: float, what: str) -> None:
        deadline = time.monotonic() + deadline_s
        while not holds():
            if time.monotonic() > deadline:
                raise BenchError(self._system, f"{what} within {deadline_s:.0f} s")
            time.sleep(0.5)

    def _ready(self, peek: KafkaPeek, job: Job) -> bool:
        return len(peek.end_offsets(job.target_topic, self._partitions)) == self._partitions

    def _count(self, peek: KafkaPeek, job: Job) -> int:
        return sum(peek.count(job.target_topic, partition).records for partition in range(self._partitions))

    def _load(self, source: EmbeddedCluster, folder: Path) -> int:
        if self._dataset != DATASETS[0]:
            return asyncio.run(self._transactions(source.bootstrap_servers))
        rate = self._mib_per_s * _MIB // _RECORD_BYTES
        count = int(rate * self._seconds)
        process = source.popen_tool(
            _TOOL,
            *("--topic", _TOPIC, "--num-records", str(count), "--record-size", str(_RECORD_BYTES)),
            *("--throughput", str(rate), "--command-property"),
            *(f"bootstrap.servers={source.bootstrap_servers}", "linger.ms=100", "batch.size=65536", "acks=all"),
            log_file=folder / "load.log",
            heap_mib=1024,
        )
        if process.wait(self._seconds * 3 + 120):
            raise BenchError("load", (folder / "load.log").read_text()[-1000:])
        return count

    async def _transactions(self, address: str) -> int:
        """Write transactions, spread over the partitions, at the rate or as fast as possible; return their records."""
        per_s = self._mib_per_s * _MIB / _IN_TRANSACTION_BYTES / _PRODUCERS
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._producer(address, one, per_s)) for one in range(_PRODUCERS)]
        return sum(task.result() for task in tasks)

    async def _producer(self, address: str, number: int, per_s: float) -> int:
        """Write the share of one producer, `per_s` records a second, to partitions that no other one writes to.

        Both systems get the same lengths.
        """
        client: Any = AIOKafkaProducer(bootstrap_servers=address, transactional_id=f"load-{number}", linger_ms=1)
        await client.start()
        began, done, sent = time.monotonic(), 0, 0
        value, dice = os.urandom(_IN_TRANSACTION_BYTES), random.Random(number)
        mine = range(number, self._partitions, _PRODUCERS)
        try:
            while time.monotonic() - began < self._seconds:
                partition = mine[done % len(mine)]
                length = dice.randint(1, _MOST_IN_TRANSACTION) if self._dataset == _RANDOM else _IN_TRANSACTION
                await client.begin_transaction()
                for _ in range(length):
                    await client.send(_TOPIC, value, partition=partition)
                await client.flush()
                await client.commit_transaction()
                done, sent = done + 1, sent + length
                await asyncio.sleep(max(0.0, began + sent / per_s - time.monotonic()))
        finally:
            await client.stop()
        return sent


def _beside(folder: Path, job: Job) -> dict[str, int]:
    """Return the bytes of every topic's segments on both clusters but the copied one's, by cluster and topic."""
    found: dict[str, int] = {}
    for segment in folder.glob("*/**/*.log"):
        topic, _, partition = segment.parent.name.rpartition("-")
        if not segment.stem.isdigit() or not partition.isdigit():
            continue  # the metadata log of the broker itself
        if topic not in (_TOPIC, job.target_topic, "__cluster_metadata"):
            where = f"{segment.relative_to(folder).parts[0]} {topic}"
            found[where] = found.get(where, 0) + segment.stat().st_size
    found.pop(_OF_THE_LOAD, None)
    return found


def _print(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    table = Table(title="bytes written besides the records")
    for name in ("dataset", "system", "MiB of records", "bytes", "bytes per MiB", "most in"):
        table.add_column(name, justify="left" if name in ("dataset", "system", "most in") else "right")
    for dataset, systems in found.items():
        for system, figures in systems.items():
            topics = sorted(figures["topics"].items(), key=lambda one: -one[1])[:3]
            table.add_row(
                dataset,
                system,
                f"{figures['logical_mib']:,}",
                f"{figures['metadata_bytes']:,}",
                f"{figures['metadata_bytes'] / figures['logical_mib']:,.0f}",
                ", ".join(f"{topic} {size:,}" for topic, size in topics),
            )
    Console(width=None if os.isatty(1) else 160).print(table)
