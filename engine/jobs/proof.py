"""Proof of copy: both sides of a flow read by Spark and held against each other by the exact map.

    look (clusters: maps, log starts and ends)  ->  waves (Spark)  ->  look again, where something differs  ->  report

What is exempt: control records and aborted transactions, which no reader of committed records gets. What compaction or
retention removed on one side is counted as not comparable. Below a lane's map nothing can be proven, and is said so.
"""

import asyncio
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from engine.clock import now_s, wall_ms
from engine.jobs.kafka_options import kafka_options
from engine.jobs.proof_look import Looked, Wanted, eyes
from engine.jobs.proof_plan import Lane
from engine.jobs.proof_sides import Sides
from engine.jobs.proof_store import proven, store
from engine.jobs.proof_terms import (
    Difference,
    LaneReport,
    NothingToProve,
    Progress,
    ProofFailed,
    ProofReport,
    ProofTerms,
    Verdict,
)
from engine.jobs.proof_waves import Prover, Tally
from engine.jobs.share import Share
from engine.jobs.storage import Storage
from engine.settings import FlowConfig, MirrorConfig

ANOTHER_OWNER = "the lane got another owner meanwhile, which may have copied records anew; prove again"
Tell = Callable[[Progress], None]


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
    flow, began_ms, began_s = config.flow(terms.flow), wall_ms(), now_s()
    sides = Sides(
        source=kafka_options(config.clusters[flow.name.source]),
        target=kafka_options(config.clusters[flow.name.target]),
        committed=flow.fetch.read_committed,
    )
    looked = asyncio.run(_look(config, flow, terms, wanted))
    if not looked.lanes:
        raise NothingToProve(str(flow.name), _most_common(looked.unproven))
    total = sum(lane.source_to - lane.source_from for lane in looked.lanes)

    def after_wave(done: int, differences: int) -> None:
        tell(Progress(done=done, total=total, differences=differences))

    with told_by_spark():
        is_stopped = stop.is_set if stop is not None else lambda: False
        prover = Prover(spark, sides, terms, looked.lanes, after_wave, is_stopped, share)
        prover.run()
    lanes = _reports(looked, prover.tallies)
    if any(one.found for one in prover.tallies):
        asyncio.run(_doubt(config, flow, looked, prover.tallies))
        lanes = _reports(looked, prover.tallies)
    return ProofReport(
        run=f"{began_ms:013d}-{secrets.token_hex(3)}",
        flow=flow.name,
        began_ms=began_ms,
        took_s=now_s() - began_s,
        read_s=prover.read_s,
        cores=prover.cores,
        lanes=(*lanes, *looked.unproven),
        differences=tuple(_differences(looked.lanes, prover.tallies)),
    )


async def _look(config: MirrorConfig, flow: FlowConfig, terms: ProofTerms, wanted: Wanted) -> Looked:
    async with eyes(config, flow) as found:
        return await found.look(terms, wanted)


@contextmanager
def told_by_spark() -> Iterator[None]:
    """Say in one line why Spark failed. Raises ProofFailed."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise ProofFailed(_reason(error), "see the log of Spark") from None


async def _doubt(config: MirrorConfig, flow: FlowConfig, looked: Looked, tallies: Sequence[Tally]) -> None:
    """Take back what was found where retention has been there since, or another owner of the lane."""
    async with eyes(config, flow) as found:
        generations = await found.generations(looked.lanes)
        ours, theirs = await found.starts(looked.lanes)
    for lane, begun, tally, generation in zip(looked.lanes, looked.begun, tallies, generations, strict=True):
        if not tally.found:
            continue
        if generation != begun.generation:
            tally.found, tally.more, tally.note = [], 0, ANOTHER_OWNER
            continue
        start, copied = ours[lane.name.source], theirs[lane.name.target]
        before = tally.differences
        tally.found = [left for one in tally.found if (left := one.above(start, copied)) is not None]
        tally.not_comparable += before - tally.differences
        if not tally.differences and not tally.note:
            tally.bad_from = -1


def _reports(looked: Looked, tallies: Sequence[Tally]) -> list[LaneReport]:
    found = []
    for lane, begun, tally in zip(looked.lanes, looked.begun, tallies, strict=True):
        unproven = tally.note == ANOTHER_OWNER
        verdict = (
            Verdict.UNPROVEN
            if unproven
            else Verdict.DIFFERS
            if tally.differences or tally.bad_from >= 0
            else Verdict.WHOLE
        )
        found.append(
            replace(
                begun,
                proven_to=lane.source_to if tally.bad_from < 0 else tally.bad_from,
                records=tally.records,
                payload_bytes=tally.payload_bytes,
                without_record=lane.source_to - lane.source_from - tally.records,
                not_comparable=begun.not_comparable + tally.not_comparable,
                differences=tally.differences,
                verdict=verdict,
                note=tally.note,
            )
        )
    return found


def _differences(lanes: Sequence[Lane], tallies: Sequence[Tally]) -> list[Difference]:
    return [
        Difference(
            topic=lane.name.source.topic,
            partition=lane.name.source.partition,
            source_offset=one.source,
            target_topic=lane.name.target.topic,
            target_offset=one.target,
            kind=one.kind,
            what=one.what if one.records == 1 else f"and {one.records - 1:,} behind it",
        )
        for lane, tally in zip(lanes, tallies, strict=True)
        for one in tally.found
    ]


def _most_common(unproven: Sequence[LaneReport]) -> str:
    notes = [one.note for one in unproven]
    return max(set(notes), key=notes.count)


def _reason(error: Py4JJavaError | PySparkException) -> str:
    """Say why Spark failed in one line: the innermost cause that it names."""
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", str(error), re.MULTILINE)
    return causes[-1] if causes else str(error).splitlines()[0]
