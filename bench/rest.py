"""`rest`: CPU and memory of each process of a small mirror at rest: without Spark, with Spark, and Ray alone."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.mappings import alone_bytes
from bench.measure import output, running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.processes import ProcessKey, ProcessTree
from bench.systems import bare_ray, raymirror
from bench.systems.launch import Job, Launch
from bench.watch import DISCOVER_S, wait_until
from deploy.local.cluster import EmbeddedCluster
from engine.jobs.tables.catalog import LAG

_PARTITIONS = 6
_TOPIC = "bench-rest"
_FLOOR, _PLAIN, _SPARK = "floor", "plain", "spark"
_ACTORS = 3
"""Number of actors of a mirror with one flow: supervisor, metadata, copier."""
_STORAGE = "storage"
_SECONDS, _QUICK_SECONDS = 120.0, 30.0
_SETTLE_S = {_FLOOR: 30.0, _PLAIN: 30.0, _SPARK: 120.0}
_QUICK_SETTLE_S = {_FLOOR: 10.0, _PLAIN: 10.0, _SPARK: 30.0}
"""Seconds from the last record (with Spark, the first windows) to the window: Ray starts processes, Java compiles."""
_LAG_LOG = f"tables/{LAG.name}/_delta_log"
_GOALS = {"cpu_percent": 5.0, "pss_mib": 1.6 * 1024}
"""The most that Spark at rest may take beyond a mirror without it: percent of one core, and MiB."""
_MIB = 1024 * 1024
_SYSTEMS = (_FLOOR, _PLAIN, _SPARK)
_BY_EXECUTABLE = {"gcs_server": "gcs", "raylet": "raylet"}
_BY_TEXT = {
    "ray::SupervisorActor": "supervisor",
    "ray::MetadataActor": "metadata",
    "ray::Copier": "copier",
    "ray::SparkHost": "spark host",
    "ray::RayDPSparkMaster": "spark master",
    "ray::IDLE": "idle worker",
    "ray::Bare": "bare actor",
    "AppMasterEntryPoint": "JVM of the master",
    "-Dspark.executor.extraJavaOptions=": "JVM app master",
    "SparkSubmit": "JVM driver",
    "DefaultWorker": "JVM executor",
    "pyspark.daemon": "python of executors",
    "idle_agent.py": "idle agent",
    "DashboardAgent": "dashboard agent",
    "dashboard/agent.py": "dashboard agent",
    "RuntimeEnvAgent": "runtime env agent",
    "runtime_env/agent/main.py": "runtime env agent",
    "log_monitor": "log monitor",
    "dashboard/dashboard.py": "dashboard",
    "DashboardHead": "dashboard",
    "autoscaler": "monitor",
    "monitor.py": "monitor",
    "-m actors run": "run",
    "bare_ray": "run",
}
"""Texts in a command line or a process title; the first that fits decides."""


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of one role at rest: how many, memory at the end of the window, CPU over it."""

    processes: int
    pss_mib: float
    """A page that several processes share counts 1/n for each, so the values add up."""
    rss_mib: float
    cpu_percent: float
    """Of one core."""
    wakes_per_s: float
    """Times a second that a thread is woken."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(_SYSTEMS), help=f"comma-separated, of {', '.join(_SYSTEMS)}")
    parser.add_argument("--seconds", type=float, help=f"measured seconds of rest (default {_SECONDS:.0f}, quick 30)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system lacks figures. Raises BenchError, ClusterError."""
    systems = chosen("rest", "system", args.systems, _SYSTEMS)
    seconds = args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS)
    settle_s = _QUICK_SETTLE_S if args.quick else _SETTLE_S
    found: dict[str, dict[str, Any]] = {}
    parts = Parts()
    load_before = os.getloadavg()[0]
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, _PARTITIONS))
        for system in systems:
            job = _job(system, source, target, folder)
            measured = parts.measure(system, partial(_system, system, job, seconds, settle_s[system]))
            if measured is not None:
                found[system] = measured
                _show(system, measured)
    ratios = above_plain(found)
    for name, value in ratios.items():
        print(f"{name} {value:g}")
    return report(
        "rest",
        args,
        parts,
        systems=found,
        ratios=ratios,
        partitions=_PARTITIONS,
        seconds=seconds,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def above_plain(found: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return what Spark at rest takes beyond a mirror without it, each with its goal; empty if one was not measured."""
    if _PLAIN not in found or _SPARK not in found:
        return {}
    ratios: dict[str, float] = {}
    for name, goal in _GOALS.items():
        ratios[f"spark above plain {name}"] = round(found[_SPARK][name] - found[_PLAIN][name], 2)
        ratios[f"goal of spark above plain {name}"] = goal
    return ratios


def has_windows(storage: Path) -> bool:
    """Whether Spark has stored windows of the lag history. The first commit of the table's log only creates it."""
    return len(list((storage / _LAG_LOG).glob("*.json"))) > 1


def role_of(command: str) -> str:
    """Return the role of a process of a mirror, by its command line; `other` if it is unknown."""
    executable = command.partition(" ")[0].rpartition("/")[2]
    if executable in _BY_EXECUTABLE:  # first: the raylet's command line holds those of all that it starts
        return _BY_EXECUTABLE[executable]
    return next((role for text, role in _BY_TEXT.items() if text in command), "other")


def _job(system: str, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path) -> Job:
    backlog = Backlog.short(_TOPIC, _PARTITIONS, 1)
    return Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, system, folder / system)


def _system(system: str, job: Job, seconds: float, settle_s: float) -> dict[str, Any]:
    if system == _FLOOR:
        command = (sys.executable, "-m", "bench.systems.bare_ray", str(_ACTORS), str(job.folder))
        return asyncio.run(_measure(system, job, Launch(command=command), None, seconds, settle_s))
    storage = job.folder / _STORAGE if system == _SPARK else None
    more = {"raymirror.spark": "on", "raymirror.storage": f"file:{storage}"} if storage is not None else {}
    return asyncio.run(_measure(system, job, raymirror.launch(job, more), storage, seconds, settle_s))


async def _measure(
    system: str, job: Job, launch: Launch, storage: Path | None, seconds: float, settle_s: float
) -> dict[str, Any]:
    """Start a mirror, let it copy a record of each partition, and measure it at rest. Raises BenchError."""
    with running(launch, job) as (process, tree):
        if system == _FLOOR:
            await wait_until(system, "the actors did not start", lambda: bare_ray.MARK in output(job))
        else:
            await _copy(system, job)
        if storage is not None:  # all processes of Spark run after it has stored windows
            await wait_until(system, "Spark stored no windows", lambda: has_windows(storage))
        await asyncio.sleep(settle_s)
        if process.poll() is not None:
            raise BenchError(system, f"ended by itself with {process.returncode}")
        return await _rest(tree, seconds, storage)


async def _copy(system: str, job: Job) -> None:
    async with AIOKafkaProducer(bootstrap_servers=job.source) as producer:
        for partition in range(_PARTITIONS):
            await producer.send_and_wait(_TOPIC, b"x" * 100, partition=partition)
    with KafkaPeek(job.target) as peek:
        await wait_until(
            system,
            "a record of each partition did not arrive",
            lambda: all(peek.end_offsets(job.target_topic, _PARTITIONS)),
        )


async def _rest(tree: ProcessTree, seconds: float, storage: Path | None) -> dict[str, Any]:
    """Measure a window of rest, role by role."""
    tree.discover()
    before, began_at, files = tree.sample(), time.monotonic(), _names(storage)
    asleep = {key: tree.wakes(frozenset({key})) for key in tree.living()}
    written: set[Path] = set()
    while time.monotonic() - began_at < seconds:
        await asyncio.sleep(DISCOVER_S)
        tree.discover()
        written |= _names(storage)
    after, wall_s = tree.sample(), time.monotonic() - began_at
    woken = {key: tree.wakes(frozenset({key})) - count for key, count in asleep.items()}
    roles: dict[str, list[ProcessKey]] = {}
    for key in after.cpu_s:
        roles.setdefault(role_of(tree.command(key)), []).append(key)
    living = tree.living()

    def of(keys: frozenset[ProcessKey]) -> Rest:
        return Rest(
            processes=len(keys & living),
            pss_mib=round(tree.pss_bytes(keys & living) / _MIB, 1),
            rss_mib=round(tree.rss_bytes(keys & living) / _MIB, 1),
            cpu_percent=round(100 * after.since(before, keys) / wall_s, 2),
            wakes_per_s=round(sum(woken.get(key, 0) for key in keys & living) / wall_s, 1),
        )

    figures: dict[str, Any] = msgspec.structs.asdict(of(frozenset(after.cpu_s)))
    figures["alone_mib"] = round(alone_bytes(pid for pid, _ in living) / _MIB, 1)
    if storage is not None:
        figures["files"] = len(_names(storage))
        figures["files_written_per_minute"] = round(60 * len(written - files) / wall_s, 1)
    figures["roles"] = {role: msgspec.structs.asdict(of(frozenset(keys))) for role, keys in sorted(roles.items())}
    return figures


def _names(storage: Path | None) -> set[Path]:
    """List all files below a folder, hidden ones too: each is an inode, and a write."""
    if storage is None:
        return set()
    return {Path(folder) / name for folder, _, names in os.walk(storage) for name in names}


def _show(system: str, figures: Mapping[str, Any]) -> None:
    table = Table("process", "number", "PSS MiB", "RSS MiB", "CPU %", "wakes/s", title=f"{system}, at rest")
    for role, one in [*figures["roles"].items(), ("all", figures)]:
        table.add_row(role, *(f"{one[name]:g}" for name in Rest.__struct_fields__))
    Console().print(table)
    print(f"alone on a machine: {figures['alone_mib']:g} MiB")
    if "files" in figures:
        print(f"files of the store: {figures['files']}, written per minute: {figures['files_written_per_minute']:g}")
