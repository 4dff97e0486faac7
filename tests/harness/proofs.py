"""Proofs of a mirror's copies, on a Spark session of the tests."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config import load_config
from engine.jobs.proof_terms import LaneReport, ProofReport, ProofTerms
from engine.jobs.storage import Storage
from tests.harness.mirror import Mirror

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_config(mirror: Mirror, folder: Path) -> Path:
    """Write the file of the mirror's flow."""
    flow, path = mirror.flow, folder / "mm2.properties"
    path.write_text(
        f"clusters = {flow.source}, {flow.target}\n"
        f"{flow.source}.bootstrap.servers = {mirror.source_servers}\n"
        f"{flow.target}.bootstrap.servers = {mirror.target_servers}\n"
        f"{flow}.enabled = true\n{flow}.emit.offset-syncs.enabled = false\n"
        f"offset.storage.partitions = {mirror.terms.positions_partitions}\n"
    )
    return path


async def prove(spark: "SparkSession", mirror: Mirror, folder: Path, *topics: str, again: bool = False) -> ProofReport:
    """Prove some topics, in ranges of a few records; what is proven is remembered in the folder."""
    from engine.jobs import proof

    terms = ProofTerms(flow=mirror.flow, topics=topics, again=again, range_records=16, task_records=200)
    config, storage = load_config(write_config(mirror, folder)), Storage.of_folder(folder / "storage")
    return await asyncio.to_thread(proof.run, spark, terms, config, storage)


def lane(report: ProofReport, topic: str, partition: int = 0) -> LaneReport:
    """Give what is said of one partition."""
    (found,) = (one for one in report.lanes if (one.topic, one.partition) == (topic, partition))
    return found
