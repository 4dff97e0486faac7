"""Lists the standing jobs of a mirror's Spark, from its configuration: they run as long as the mirror."""

import msgspec

from engine.config.settings import FlowConfig, MirrorConfig, ProofConfig
from engine.jobs.lag.options import LagCareOptions, LagOptions
from engine.jobs.proof.state import WatchOptions
from engine.jobs.runtime.table import entry_of
from policies.model import FlowName


class StandingJob(msgspec.Struct, frozen=True):
    """A job with its own name in this mirror."""

    name: str
    job: str
    options: bytes


def standing_jobs(config: MirrorConfig) -> tuple[StandingJob, ...]:
    """Return the standing jobs, flow by flow; none without Spark, or without a storage for their results."""
    if not config.spark.on or config.storage is None:
        return ()
    lag = [_of_lag(flow) for flow in config.flows if flow.progress_s]
    care = [StandingJob("care lag", "care", msgspec.msgpack.encode(LagCareOptions()))] if lag else []
    proof = [_of_proof(flow.name, config.proof) for flow in config.flows if config.proof.on]
    return (*lag, *care, *proof)


def has_streams(config: MirrorConfig) -> bool:
    return any(entry_of(job.job).pool == "stream" for job in standing_jobs(config))


def _of_proof(flow: FlowName, proof: ProofConfig) -> StandingJob:
    options = WatchOptions(flow=flow, interval_s=proof.interval_s)
    return StandingJob(proof_job(flow), "proof_watch", msgspec.msgpack.encode(options))


def proof_job(flow: FlowName) -> str:
    return f"proof {flow}"


def lag_job(flow: FlowName) -> str:
    return f"lag {flow}"


def _of_lag(flow: FlowConfig) -> StandingJob:
    options = LagOptions(flow=flow.name, rpo_s=flow.rpo_s)
    return StandingJob(lag_job(flow.name), "lag", msgspec.msgpack.encode(options))
