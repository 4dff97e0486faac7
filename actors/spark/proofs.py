"""What proof of copy all the time tells, flow by flow, as the supervisor has it."""

from collections.abc import Callable, Iterable

import msgspec

from actors.spark.book import UnknownJobId
from actors.spark.kept import proof_job
from engine.jobs.proof_state import FlowProof
from policies.model import FlowName


class Proofs:
    """Reads what the kept jobs told last; `report` gives what a job told (msgpack), and raises UnknownJobId."""

    def __init__(self, flows: Iterable[FlowName], report: Callable[[str], bytes | None]) -> None:
        self._flows, self._report = tuple(flows), report
        self._read: dict[FlowName, tuple[bytes, FlowProof]] = {}

    def __call__(self) -> dict[str, FlowProof]:
        """Give what is told of the flows that are proven; of one without a round yet too."""
        return {str(flow): self._of(flow) for flow in self._flows}

    def _of(self, flow: FlowName) -> FlowProof:
        try:
            told = self._report(proof_job(flow))
        except UnknownJobId:
            told = None
        if told is None:
            return FlowProof()
        known = self._read.get(flow)
        if known is None or known[0] is not told:  # it is large, and seldom another
            known = self._read[flow] = told, msgspec.msgpack.decode(told, type=FlowProof)
        return known[1]
