"""Runs a proof of copy on Spark: the steps of `steps.py`, with both sides read and compared by Spark's tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.jobs.proof import steps as proof_steps
from engine.jobs.proof.model import ProofFailed, ProofOptions, ProofReport
from engine.jobs.proof.places.sides import Sides, SparkPlace
from engine.jobs.proof.snapshot import ProofScope
from engine.jobs.proof.steps import Tell
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.kafka_options import kafka_options
from engine.jobs.runtime.spark_errors import reason_of


def run(
    spark: SparkSession,
    options: ProofOptions,
    config: MirrorConfig,
    storage: Storage | None = None,
    tell: Tell = lambda _progress: None,
    stop: threading.Event | None = None,
    share: CoreBudget | None = None,
) -> ProofReport:
    """Prove a flow, in the calling thread; without a storage it reads and stores no results.

    Raises NothingToProve, ProofFailed, ProofStopped, ConfigError, BrokerUnreachable, ConnectionLost, TableError.
    """
    store = ProofStore(storage) if storage is not None else None
    before = store.proven(options.flow) if store is not None and not options.again else {}
    report = prove(spark, options, config, ProofScope(before), tell, stop, share)
    if store is not None:
        report = replace(report, stored=store.where)
        store.store(report)
    return report


def prove(
    spark: SparkSession,
    options: ProofOptions,
    config: MirrorConfig,
    wanted: ProofScope,
    tell: Tell = lambda _progress: None,
    stop: threading.Event | None = None,
    share: CoreBudget | None = None,
) -> ProofReport:
    """Prove the `wanted` scope of a flow, and store nothing. Raises as `run` does."""
    flow = config.flow(options.flow)
    sides = Sides(
        source=kafka_options(config.clusters[flow.name.source].for_client(flow.source_client.login)),
        target=kafka_options(config.clusters[flow.name.target].for_client(flow.target_client.login)),
        committed=flow.fetch.read_committed,
    )
    looked = proof_steps.take_snapshot(config, options, wanted)
    is_large = proof_steps.offsets_of(looked.lanes) >= options.large_offsets
    with _told_by_spark(), share.large_job() if is_large and share is not None else nullcontext():
        place = SparkPlace(spark, sides, looked.lanes, options.task_records)
        return proof_steps.compare(place, "spark", options, config, looked, tell, stop, share)


@contextmanager
def _told_by_spark() -> Iterator[None]:
    """Turn an error of Spark into one line. Raises ProofFailed."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise ProofFailed(reason_of(error), "see the log of Spark") from None
