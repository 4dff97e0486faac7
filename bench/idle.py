"""`idle`: CPU, wakes and memory of a mirror that has nothing to copy, and how soon a record wakes it."""

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.measure import output, running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.processes import ProcessKey, ProcessTree
from bench.systems import bare_ray, mm2, raymirror
from bench.systems.launch import Job, Launch
from bench.watch import DISCOVER_S, START_TIMEOUT_S, wait_until
from deploy.local.cluster import EmbeddedCluster
from engine.base.parts import parts

COPIERS = 4
ACTORS = COPIERS + 2
"""Copiers, supervisor and metadata: as many bare actors are the lower limit of a mirror on Ray."""
_FLOOR = "floor"
_PARTITIONS = 40
_TOPIC, _WATCHED = "bench-idle", "bench-idle-watched"
"""Each partition of the first has a record before the rest; the second has none."""
_IDLE_S, _QUICK_IDLE_S = 60.0, 15.0
_WAKES, _QUICK_WAKES = 10, 3
_REST_S = 20.0
"""Seconds after the last append: copiers distribute sets, positions become durable, Ray starts its last processes."""
_BETWEEN_WAKES_S = 3.0
_LED_WITHIN_MS = 300_000
_LOOK_S = 0.001
_AT_ONCE = 100
"""Records that are written to the source at once."""
_MIB = 1024 * 1024
_ACTORS = {"copiers": "ray::CopierActor", "supervisor": "ray::SupervisorActor", "metadata": "ray::MetadataActor"}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: partitions with a record, seconds of rest, wakes of each kind."""

    partitions: int
    seconds: float
    wakes: int


def watched_topic(system: str) -> str:
    """Name the topic whose partitions have no record until the system is woken by it."""
    return f"{_WATCHED}-{system}"


def _topics(job: Job) -> dict[str, str]:
    return {f"{job.alias}->target.topics": f"{_TOPIC}, {watched_topic(job.alias)}"}


def _launch_raymirror(job: Job) -> Launch:
    return raymirror.launch(job, {f"{job.alias}->target.raymirror.copiers": str(COPIERS), **_topics(job)})


def _launch_mm2(job: Job) -> Launch:
    return mm2.launch_default(job, _topics(job))


def _launch_floor(job: Job) -> Launch:
    return Launch(command=(sys.executable, "-m", "bench.systems.bare_ray", str(ACTORS), str(job.folder)))


LAUNCHES: dict[str, Callable[[Job], Launch]] = {
    _FLOOR: _launch_floor,
    "raymirror": _launch_raymirror,
    "mm2": _launch_mm2,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(LAUNCHES), help=f"comma-separated, of {', '.join(LAUNCHES)}")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS, help="partitions with one record, at most 9,999")
    parser.add_argument("--wakes", type=int, help=f"wakes of each kind (default {_WAKES}, quick {_QUICK_WAKES})")
    parser.add_argument("--seconds", type=float, help=f"measured seconds of rest (default {_IDLE_S:.0f}, quick 15)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system lacks figures. Raises BenchError, ClusterError."""
    systems = chosen("idle", "system", args.systems, LAUNCHES)
    seconds = args.seconds or (_QUICK_IDLE_S if args.quick else _IDLE_S)
    wakes = args.wakes or (_QUICK_WAKES if args.quick else _WAKES)
    plan = Plan(partitions=args.partitions, seconds=seconds, wakes=wakes)
    found: dict[str, dict[str, float]] = {}
    parts = Parts()
    load_before = os.getloadavg()[0]
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, plan.partitions))
        for system in systems:
            asyncio.run(create_topic(source.bootstrap_servers, watched_topic(system), wakes))
            job = _job(system, source, target, folder, plan.partitions)
            parts.measure(system, partial(_system, system, job, plan, found))
    for system, figures in found.items():
        print(f"{system:10}", "  ".join(f"{field} {value:g}" for field, value in figures.items()))
    return report(
        "idle",
        args,
        parts,
        systems=found,
        ratios=_ratios(found),
        partitions=plan.partitions,
        wakes=wakes,
        copiers=COPIERS,
        seconds=seconds,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def _system(system: str, job: Job, plan: Plan, found: dict[str, dict[str, float]]) -> None:
    """Measure one system; its figures go into `found` as they come."""
    measure = _measure_floor if system == _FLOOR else _measure
    asyncio.run(measure(system, LAUNCHES[system](job), job, plan, found))


def _job(system: str, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path, partitions: int) -> Job:
    backlog = Backlog.short(_TOPIC, partitions, 1)
    return Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, system, folder / system)


