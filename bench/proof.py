"""`proof`: cost of a proof of copy: records and bytes per core-second."""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.admin import create_topic
from bench.dataset import LZ4, RECORD_BYTES, fill
from bench.errors import BenchError
from bench.figures import machine
from bench.measure import run_system
from bench.pair import cluster_pair
from bench.processes import ProcessTree
from bench.systems import raymirror
from bench.systems.launch import Job
from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.config.config import load_config
from engine.jobs.proof import on_spark as proof
from engine.jobs.proof.model import ProofOptions, ProofReport
from engine.jobs.proof.snapshot import ProofScope
from engine.jobs.runtime.local import local_spark
from policies.model import FlowName, TopicPartition

_TOPIC, _ALIAS = "bench-proof", "raymirror"
_MIB, _GIB = 2**20, 2**30
_DEFAULT_MIB, _QUICK_MIB = 1024, 64
_WARM_RECORDS = 50_000
"""Records of each partition for the warm-up: Java compiles for half a minute of CPU, whatever the backlog."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument(
        "--mib", type=int, help=f"MiB of records, uncompressed (default {_DEFAULT_MIB}, quick {_QUICK_MIB})"
    )
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3, help="number of proofs, after a part that warms Java up")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="cores of the local Spark")


@contextmanager
def copied(mib: int, partitions: int) -> Iterator[Job]:
    """Copy so many MiB of records, uncompressed, with raymirror between two clusters, which run during the block."""
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, partitions))
        backlog = fill(source, LZ4, _TOPIC, partitions=partitions, mib=mib, folder=folder)
        job = Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, _ALIAS, folder / _ALIAS)
        run_system(_ALIAS, raymirror.launch(job), job)
        yield job


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Copy a backlog with raymirror, prove it several times, and return the JSON object. Raises BenchError."""
    mib = args.mib or (_QUICK_MIB if args.quick else _DEFAULT_MIB)
    with copied(mib, args.partitions) as job:
        runs = _proofs(job, args.cores, 1 if args.quick else args.repeats)
    figures = {field: float(f"{statistics.median(one[field] for one in runs):.4g}") for field in runs[0]}
    print("raymirror ", "  ".join(f"{field} {value:g}" for field, value in figures.items()))
    return {
        "bench": "proof",
        "systems": {"raymirror": figures},
        "ratios": {},
        "cores": args.cores,
        "wire_mib": round(job.backlog.wire_bytes / _MIB, 1),
        "runs": runs,
        "quick": args.quick,
        "machine": machine(),
    }


def _proofs(job: Job, cores: int, repeats: int) -> list[dict[str, float]]:
    config = load_config(job.folder / "mm2.properties")
    options = ProofOptions(flow=FlowName(_ALIAS, "target"), topics=(_TOPIC,))
    found = []
    with local_spark("bench-proof", cores, spark_jar_paths(), find_spark_java()) as spark:
        gateway: Any = spark.sparkContext._gateway
        java = ProcessTree(gateway.proc.pid)
        warm = {TopicPartition(_TOPIC, number): _WARM_RECORDS for number in range(job.backlog.partitions)}
        proof.prove(spark, options, config, ProofScope(until=warm))
        for _ in range(repeats):
            java.discover()
            before, began_s, began_cpu_s = java.sample(), time.monotonic(), time.process_time()
            report = proof.run(spark, options, config)
            wall_s, own_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            java.discover()
            found.append(_figures(report, job, wall_s, own_s + java.sample().since(before)))
    return found


def _figures(report: ProofReport, job: Job, wall_s: float, cpu_s: float) -> dict[str, float]:
    """Make the figures of one proof. CPU is of Spark's Java and of this process; brokers are in no figure."""
    records = sum(lane.records for lane in report.lanes)
    if not report.whole or records != job.backlog.records:
        raise BenchError("proof", f"{records:,} of {job.backlog.records:,} records compared, {report.found} differ")
    size = records * RECORD_BYTES
    return {
        "records": records,
        "logical_mib": size / _MIB,
        "wall_s": wall_s,
        "read_s": report.read_s,
        "cpu_s": cpu_s,
        "records_per_core_s": records / cpu_s,
        "logical_mib_per_core_s": size / _MIB / cpu_s,
        "core_s_per_10_gib": 10 * _GIB / size * cpu_s,
    }
