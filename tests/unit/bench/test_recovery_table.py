"""The faults, their bounds, and what makes a run fail."""

import pytest

from bench.recovery.fault import Bound, Fault
from bench.recovery.round import Row
from bench.recovery.scene import Cause, Scene
from bench.recovery.soak import LEFT_OUT, SOAKED, Blow, soak_stage
from bench.recovery.stage import StageKind
from bench.recovery.table import FAULTS
from bench.recovery.watching import Healthy

IDS = """copier_kill copier_freeze supervisor_kill both_kill driver_kill node_kill gcs_restart target_one target_all
source_kill broker_freeze net_cut_target net_cut_source net_stall_target net_stall_source rolling unclean_election
add_partitions move_leaders topic_delete positions_leaderless lone_target lone_source"""


def test_every_published_id_is_there_and_no_other() -> None:
    assert set(FAULTS) == set(IDS.split())
    assert set(SOAKED) == set(FAULTS) - set(LEFT_OUT)


def act(_: Scene) -> Cause:
    raise AssertionError("not called")


@pytest.mark.parametrize(
    ("bound", "pause_s", "after_s", "usual_s", "met"),
    [
        (Bound.PAUSE, 5.0, 99.0, 0.1, True),
        (Bound.PAUSE, 5.1, 0.0, 4.0, False),
        (Bound.AFTER_CAUSE, 99.0, 5.0, 0.1, True),
        (Bound.AFTER_CAUSE, 0.0, 5.1, 0.1, False),
        (Bound.NONE, 7.0, 99.0, 2.0, True),
        (Bound.NONE, 7.1, 0.0, 2.0, False),
    ],
)
def test_a_bound_is_about_its_own_time(bound: Bound, pause_s: float, after_s: float, usual_s: float, met: bool) -> None:
    assert Fault(id="x", act=act, bound=bound, bound_s=5.0).is_met(pause_s, after_s, usual_s) == met


@pytest.mark.parametrize(("healthy_s", "met"), [(2.0, True), (2.1, False)])
def test_a_lane_that_is_not_hit_has_a_bound_of_its_own(healthy_s: float, met: bool) -> None:
    fault = Fault(id="x", act=act, bound=Bound.AFTER_CAUSE, bound_s=5.0, healthy_s=2.0)
    assert fault.is_met(99.0, 0.0, 0.1, healthy_s) == met
    assert not fault.is_met(99.0, 5.1, 0.1, healthy_s)
    assert Fault(id="x", act=act, bound=Bound.AFTER_CAUSE, bound_s=5.0).is_met(99.0, 0.0, 0.1, 99.0)


def test_a_soak_fails_where_a_healthy_lane_stood_or_none_is_left() -> None:
    def blow(fault: str, healthy: Healthy | None) -> Blow:
        return Blow(fault=fault, at_s=1.0, cause_s=30.0, recovered_s=1.0, healthy=healthy)

    assert not blow("copier_kill", None).stood
    assert not blow("lone_target", Healthy(lanes=3, most_s=2.0, broker_s=0.0, control_s=-1.0, waits=[])).stood
    assert blow("lone_target", Healthy(lanes=3, most_s=2.1, broker_s=0.0, control_s=-1.0, waits=[])).stood
    assert blow("lone_target", Healthy(lanes=0, most_s=0.0, broker_s=0.0, control_s=-1.0, waits=[])).stood


def test_a_soak_has_the_brokers_that_its_faults_need() -> None:
    assert soak_stage(["copier_kill", "lone_target"]) == StageKind(proxied=True)
    assert soak_stage(["copier_kill", "lone_source"]) == StageKind(proxied=True, source_brokers=3)


@pytest.mark.parametrize("wrong", ["lost", "duplicated", "reordered", "failures"])
def test_one_wrong_record_makes_a_run_fail_and_a_late_one_does_not(wrong: str) -> None:
    values = {"pause_s": 9.0, "usual_s": 0.2, "after_s": 9.0, "cause_s": 0.0, "bound_s": 5.0, "machine_load": 1.0}
    counts = {"run": 1, "lost": 0, "duplicated": 0, "reordered": 0, "records": 100, "foreign": 3}
    texts = {"fault": "x", "bound": "pause", "met": False, "notes": ["a note"], "failures": []}
    assert Row(**values, **counts, **texts).is_whole  # type: ignore[arg-type]
    broken = {**counts, **texts, wrong: ["an event is missing"] if wrong == "failures" else 1}
    assert not Row(**values, **broken).is_whole  # type: ignore[arg-type]