def _ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    ours = found.get("raymirror")
    if ours is not None and (theirs := found.get("mm2")) is not None:
        ratios |= {f"raymirror/mm2 {name}": round(ours[name] / theirs[name], 4) for name in ("cpu_percent", "rss_mib")}
    if ours is not None and (floor := found.get(_FLOOR)) is not None:
        for name in ("cpu_percent", "wakes_per_s"):
            ratios[f"raymirror above floor {name}"] = round(ours[name] + ours[f"metadata_{name}"] - floor[name], 2)
    return ratios


async def _measure_floor(system: str, launch: Launch, job: Job, plan: Plan, found: dict[str, dict[str, float]]) -> None:
    """Measure as many actors that do nothing as the mirror has. Raises BenchError."""
    with running(launch, job) as (process, tree):
        await wait_until(system, "the actors did not start", lambda: bare_ray.MARK in output(job), process)
        await asyncio.sleep(_REST_S)
        found |= await _rest(system, tree, plan.seconds)


async def _measure(system: str, launch: Launch, job: Job, plan: Plan, found: dict[str, dict[str, float]]) -> None:
    """Start a system, let it copy a record of each partition, measure it at rest, then wake it up.

    `found` has the figures of its rest before it is woken, so they stay if no record wakes it.
    """
    async with _clients(job) as (peek, producer):
        watched = msgspec.structs.replace(job, backlog=Backlog.short(watched_topic(system), plan.wakes, 1))
        with running(launch, job) as (process, tree):
            bell = _Bell(system, job, producer, peek)
            await bell.ring_all()
            await asyncio.sleep(_REST_S)
            if process.poll() is not None:
                raise BenchError(system, f"ended by itself with {process.returncode}")
            found |= await _rest(system, tree, plan.seconds)
            rung = [number * 7 % min(plan.partitions, _PARTITIONS) for number in range(plan.wakes)]
            found[system] |= _times("wake", [await bell.wake(partition) for partition in rung])
            bell = _Bell(system, watched, producer, peek)
            found[system] |= _times("new_wake", [await bell.wake(partition) for partition in range(plan.wakes)])
        if system == "raymirror":
            with running(launch, job) as (process, _):
                lanes = plan.partitions + plan.wakes
                what = "did not come to rest after its second start"
                await wait_until(system, what, lambda: lanes_at_rest(output(job)) >= lanes, process)
                await asyncio.sleep(_REST_S)
                waiting = watchers(output(job), _TOPIC, plan.partitions)[: plan.wakes]
                bell = _Bell(system, job, producer, peek)
                found[system] |= _times("watch_wake", [await bell.wake(partition) for partition in waiting])


@contextlib.asynccontextmanager
async def _clients(job: Job) -> AsyncIterator[tuple[KafkaPeek, AIOKafkaProducer]]:
    """Open what writes to the source, and what reads the target.

    A new broker needs a minute until it leads ten thousand partitions; until then it refuses records.
    """
    with KafkaPeek(job.target) as peek:
        async with AIOKafkaProducer(bootstrap_servers=job.source, request_timeout_ms=_LED_WITHIN_MS) as producer:
            yield peek, producer


def lanes_at_rest(text: str) -> int:
    """Return how many partitions a mirror has by the last line of its output with a lag of 0; 0: there is none."""
    said = re.findall(r"([\d,]+) partitions, lag 0,", text)
    return int(said[-1].replace(",", "")) if said else 0


def watchers(text: str, topic: str, partitions: int) -> list[int]:
    """Return the partitions that have no owner by the output of a mirror: it tells where a new owner resumes."""
    owned = {int(number) for number in re.findall(rf" {re.escape(topic)}-(\d+): resumes at ", text)}
    return [number for number in range(partitions) if number not in owned]


