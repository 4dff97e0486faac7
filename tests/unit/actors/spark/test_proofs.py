"""The supervisor's view of the continuous proof, from the last reports of its jobs."""

import msgspec

from actors.spark.job_registry import JobRegistry
from actors.spark.proofs import Proofs
from actors.spark.standing_jobs import proof_job
from engine.jobs.proof.state import FlowProof, LaneProof
from engine.jobs.runtime.runner import JobLine, JobState
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, NoSpark, make

OTHER = FlowName("A", "C")
TOLD = FlowProof(at_ms=5, partitions=1, lanes=(LaneProof(topic="t", partition=0, proven_to=9),))


def prove(jobs: JobRegistry, flow: FlowName, proof: FlowProof, number: int) -> None:
    """Have the standing job of a flow report a proof."""
    (run,) = jobs.running([proof_job(flow)])
    line = JobLine(job_id=run, job="proof_watch", state=JobState.RUNNING, told=number)
    jobs.note_report(line, msgspec.msgpack.encode(proof), 1.0)


def test_what_was_told_last_is_read_once() -> None:
    jobs = JobRegistry()
    for flow in (FLOW, OTHER):
        jobs.add(proof_job(flow), "proof_watch", b"")
    for order in jobs.to_begin(0.0):
        jobs.begun(order.run_id, 0.0)
    prove(jobs, FLOW, TOLD, 1)
    proofs = Proofs((FLOW, OTHER), jobs)
    first = proofs.by_flow()
    assert first == {str(FLOW): TOLD, str(OTHER): FlowProof()}
    assert proofs.by_flow()[str(FLOW)] is first[str(FLOW)]
    prove(jobs, FLOW, FlowProof(at_ms=6), 2)
    assert proofs.by_flow()[str(FLOW)].at_ms == 6


def test_a_job_that_is_not_known_has_told_nothing() -> None:
    assert Proofs((FLOW,), JobRegistry()).by_flow() == {str(FLOW): FlowProof()}


def test_a_status_has_partitions_only_where_lanes_are_asked_for() -> None:
    clock = Clock()
    supervisor = make(FakeFleet(clock), clock, spark=NoSpark({"A->B": TOLD}))
    assert supervisor.status(lanes=True).proofs == {"A->B": TOLD}
    assert supervisor.status().proofs == {"A->B": msgspec.structs.replace(TOLD, lanes=())}
