"""States of connectors and tasks for every situation of a flow."""

from typing import Any

import msgspec
import pytest

from actors.model.states import CopierState, Desired
from actors.model.status import CopierStatus, MirrorStatus
from actors.rest.states import status_of, tasks_of
from engine.core.reports.group_report import GroupsReport
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, NAMES, SOURCE, status_with, view_of
from tests.unit.actors.telemetry.statuses import copier, lane

READY, STARTING, DRAINING = CopierState.READY, CopierState.STARTING, CopierState.DRAINING


def seen(status: MirrorStatus, name: str = SOURCE) -> tuple[str, list[str]]:
    """Return the state of a connector and of its tasks."""
    view = view_of(status)
    found = status_of(view, view.connectors[name])
    assert [task.id for task in found.tasks] == list(range(len(found.tasks)))
    assert all(task.trace for task in found.tasks if task.state == "FAILED"), "kcctl needs a trace of what FAILED"
    return found.connector.state, [task.state for task in found.tasks]


def copiers(*states: CopierState) -> list[CopierStatus]:
    return [msgspec.structs.replace(copier(f"copier-{number}"), state=state) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "flow", "connector", "tasks"),
    [
        ((READY,), {}, "RUNNING", ["RUNNING"]),
        ((READY, READY), {}, "RUNNING", ["RUNNING", "RUNNING"]),
        ((READY, STARTING), {}, "RUNNING", ["RUNNING", "UNASSIGNED"]),
        ((READY, DRAINING), {}, "RUNNING", ["RUNNING"]),
        ((DRAINING,), {}, "RUNNING", ["RUNNING"]),
        ((STARTING,), {"waiting_for": "a copier to start"}, "UNASSIGNED", ["UNASSIGNED"]),
        ((), {}, "UNASSIGNED", ["UNASSIGNED"]),
        ((), {"waiting_for": "cluster A"}, "UNASSIGNED", ["UNASSIGNED"]),
        ((READY,), {"desired": Desired.PAUSED}, "PAUSED", ["PAUSED"]),
        ((), {"desired": Desired.PAUSED}, "PAUSED", ["PAUSED"]),
        ((READY,), {"desired": Desired.STOPPED}, "STOPPED", []),
        ((), {"desired": Desired.STOPPED}, "STOPPED", []),
        ((READY,), {"quarantined": {"t-1": "it ends its copiers"}}, "RUNNING", ["RUNNING", "FAILED"]),
        ((), {"quarantined": {"t-1": "it ends its copiers"}}, "UNASSIGNED", ["FAILED"]),
    ],
)
def test_a_source_connector_is_what_its_copiers_are(
    states: tuple[CopierState, ...], flow: dict[str, Any], connector: str, tasks: list[str]
) -> None:
    assert seen(status_with(copiers=copiers(*states), **flow)) == (connector, tasks)


def test_what_a_flow_waits_for_is_its_trace() -> None:
    view = view_of(status_with(copiers=(), waiting_for="cluster A, which does not answer"))
    found = status_of(view, view.connectors[SOURCE])
    assert found.connector.trace == found.tasks[0].trace == "waits for cluster A, which does not answer"


def test_a_copier_with_a_stopped_partition_has_failed_and_says_which() -> None:
    broken = [lane("t", number, state="failed", reason="the source lost records") for number in range(30)]
    view = view_of(status_with(*broken, lane("u"), errors=30))
    (task,) = tasks_of(view, view.connectors[SOURCE])
    lines = task.trace.splitlines()
    assert (task.state, lines[0], lines[-1], len(lines)) == (
        "FAILED",
        "t-0: the source lost records",
        "and 10 more partitions",
        21,
    )
    assert "u-0" in task.partitions


def test_partitions_in_quarantine_are_one_more_task_with_each_reason() -> None:
    view = view_of(status_with(quarantined={"t-1": "bad", "t-2": "worse"}))
    task = tasks_of(view, view.connectors[SOURCE])[-1]
    assert task.trace == "t-1: in quarantine: bad\nt-2: in quarantine: worse"
    assert (task.partitions, task.copier_id) == (("t-1", "t-2"), "")


@pytest.mark.parametrize(
    ("flow", "connector", "tasks"),
    [
        ({}, "RUNNING", ["RUNNING"]),
        ({"desired": Desired.PAUSED}, "RUNNING", ["RUNNING"]),
        ({"desired": Desired.STOPPED}, "STOPPED", []),
        ({"groups": GroupsReport()}, "RUNNING", ["RUNNING"]),
        ({"groups": GroupsReport(trouble="no leader", failed_rounds=2)}, "RUNNING", ["RUNNING"]),
        ({"groups": GroupsReport(trouble="no leader", failed_rounds=3)}, "RUNNING", ["FAILED"]),
        ({"groups": None, "waiting_for": "cluster A"}, "RUNNING", ["UNASSIGNED"]),
        ({"groups": None}, "RUNNING", ["UNASSIGNED"]),
    ],
)
def test_groups_are_mirrored_until_the_flow_stops(flow: dict[str, Any], connector: str, tasks: list[str]) -> None:
    assert seen(status_with(**flow), CHECKPOINT) == (connector, tasks)


@pytest.mark.parametrize("desired", list(Desired))
def test_heartbeats_never_stop(desired: Desired) -> None:
    assert seen(status_with(desired=desired), HEARTBEAT) == ("RUNNING", ["RUNNING"])


@pytest.mark.parametrize("name", NAMES)
def test_a_flow_that_a_reload_has_just_added_is_not_assigned(name: str) -> None:
    view = view_of(msgspec.structs.replace(status_with(), flows=()))
    found = status_of(view, view.connectors[name])
    assert [task.state for task in found.tasks] == ["UNASSIGNED"]


def test_a_worker_is_named_by_host_or_node() -> None:
    here, there = (msgspec.structs.replace(copier(), node=node) for node in ("f" * 56, "abcdef0123456789"))
    view = view_of(status_with(copiers=[here, there, copier()]))
    workers = [task.worker for task in tasks_of(view, view.connectors[SOURCE])]
    assert workers == ["head:8083", "abcdef012345:8083", "head:8083"]


@pytest.mark.parametrize("name", [SOURCE, CHECKPOINT])
@pytest.mark.parametrize("desired", [Desired.RUNNING, Desired.STOPPED])
def test_a_flow_whose_wanted_state_is_not_read_is_in_no_state_that_may_be_wrong(name: str, desired: Desired) -> None:
    connector, tasks = seen(status_with(copiers=copiers(READY), remembered=False, desired=desired), name)
    assert connector == "UNASSIGNED"
    assert name == CHECKPOINT or tasks == ["UNASSIGNED"]