def _times(name: str, wakes_ms: list[float]) -> dict[str, float]:
    """Sum up wakes; with fewer than a hundred the 99th percentile is the largest. No figures without wakes."""
    if not wakes_ms:
        return {}
    ordered = sorted(wakes_ms)
    p99 = ordered[max(0, ceil(0.99 * len(ordered)) - 1)]
    return {f"{name}_ms": round(statistics.median(ordered), 1), f"{name}_p99_ms": round(p99, 1)}


async def _rest(system: str, tree: ProcessTree, seconds: float) -> dict[str, dict[str, float]]:
    """Measure a window of rest: for raymirror its copiers and supervisor, and separately all other processes of Ray."""
    tree.discover()
    before, began_at = tree.sample(), time.monotonic()
    asleep = {key: tree.wakes(frozenset({key})) for key in tree.living()}
    while time.monotonic() - began_at < seconds:
        await asyncio.sleep(DISCOVER_S)
        tree.discover()
    after, wall_s = tree.sample(), time.monotonic() - began_at
    living = tree.living()
    woken = {key: tree.wakes(frozenset({key})) - count for key, count in asleep.items()}

    def of(keys: frozenset[ProcessKey]) -> dict[str, float]:
        return {
            "cpu_percent": round(100 * after.since(before, keys) / wall_s, 2),
            "wakes_per_s": round(sum(woken.get(key, 0) for key in keys & living) / wall_s, 1),
            "rss_mib": round(tree.rss_bytes(keys & living) / _MIB, 1),
            "processes": len(keys & living),
        }

    everything = frozenset(after.cpu_s)
    if system == _FLOOR:
        return {system: of(tree.members("ray::Bare"))}
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
        self._sent = peek_counts(job)

    async def ring(self, partition: int) -> None:
        """Write a record; returns when the source has it."""
        await self._producer.send_and_wait(self._job.backlog.topic, b"x" * 100, partition=partition)
        self._sent[partition] += 1

    async def ring_all(self) -> None:
        """Write a record to each partition, and wait until the target has all. Raises BenchError."""
        for some in parts(range(len(self._sent)), _AT_ONCE):
            await asyncio.gather(*(self.ring(partition) for partition in some))
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while missing := sum(end < sent for end, sent in zip(self._ends(), self._sent, strict=True)):
            if time.monotonic() > give_up_at:
                raise BenchError(self._system, f"records of {missing} partitions did not arrive")
            await asyncio.sleep(DISCOVER_S)

    async def wait_for(self, partition: int, timeout_s: float) -> None:
        """Wait until a partition of the target has as many records as that of the source. Raises BenchError."""
        give_up_at = time.monotonic() + timeout_s
        end = -1
        while True:
            now = self._end(partition)
            if now != end and now and self._has_all(partition):
                return
            end = now
            if time.monotonic() > give_up_at:
                raise BenchError(self._system, f"a record of partition {partition} did not arrive")
            await asyncio.sleep(_LOOK_S)

    def _ends(self) -> list[int]:
        return self._peek.end_offsets(self._job.target_topic, len(self._sent))

    def _end(self, partition: int) -> int:
        return self._peek.end_offsets(self._job.target_topic, partition + 1)[partition]

    def _has_all(self, partition: int) -> bool:
        return self._peek.count(self._job.target_topic, partition).records >= self._sent[partition]

    async def wake(self, partition: int) -> float:
        """Wait for a moment, write one record, and return the milliseconds until the target has it."""
        await asyncio.sleep(_BETWEEN_WAKES_S)
        began_at = time.monotonic()
        await self.ring(partition)
        await self.wait_for(partition, START_TIMEOUT_S)
        return (time.monotonic() - began_at) * 1000


def peek_counts(job: Job) -> list[int]:
    """Count what the source holds already, by partition: an earlier system's records."""
    with KafkaPeek(job.source) as peek:
        return peek.end_offsets(job.backlog.topic, job.backlog.partitions)
