"""The jobs that a mirror has its Spark do all the time, out of its configuration."""

import msgspec

from engine.jobs.lag_terms import CareJobTerms, LagTerms
from engine.settings import FlowConfig, MirrorConfig


class KeptJob(msgspec.Struct, frozen=True):
    """A job under a name of its own in this mirror."""

    name: str
    job: str
    terms: bytes


def kept_jobs(config: MirrorConfig) -> tuple[KeptJob, ...]:
    """Give them, flow by flow; none without Spark, or without a place for what they keep."""
    if not config.spark.on or config.storage is None:
        return ()
    return tuple(job for flow in config.flows for job in _of_flow(flow))


def _of_flow(flow: FlowConfig) -> list[KeptJob]:
    if not flow.progress_s:
        return []
    encode = msgspec.msgpack.encode
    return [
        KeptJob(f"lag {flow.name}", "lag", encode(LagTerms(flow=flow.name, rpo_s=flow.rpo_s))),
        KeptJob(f"care {flow.name}", "care", encode(CareJobTerms(flow=flow.name))),
    ]
