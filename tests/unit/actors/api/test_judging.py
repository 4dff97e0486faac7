"""What a flow does, whether somebody should look, and the sentence that says why."""

from typing import Any

import msgspec
import pytest

from actors.api.entities import FlowPhase, Health
from actors.api.judging import judged, judged_mirror, loss_sentence, phase_of, rpo_of_flow, rpo_of_mirror
from actors.api.summaries import page_of
from actors.model.states import Desired
from actors.model.status import FlowAtEnd, FlowStatus
from engine.core.reports.group_report import GroupsReport
from tests.unit.actors.rest.rest_views import view_of
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_proof, flow_status, mirror_status


def fine(**changes: object) -> FlowStatus:
    plain: dict[str, Any] = {
        "unknown_lanes": 0,
        "left_out": 0,
        "stalled": 0,
        "lag_records": 0,
        "least_lag_records": 0,
        "groups": None,
        "source_end_age_ms": 300,
        **changes,
    }
    return flow_status(**plain)


def judge(flow: FlowStatus, objective_s: float | None = None) -> tuple[Health, str]:
    return judged(flow, rpo_of_flow(flow, NOW_MS), None, objective_s)


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({}, FlowPhase.RUNNING),
        ({"waiting_for": "x"}, FlowPhase.WAITING),
        ({"remembered": False}, FlowPhase.WAITING),
        ({"desired": Desired.PAUSED, "waiting_for": "x"}, FlowPhase.PAUSED),
        ({"desired": Desired.STOPPED}, FlowPhase.STOPPED),
        ({"desired": Desired.STOPPED, "failed_over": True}, FlowPhase.FAILED_OVER),
    ],
)
def test_what_a_flow_does(changes: dict[str, object], phase: FlowPhase) -> None:
    assert phase_of(fine(**changes)) is phase


@pytest.mark.parametrize(
    ("changes", "health", "said"),
    [
        ({}, Health.OK, "All 3 partitions are copied; as of 3 s ago, nothing is missing."),
        ({"lane_states": {"copying": 2, "paused": 1}}, Health.OK, "2 of 3 partitions are copied, 1 paused; as of 3 s"),
        ({"lane_states": {"paused": 3}}, Health.OK, "0 of 3 partitions are copied, 3 paused; as of 3 s ago"),
        ({"remembered": False}, Health.ATTENTION, "Waiting for its wanted state, which the target has. As of"),
        ({"errors": 2}, Health.TROUBLE, "2 partitions stopped on an error. As of 3 s ago, nothing"),
        ({"quarantined": {"t-1": "x"}}, Health.TROUBLE, "1 partition in quarantine"),
        ({"waiting_for": "cluster B"}, Health.ATTENTION, "Waiting for cluster B"),
        ({"stalled": 1, "stall_reason": "why"}, Health.ATTENTION, "1 partition does not move: why"),
        ({"unknown_lanes": 3, "lag_records": None}, Health.ATTENTION, "The lag of 3 partitions is not known"),
        ({"groups": GroupsReport(at_ms=1, failing=2)}, Health.ATTENTION, "2 consumer groups failing"),
        ({"desired": Desired.PAUSED, "errors": 1}, Health.OFF, "Paused"),
        ({"desired": Desired.STOPPED, "failed_over": True}, Health.OFF, "Failed over"),
    ],
)
def test_whether_somebody_should_look(changes: dict[str, object], health: Health, said: str) -> None:
    found, sentence = judge(fine(**changes))
    assert found is health
    assert sentence.startswith(said)


def test_a_flow_that_is_further_behind_than_its_objective_is_in_trouble() -> None:
    late = fine(lag_records=5, least_lag_records=5, behind_since_ms=NOW_MS - 31_000)
    assert judge(late, 30.0)[0] is Health.TROUBLE
    assert judge(late, 32.0)[0] is Health.OK
    assert judge(late)[0] is Health.OK


REFUSED = "no connection to source broker 1"


