"""Proof of copy all the time, as a job that a mirror keeps on its Spark: a round per interval."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.clock import now_s, wall_ms
from engine.core.event_base import Event
from engine.errors import MirrorError
from engine.jobs import proof_store
from engine.jobs.proof import prove, told_by_spark
from engine.jobs.proof_look import Wanted
from engine.jobs.proof_state import FlowProof, FlowWatch, WatchTerms, told_differences
from engine.jobs.proof_terms import TASK_RECORDS_BESIDE, ProofStopped, ProofTerms
from engine.jobs.share import Share
from engine.jobs.storage import Storage, needed
from engine.settings import MirrorConfig


def run(
    spark: SparkSession,
    terms: WatchTerms,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    note: Callable[[Event], None],
    tell: Callable[[FlowProof], None],
    share: Share,
) -> FlowProof:
    """Prove round after round until it is told to stop, and tell after each. Raises NoStorage, ProofStopped."""
    folder = needed(storage, "what proof of copy has proven").path("proofs", str(terms.flow))
    asked = ProofTerms(flow=terms.flow, task_records=TASK_RECORDS_BESIDE)
    watch = FlowWatch()
    while True:
        began_s = now_s()
        try:
            for event in _round(spark, asked, config, folder, watch, stop, share):
                note(event)
        except ProofStopped:
            raise
        except MirrorError as error:  # told, and tried again by the next round
            watch.fail(str(error))
        tell(watch.proof)
        if stop.wait(max(0.0, began_s + terms.interval_s - now_s())):
            raise ProofStopped


def _round(
    spark: SparkSession,
    asked: ProofTerms,
    config: MirrorConfig,
    folder: str,
    watch: FlowWatch,
    stop: threading.Event,
    share: Share,
) -> list[Event]:
    """Prove what is closed, keep that it was; give what is to be said aloud."""
    if not watch.is_begun:
        with told_by_spark():
            watch.begin(proof_store.proven(spark, folder))
    report = prove(spark, asked, config, Wanted(watch.read, watch.until()), stop=stop, share=share)
    stored = watch.take(report, wall_ms())
    if stored.lanes:
        with told_by_spark():
            proof_store.store(spark, folder, stored)
            proof_store.tidy(spark, folder)
    return told_differences(report)
