"""Proofs of a mirror's copies, on a Spark session of the tests and without one: both must agree."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from engine.config.config import load_config
from engine.config.storage import Storage
from engine.jobs.proof.model import LaneReport, ProofOptions, ProofReport
from tests.harness.mirror import Mirror

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_A_RUN = ("run", "began_ms", "took_s", "read_s", "cores", "stored", "where")


def write_config(mirror: Mirror, folder: Path) -> Path:
    """Write the file of the mirror's flow."""
    flow, path = mirror.flow, folder / "mm2.properties"
    path.write_text(
        f"clusters = {flow.source}, {flow.target}\n"
        f"{flow.source}.bootstrap.servers = {mirror.source_servers}\n"
        f"{flow.target}.bootstrap.servers = {mirror.target_servers}\n"
        f"{flow}.enabled = true\n{flow}.emit.offset-syncs.enabled = false\n"
        f"offset.storage.partitions = {mirror.options.positions_partitions}\n"
    )
    return path


async def prove(spark: "SparkSession", mirror: Mirror, folder: Path, *topics: str, again: bool = False) -> ProofReport:
    """Prove some topics, in ranges of a few records; what is proven is remembered in the folder.

    It is proven in this process too, with a memory of its own: the report and what is kept must be the same.
    """
    from engine.jobs.proof import on_spark as proof

    options = ProofOptions(flow=mirror.flow, topics=topics, again=again, range_records=16, task_records=200)
    config, storage = load_config(write_config(mirror, folder)), Storage.of_folder(folder / "storage")
    report = await asyncio.to_thread(proof.run, spark, options, config, storage)
    here = await asyncio.to_thread(_prove_here, mirror, folder, options)
    assert said(here) == said(report)
    assert (here.where, report.where) == ("process", "spark")
    return report


def _prove_here(mirror: Mirror, folder: Path, options: ProofOptions) -> ProofReport:
    from engine.jobs.proof.here import LocalProof

    config, storage = load_config(write_config(mirror, folder)), Storage.of_folder(folder / "storage-here")
    return LocalProof(options, config, storage).run()


def said(report: ProofReport) -> dict[str, Any]:
    """Give what a report says of the copy, whoever proved it and when."""
    return {name: value for name, value in asdict(report).items() if name not in _OF_A_RUN}


def lane(report: ProofReport, topic: str, partition: int = 0) -> LaneReport:
    """Give what is said of one partition."""
    (found,) = (one for one in report.lanes if (one.topic, one.partition) == (topic, partition))
    return found
