"""`idle`: CPU and memory of a mirror that has nothing to copy, and how soon a record wakes it."""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.measure import running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.processes import ProcessKey, ProcessTree
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from bench.watch import DISCOVER_S, START_TIMEOUT_S
from deploy.local.cluster import EmbeddedCluster

COPIERS = 4
_PARTITIONS = 40
_TOPIC = "bench-idle"
_IDLE_S, _QUICK_IDLE_S = 60.0, 15.0
_WAKES, _QUICK_WAKES = 10, 3
_REST_S = 20.0
"""Seconds after the last append: copiers distribute sets, positions become durable, Ray starts its last processes."""
_BETWEEN_WAKES_S = 3.0
_LOOK_S = 0.001
_MIB = 1024 * 1024
_ACTORS = {"copiers": "ray::CopierActor", "supervisor": "ray::SupervisorActor", "metadata": "ray::MetadataActor"}


def _launch_raymirror(job: Job) -> Launch:
    return raymirror.launch(job, {f"{job.alias}->target.raymirror.copiers": str(COPIERS)})


LAUNCHES: dict[str, Callable[[Job], Launch]] = {"raymirror": _launch_raymirror, "mm2": mm2.launch_default}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(LAUNCHES), help=f"comma-separated, of {', '.join(LAUNCHES)}")
    parser.add_argument("--seconds", type=float, help=f"measured seconds of rest (default {_IDLE_S:.0f}, quick 15)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system lacks figures. Raises BenchError, ClusterError."""
    systems = chosen("idle", "system", args.systems, LAUNCHES)
    seconds = args.seconds or (_QUICK_IDLE_S if args.quick else _IDLE_S)
    wakes = _QUICK_WAKES if args.quick else _WAKES
    found: dict[str, dict[str, float]] = {}
    parts = Parts()
    load_before = os.getloadavg()[0]
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, _PARTITIONS))
        for system in systems:
            parts.measure(system, partial(_system, system, source, target, folder, seconds, wakes, found))
    for system, figures in found.items():
        print(f"{system:10}", "  ".join(f"{field} {value:g}" for field, value in figures.items()))
    return report(
        "idle",
        args,
        parts,
        systems=found,
        ratios=_ratios(found),
        partitions=_PARTITIONS,
        copiers=COPIERS,
        seconds=seconds,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def _system(
    system: str,
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    folder: Path,
    seconds: float,
    wakes: int,
    found: dict[str, dict[str, float]],
) -> None:
    """Measure one system; its figures go into `found` as they come."""
    job = _job(system, source, target, folder)
    asyncio.run(_measure(system, LAUNCHES[system](job), job, seconds, wakes, found))


def _job(system: str, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path) -> Job:
    backlog = Backlog.short(_TOPIC, _PARTITIONS, 1)
    return Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, system, folder / system)


def _ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    if not {"raymirror", "mm2"} <= found.keys():
        return {}
    ours, theirs = found["raymirror"], found["mm2"]
    return {f"raymirror/mm2 {field}": round(ours[field] / theirs[field], 4) for field in ("cpu_percent", "rss_mib")}


async def _measure(
    system: str, launch: Launch, job: Job, seconds: float, wakes: int, found: dict[str, dict[str, float]]
) -> None:
    """Start a system, let it copy a record of each partition, measure it at rest, then wake it up.

    `found` has the figures of its rest before it is woken, so they stay if no record wakes it.
    """
    with KafkaPeek(job.target) as peek, running(launch, job) as (process, tree):
        async with AIOKafkaProducer(bootstrap_servers=job.source) as producer:
            bell = _Bell(system, job, producer, peek)
            for partition in range(_PARTITIONS):
                await bell.ring(partition)
            await bell.wait_for(range(_PARTITIONS), START_TIMEOUT_S)
            await asyncio.sleep(_REST_S)
            if process.poll() is not None:
                raise BenchError(system, f"ended by itself with {process.returncode}")
            found |= await _rest(system, tree, seconds)
            found[system]["wake_ms"] = round(statistics.median([await bell.wake(n) for n in range(wakes)]), 1)


async def _rest(system: str, tree: ProcessTree, seconds: float) -> dict[str, dict[str, float]]:
    """Measure a window of rest: for raymirror its copiers and supervisor, and separately all other processes of Ray."""
    tree.discover()
    before, began_at = tree.sample(), time.monotonic()
    while time.monotonic() - began_at < seconds:
        await asyncio.sleep(DISCOVER_S)
        tree.discover()
    after, wall_s = tree.sample(), time.monotonic() - began_at
    living = tree.living()

    def of(keys: frozenset[ProcessKey]) -> dict[str, float]:
        return {
            "cpu_percent": round(100 * after.since(before, keys) / wall_s, 2),
            "rss_mib": round(tree.rss_bytes(keys & living) / _MIB, 1),
            "processes": len(keys & living),
        }

    everything = frozenset(after.cpu_s)
    if system != "raymirror":
        return {system: of(everything)}
    parts = {name: tree.members(mark) for name, mark in _ACTORS.items()}
    if len(parts["copiers"] & living) != COPIERS:
        raise BenchError(system, f"{len(parts['copiers'] & living)} copiers live, {COPIERS} are needed")
    ours = of(parts["copiers"] | parts["supervisor"])
    for name, keys in parts.items():
        ours |= {f"{name}_{field}": value for field, value in of(keys).items() if field != "processes"}
    return {system: ours, "ray": of(everything - frozenset().union(*parts.values()))}


class _Bell:
    """Writes records to the source, and detects when they are on the target."""

    def __init__(self, system: str, job: Job, producer: AIOKafkaProducer, peek: KafkaPeek) -> None:
        self._system, self._job, self._producer, self._peek = system, job, producer, peek
        base = peek_counts(job)
        self._sent = list(base)

    async def ring(self, partition: int) -> None:
        """Write a record; returns when the source has it."""
        await self._producer.send_and_wait(self._job.backlog.topic, b"x" * 100, partition=partition)
        self._sent[partition] += 1

    async def wait_for(self, partitions: range, timeout_s: float) -> None:
        """Wait until the target has as many records as the source. Raises BenchError."""
        give_up_at = time.monotonic() + timeout_s
        for partition in partitions:
            end = -1
            while True:
                now = self._peek.end_offsets(self._job.target_topic, _PARTITIONS)[partition]
                if now != end and now and self._has_all(partition):
                    break
                end = now
                if time.monotonic() > give_up_at:
                    raise BenchError(self._system, f"a record of partition {partition} did not arrive")
                await asyncio.sleep(_LOOK_S)

    def _has_all(self, partition: int) -> bool:
        return self._peek.count(self._job.target_topic, partition).records >= self._sent[partition]

    async def wake(self, number: int) -> float:
        """Wait for a moment, write one record, and return the milliseconds until the target has it."""
        await asyncio.sleep(_BETWEEN_WAKES_S)
        partition = number * 7 % _PARTITIONS
        began_at = time.monotonic()
        await self.ring(partition)
        await self.wait_for(range(partition, partition + 1), START_TIMEOUT_S)
        return (time.monotonic() - began_at) * 1000


def peek_counts(job: Job) -> list[int]:
    """Count what the source holds already, by partition: an earlier system's records."""
    with KafkaPeek(job.source) as peek:
        return peek.end_offsets(job.backlog.topic, _PARTITIONS)
