"""What the supervisor has of proof of copy all the time, out of what the kept jobs told."""

import msgspec

from actors.spark.job_registry import UnknownJobId
from actors.spark.proofs import Proofs
from engine.jobs.proof.state import FlowProof, LaneProof
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, make

OTHER = FlowName("A", "C")
TOLD = FlowProof(at_ms=5, partitions=1, lanes=(LaneProof(topic="t", partition=0, proven_to=9),))


def test_what_was_told_last_is_read_once() -> None:
    told: dict[str, bytes | None] = {f"proof {FLOW}": msgspec.msgpack.encode(TOLD), f"proof {OTHER}": None}
    proofs = Proofs((FLOW, OTHER), told.__getitem__)
    first = proofs()
    assert first == {str(FLOW): TOLD, str(OTHER): FlowProof()}
    assert proofs()[str(FLOW)] is first[str(FLOW)]
    told[f"proof {FLOW}"] = msgspec.msgpack.encode(FlowProof(at_ms=6))
    assert proofs()[str(FLOW)].at_ms == 6


def test_a_job_that_is_not_known_has_told_nothing() -> None:
    def unknown(job_id: str) -> bytes:
        raise UnknownJobId(job_id)

    assert Proofs((FLOW,), unknown)() == {str(FLOW): FlowProof()}


def test_a_status_has_partitions_only_where_lanes_are_asked_for() -> None:
    clock = Clock()
    supervisor = make(FakeFleet(clock), clock, proofs=lambda: {"A->B": TOLD})
    assert supervisor.status(lanes=True).proofs == {"A->B": TOLD}
    assert supervisor.status().proofs == {"A->B": msgspec.structs.replace(TOLD, lanes=())}
