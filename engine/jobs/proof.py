"""Proof of copy on Spark: the steps of `proof_steps`, with both sides read and compared by its tasks."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.jobs import proof_steps
from engine.jobs.kafka_options import kafka_options
from engine.jobs.proof_look import Wanted
from engine.jobs.proof_sides import Sides, SparkPlace
from engine.jobs.proof_steps import Tell
from engine.jobs.proof_store import proven, store
from engine.jobs.proof_terms import ProofFailed, ProofReport, ProofTerms
from engine.jobs.share import Share
from engine.jobs.storage import Storage
from engine.settings import MirrorConfig


def run(
    spark: SparkSession,
    terms: ProofTerms,
    config: MirrorConfig,
    storage: Storage | None = None,
    tell: Tell = lambda _progress: None,
    stop: threading.Event | None = None,
    share: Share | None = None,
) -> ProofReport:
    """Prove a flow, in the calling thread; without a storage nothing is kept or remembered.

    Raises NothingToProve, ProofFailed, ProofStopped, ConfigError, BrokerUnreachable, ConnectionLost.
    """
    folder = storage.path("proofs", str(terms.flow)) if storage is not None else ""
    with told_by_spark():
        before = proven(spark, folder) if folder and not terms.again else {}
    report = prove(spark, terms, config, Wanted(before), tell, stop, share)
    if folder:
        report = replace(report, stored=folder)
        with told_by_spark():
            store(spark, folder, report)
    return report


def prove(
    spark: SparkSession,
    terms: ProofTerms,
    config: MirrorConfig,
    wanted: Wanted,
    tell: Tell = lambda _progress: None,
    stop: threading.Event | None = None,
    share: Share | None = None,
) -> ProofReport:
    """Prove what is wanted of a flow; nothing is kept. Raises as `run` does."""
    flow = config.flow(terms.flow)
    sides = Sides(
        source=kafka_options(config.clusters[flow.name.source]),
        target=kafka_options(config.clusters[flow.name.target]),
        committed=flow.fetch.read_committed,
    )
    looked = proof_steps.look(config, terms, wanted)
    with told_by_spark():
        place = SparkPlace(spark, sides, looked.lanes, terms.task_records)
        return proof_steps.compare(place, "spark", terms, config, looked, tell, stop, share)


@contextmanager
def told_by_spark() -> Iterator[None]:
    """Say in one line why Spark failed. Raises ProofFailed."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise ProofFailed(_reason(error), "see the log of Spark") from None


def _reason(error: Py4JJavaError | PySparkException) -> str:
    """Say why Spark failed in one line: the innermost cause that it names."""
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", str(error), re.MULTILINE)
    return causes[-1] if causes else str(error).splitlines()[0]