@pytest.mark.parametrize(
    ("changes", "health", "said"),
    [
        ({"silent_lanes": 3, "stalled": 3}, Health.TROUBLE, f"The source does not answer: {REFUSED}. What a loss"),
        ({"silent_lanes": 2, "stalled": 3}, Health.ATTENTION, "Waiting for cluster A"),
        ({"stalled": 3, "behind_since_ms": NOW_MS - 11_000}, Health.TROUBLE, f"No partition moves: {REFUSED}. What"),
        ({"stalled": 3, "behind_since_ms": NOW_MS - 9_000}, Health.ATTENTION, "Waiting for cluster A"),
        ({"stalled": 2, "behind_since_ms": NOW_MS - 11_000}, Health.ATTENTION, "Waiting for cluster A"),
        ({"silent_lanes": 3, "stall_reason": ""}, Health.TROUBLE, "The source does not answer: cluster A. What"),
    ],
)
def test_a_dead_cluster_is_trouble_with_one_cause(changes: dict[str, object], health: Health, said: str) -> None:
    groups = GroupsReport(at_ms=1, trouble="cluster A: /etc/mm2.properties: refused")
    plain: dict[str, object] = {"waiting_for": "cluster A", "stall_reason": REFUSED, "groups": groups}
    found, sentence = judge(fine(**(plain | {"unknown_lanes": 3, "lag_records": None} | changes)))
    assert found is health
    assert sentence.startswith(said)
    assert ("mm2.properties" in sentence) is (health is Health.ATTENTION), "the notes have what repeats the cause"


def test_the_numbers_of_a_mirror_are_as_old_as_the_oldest() -> None:
    flows = [fine(), fine(flow="B->A", source_end_age_ms=4000), fine(flow="A->C", failed_over=True)]
    assert rpo_of_mirror(page_of(view_of(mirror_status(flows=flows))).flows).as_of_seconds == 6
    never = [fine(), fine(flow="B->A", source_end_age_ms=-1)]
    assert rpo_of_mirror(page_of(view_of(mirror_status(flows=never))).flows).as_of_seconds is None


def test_a_copy_that_differs_is_trouble() -> None:
    flow = fine()
    assert judged(flow, rpo_of_flow(flow, NOW_MS), flow_proof(differences=2), None)[0] is Health.TROUBLE
    assert judged(flow, rpo_of_flow(flow, NOW_MS), flow_proof(differences=0), None)[0] is Health.OK


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (fine(), "as of 3 s ago, nothing is missing"),
        (fine(source_end_age_ms=2100), "as of 5 s ago, nothing is missing"),
        (fine(source_end_age_ms=-1), "nothing is known to be missing"),
        (
            fine(lag_records=3, least_lag_records=3, least_lag_bytes=2048, behind_since_ms=NOW_MS - 400),
            "as of 3 s ago, a loss of the source would lose 3 records (2.0 KiB), the oldest 0.4 s old",
        ),
        (fine(lag_records=None, unknown_lanes=1, least_lag_records=3), "would lose at least 3 records"),
        (fine(lag_records=None, unknown_lanes=1), "what a loss of the source would lose is not known"),
    ],
)
def test_what_would_be_lost(flow: FlowStatus, said: str) -> None:
    assert loss_sentence(rpo_of_flow(flow, NOW_MS)).endswith(said)


def test_a_copy_without_what_the_target_refused_is_not_called_whole() -> None:
    _, sentence = judge(fine(left_out=2))
    assert sentence.endswith("nothing is missing, besides 2 records that the target refused since the mirror started.")


def test_the_loss_of_a_flow_without_copiers_is_not_known() -> None:
    rpo = rpo_of_flow(fine(at_end=FlowAtEnd(at_ms=1, lag_records=7, unknown_lanes=0)), NOW_MS)
    assert (rpo.records, rpo.seconds, rpo.least_records) == (None, None, 7)


def test_a_mirror_is_as_well_as_its_worst_flow() -> None:
    flows = [fine(), flow_status("B->A", errors=1), flow_status("A->C", desired=Desired.PAUSED)]
    view = view_of(msgspec.structs.replace(mirror_status(flows=flows), proofs={}))
    page = page_of(view)
    assert page.mirror.health is Health.TROUBLE
    assert page.mirror.sentence.startswith("B->A: 1 partition stopped on an error")
    assert judged_mirror(view.present, page.flows, "no step for 40 s") == (Health.TROUBLE, "No step for 40 s.")


def test_the_loss_of_a_mirror_is_known_if_that_of_each_flow_is() -> None:
    late = flow_status("B->A", unknown_lanes=0, lag_records=5, least_lag_records=5, behind_since_ms=NOW_MS - 2000)
    known = page_of(view_of(mirror_status(flows=[fine(), late]))).flows
    assert (rpo_of_mirror(known).records, rpo_of_mirror(known).seconds) == (5, 2.0)
    unknown = page_of(view_of(mirror_status(flows=[flow_status("A->C"), late]))).flows
    assert rpo_of_mirror(unknown).records is None
    assert rpo_of_mirror(unknown).least_records == 15
    gone = page_of(view_of(mirror_status(flows=[flow_status("A->C", failed_over=True), late]))).flows
    assert rpo_of_mirror(gone).records == 5
