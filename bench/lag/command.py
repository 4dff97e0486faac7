"""`lag`: delay and correctness of the lag history of 10,000 partitions, alone on one core and together with proofs."""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.admin import create_topic
from bench.dataset import LZ4, fill
from bench.errors import BenchError
from bench.lag.judge import WINDOW_S, Load, judge_history, judge_newest, spread
from bench.lag.topic import Record, read_topic
from bench.measure import run_system
from bench.pair import cluster_pair
from bench.parts import Parts, report
from bench.processes import ProcessTree
from bench.systems import raymirror
from bench.systems.launch import Job
from deploy.local.cluster import EmbeddedCluster
from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.config.config import load_config, read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.core.events.event_base import Event
from engine.core.reports.progress_sample import lag_topic
from engine.jobs.lag.options import LagOptions, lag_table_uri
from engine.jobs.proof.model import ProofOptions
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.local import local_spark
from engine.jobs.runtime.runner import ENDED, JobRunner, JobState
from policies.model import FlowName

EVERY_S = 5
END_S = 300.0
_TOPIC = "bench-lag"
_WARM_S = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--lanes", type=int, default=10_000, help="partitions with samples (default 10,000)")
    parser.add_argument("--seconds", type=int, help="seconds of each part, after a minute of warm-up (180, quick 60)")
    parser.add_argument("--parts", default="alone,proof", help="alone: one core; proof: two, and proofs in parallel")
    parser.add_argument("--mib", type=int, default=256, help="MiB of records that are proven again and again")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Send samples to a query on a local Spark, and judge its output; `failed`: a part has no figures.

    Raises ClusterError if the clusters do not start.
    """
    seconds = args.seconds or (60 if args.quick else 180)
    systems: dict[str, dict[str, Any]] = {}
    parts = Parts()
    with cluster_pair() as (source, target, folder):
        for part in args.parts.split(","):
            found = parts.measure(part, partial(_part, part, source, target, folder, args, seconds))
            if found is not None:
                systems[part] = found
                print(part, found, flush=True)
    return report(
        "lag",
        args,
        parts,
        systems=systems,
        ratios={},
        lanes=args.lanes,
        every_s=EVERY_S,
        seconds=seconds,
    )


def _part(
    part: str, source: EmbeddedCluster, target: EmbeddedCluster, folder: Path, args: argparse.Namespace, seconds: int
) -> dict[str, Any]:
    alias = f"raymirror-{part}"
    copied = part == "proof"
    config = _copied(source, target, alias, args.mib, folder) if copied else _plain(target, alias)
    return _Stage(part, alias, config, folder / part, target.bootstrap_servers).run(args.lanes, seconds)


def _plain(target: EmbeddedCluster, alias: str) -> MirrorConfig:
    text = [
        f"clusters = {alias}, target",
        f"{alias}.bootstrap.servers = {target.bootstrap_servers}",  # nobody reads there
        f"target.bootstrap.servers = {target.bootstrap_servers}",
        f"{alias}->target.enabled = true",
        "offset.storage.replication.factor = 1",
        "",
    ]
    return read_config(parse_properties("\n".join(text), "mm2.properties"))


def _copied(source: EmbeddedCluster, target: EmbeddedCluster, alias: str, mib: int, folder: Path) -> MirrorConfig:
    """Copy a backlog that can be proven; return the configuration of that mirror."""
    asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, 8))
    backlog = fill(source, LZ4, _TOPIC, partitions=8, mib=mib, folder=folder)
    job = Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, alias, folder / alias)
    run_system("raymirror", raymirror.launch(job), job)
    return load_config(job.folder / "mm2.properties")


class _Stage:
    """One part: a Spark, its jobs, and the process that sends samples."""

    def __init__(self, part: str, alias: str, config: MirrorConfig, folder: Path, servers: str) -> None:
        self._part, self._alias, self._config, self._servers = part, alias, config, servers
        self._storage = Storage.of_folder(folder)
        self._flow = FlowName(alias, "target")
        self._proofs = 0
        self._events: list[Event] = []

    def run(self, lanes: int, seconds: int) -> dict[str, Any]:
        """Measure it. Raises BenchError."""
        cores = 1 if self._part == "alone" else 2
        with local_spark("bench-lag", cores, spark_jar_paths(), find_spark_java()) as spark:
            gateway: Any = spark.sparkContext._gateway
            java = ProcessTree(gateway.proc.pid)
            offered = {
                "config": self._config,
                "storage": self._storage,
                "note": self._events.append,
                "share": CoreBudget(streams=True, cores=cores),
            }
            runner = JobRunner(spark, offered)
            runner.submit("lag", "lag", msgspec.msgpack.encode(LagOptions(flow=self._flow)))
            from_s = (int(time.time()) // WINDOW_S + 1) * WINDOW_S
            load = Load(
                lanes=lanes,
                every_s=EVERY_S,
                from_s=from_s,
                until_s=from_s + _WARM_S + seconds,
                counts_from_s=from_s + _WARM_S,
            )
            with self._telling(load) as telling:
                self._work(runner, telling, load.counts_from_s)
                java.discover()
                before, began_s = java.sample(), time.monotonic()
                self._work(runner, telling, load.until_s)
                java.discover()
                used, wall_s = java.sample().since(before), time.monotonic() - began_s
                if telling.wait(END_S):
                    raise BenchError("lag", f"the process that sends samples ended with {telling.returncode}")
            records = self._drain(runner, load)
            runner.cancel("lag")
            windows = judge_history(lag_table_uri(self._storage), load)
        newest = judge_newest(records, load)
        return {
            "finished_s": spread(windows.finished_s),
            "newest_s": spread(newest),
            "whole_after_s": round(records[-1][0] / 1000 - (load.until_s - load.every_s), 1),
            "windows": windows.rows,
            "cores_used": round(used / wall_s, 2),
            "proofs": self._proofs,
            "cores": cores,
            "load": round(os.getloadavg()[1], 1),
        }

    @contextmanager
    def _telling(self, load: Load) -> Iterator["subprocess.Popen[bytes]"]:
        numbers = map(str, (load.lanes, load.every_s, load.from_s, load.until_s))
        command = [sys.executable, "-m", "bench.lag.samples", self._servers, self._alias, *numbers]
        process = subprocess.Popen(command)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _work(self, runner: JobRunner, telling: "subprocess.Popen[bytes]", until_s: float) -> None:
        """Wait; prove the copy again and again if this part does."""
        while time.time() < until_s and telling.poll() is None:
            self._check(runner)
            running = [line for line in runner.lines() if line.job == "proof" and line.state not in ENDED]
            if self._part == "proof" and not running:
                options = ProofOptions(flow=self._flow, topics=(_TOPIC,), again=True)
                runner.submit(f"proof-{self._proofs}", "proof", msgspec.msgpack.encode(options))
                self._proofs += 1
            time.sleep(0.5)

    def _check(self, runner: JobRunner) -> None:
        for line in runner.lines():
            if line.state is JobState.FAILED:
                raise BenchError("lag", f"job {line.job_id} failed: {line.error}")

    def _drain(self, runner: JobRunner, load: Load) -> list[Record]:
        """Wait until the last sample of every lane is on the lag topic; return the whole topic."""
        give_up_at_s = time.time() + END_S
        last_ms = (load.until_s - load.every_s) * 1000
        while True:
            self._check(runner)
            records = asyncio.run(read_topic(self._servers, lag_topic(self._alias)))
            there = {key for _, key, value in records if msgspec.json.decode(value)["last_ms"] == last_ms}
            if len(there) == load.lanes:
                return records
            if time.time() > give_up_at_s:
                raise BenchError("lag", f"{len(there):,} of {load.lanes:,} lanes have their last sample there")
            time.sleep(2)
