"""Runs the continuous proof of copy as a standing job on a mirror's Spark: one round per interval."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.base.clock import now_s, wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import MirrorConfig
from engine.config.storage import Storage, needed
from engine.core.events.event_base import Event
from engine.jobs.proof.model import TASK_RECORDS_BESIDE, ProofOptions, ProofStopped
from engine.jobs.proof.on_spark import prove
from engine.jobs.proof.snapshot import ProofScope
from engine.jobs.proof.state import FlowProof, ProofWatch, WatchOptions, told_differences
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.runtime.core_budget import CoreBudget


def run(
    spark: SparkSession,
    options: WatchOptions,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    note: Callable[[Event], None],
    tell: Callable[[FlowProof], None],
    share: CoreBudget,
) -> FlowProof:
    """Prove round after round until `stop` is set, and report after each. Raises NoStorage, ProofStopped."""
    store = ProofStore(needed(storage, "the state of the proof of copy"))
    asked = ProofOptions(flow=options.flow, task_records=TASK_RECORDS_BESIDE)
    watch = ProofWatch()
    while True:
        began_s = now_s()
        try:
            for event in _round(spark, asked, config, store, watch, stop, share):
                note(event)
        except ProofStopped:
            raise
        except MirrorError as error:  # reported; the next round tries again
            watch.fail(str(error))
        tell(watch.proof)
        if stop.wait(max(0.0, began_s + options.interval_s - now_s())):
            raise ProofStopped


def _round(
    spark: SparkSession,
    asked: ProofOptions,
    config: MirrorConfig,
    store: ProofStore,
    watch: ProofWatch,
    stop: threading.Event,
    share: CoreBudget,
) -> list[Event]:
    """Prove what the round before saw copied, and store the result; return the events of the round."""
    if not watch.is_begun:
        watch.begin(store.proven(asked.flow))
    report = prove(spark, asked, config, ProofScope(watch.read, watch.until()), stop=stop, share=share)
    stored = watch.take(report, wall_ms())
    if stored.lanes:
        store.store(stored)
        store.tidy(wall_ms())
    return told_differences(report)
