"""A proof of copy as a job of a mirror's Spark: what it reports on its way, and at its end."""

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from engine.jobs import proof
from engine.jobs.proof_terms import NothingToProve, Progress, ProofAnswer, ProofTerms
from engine.jobs.share import Share
from engine.jobs.storage import Storage
from engine.settings import MirrorConfig


def run(
    spark: SparkSession,
    terms: ProofTerms,
    config: MirrorConfig,
    storage: Storage | None,
    stop: threading.Event,
    tell: Callable[[ProofAnswer], None],
    share: Share,
) -> ProofAnswer:
    """Prove a flow. Raises ProofFailed, ProofStopped, ConfigError, BrokerUnreachable, ConnectionLost."""

    def after_wave(now: Progress) -> None:
        tell(ProofAnswer(progress=now))

    try:
        return ProofAnswer(report=proof.run(spark, terms, config, storage, after_wave, stop, share))
    except NothingToProve as nothing:
        return ProofAnswer(nothing=nothing.why)
