"""Runs a proof of copy as a job on a mirror's Spark; reports its progress, and its result at the end."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.jobs.proof import on_spark as proof
from engine.jobs.proof.model import NothingToProve, Progress, ProofAnswer, ProofOptions
from engine.jobs.runtime.core_budget import CoreBudget


def run(
    spark: SparkSession,
    options: ProofOptions,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    tell: Callable[[ProofAnswer], None],
    share: CoreBudget,
) -> ProofAnswer:
    """Prove a flow. Raises ProofFailed, ProofStopped, ConfigError, BrokerUnreachable, ConnectionLost."""

    def after_wave(now: Progress) -> None:
        tell(ProofAnswer(progress=now))

    try:
        return ProofAnswer(report=proof.run(spark, options, config, storage, after_wave, stop, share))
    except NothingToProve as nothing:
        return ProofAnswer(nothing=nothing.why)
