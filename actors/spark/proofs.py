"""Reads what the continuous proof of copy reported last, flow by flow, for the supervisor."""

from collections.abc import Iterable

import msgspec

from actors.spark.job_registry import JobRegistry, UnknownJobId
from actors.spark.standing_jobs import proof_job
from engine.jobs.proof.state import FlowProof
from policies.model import FlowName


class Proofs:
    """Reads the last reports of the standing jobs that prove these flows."""

    def __init__(self, flows: Iterable[FlowName], jobs: JobRegistry) -> None:
        self._flows, self._jobs = tuple(flows), jobs
        self._read: dict[FlowName, tuple[bytes, FlowProof]] = {}

    def by_flow(self) -> dict[str, FlowProof]:
        """Return the proof of each flow with a continuous proof, even before its first round."""
        return {str(flow): self._of(flow) for flow in self._flows}

    def _of(self, flow: FlowName) -> FlowProof:
        try:
            report = self._jobs.report(proof_job(flow))
        except UnknownJobId:
            report = None
        if report is None:
            return FlowProof()
        known = self._read.get(flow)
        if known is None or known[0] is not report:  # it is large, and seldom changes
            known = self._read[flow] = report, msgspec.msgpack.decode(report, type=FlowProof)
        return known[1]
