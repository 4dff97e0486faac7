"""Reads what the continuous proof of copy reported last, flow by flow, for the supervisor."""

from collections.abc import Callable, Iterable

import msgspec

from actors.spark.job_registry import UnknownJobId
from actors.spark.standing_jobs import proof_job
from engine.jobs.proof.state import FlowProof
from policies.model import FlowName


class Proofs:
    """Reads the last reports of the standing jobs; `report` returns that of a job (msgpack), or raises UnknownJobId."""

    def __init__(self, flows: Iterable[FlowName], report: Callable[[str], bytes | None]) -> None:
        self._flows, self._report = tuple(flows), report
        self._read: dict[FlowName, tuple[bytes, FlowProof]] = {}

    def __call__(self) -> dict[str, FlowProof]:
        """Return the proof of each flow that is proven, also of one without a round yet."""
        return {str(flow): self._of(flow) for flow in self._flows}

    def _of(self, flow: FlowName) -> FlowProof:
        try:
            told = self._report(proof_job(flow))
        except UnknownJobId:
            told = None
        if told is None:
            return FlowProof()
        known = self._read.get(flow)
        if known is None or known[0] is not told:  # it is large, and seldom changes
            known = self._read[flow] = told, msgspec.msgpack.decode(told, type=FlowProof)
        return known[1]
