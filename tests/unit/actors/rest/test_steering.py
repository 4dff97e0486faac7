"""Pause, resume, stop and restart: what is asked of the supervisor for each, and what is refused."""

from typing import Any

import msgspec
import pytest

from actors.model.requests import GiveCommand, RestartCopiers, RestartFlow
from actors.model.states import Command, Desired
from actors.rest.exchange import Deed, HttpAnswer
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, SOURCE, ask, error, shown, status_with, view_of
from tests.unit.actors.telemetry.statuses import copier, lane

RUNNING, PAUSED, STOPPED = Desired
GOOD, BAD = copier("good"), msgspec.structs.replace(copier("bad"), set_ids=("A->B/001",))
BROKEN = msgspec.structs.replace(lane("t", 1, state="failed", reason="it lost records"), set_id="A->B/001")
HALF_BROKEN: dict[str, Any] = {"copiers": [GOOD, BAD], "errors": 1}


def steer(verb: str, name: str = SOURCE, **flow: Any) -> HttpAnswer:
    return ask("PUT", f"/connectors/{name}/{verb}", view=view_of(status_with(**flow)))


def restart(query: str = "", name: str = SOURCE, **flow: Any) -> HttpAnswer:
    status = status_with(lane("t", 0), BROKEN, **flow)
    return ask("POST", f"/connectors/{name}/{query}", view=view_of(status))


@pytest.mark.parametrize("desired", list(Desired))
@pytest.mark.parametrize(
    ("verb", "status", "command"),
    [("pause", 202, Command.PAUSE), ("resume", 202, Command.RESUME), ("stop", 204, Command.STOP)],
)
def test_a_flow_is_steered_by_its_source_connector(verb: str, status: int, command: Command, desired: Desired) -> None:
    answer = steer(verb, desired=desired)
    assert (answer.status, answer.encoded(), answer.deeds) == (status, b"", (GiveCommand(command, "A->B"),))


@pytest.mark.parametrize(
    ("verb", "name", "desired", "status"),
    [
        ("resume", CHECKPOINT, RUNNING, 202),
        ("resume", CHECKPOINT, PAUSED, 202),
        ("resume", CHECKPOINT, STOPPED, 501),
        ("stop", CHECKPOINT, STOPPED, 204),
        ("stop", CHECKPOINT, RUNNING, 501),
        ("pause", CHECKPOINT, RUNNING, 501),
        ("pause", CHECKPOINT, PAUSED, 501),
        ("resume", HEARTBEAT, STOPPED, 202),
        ("pause", HEARTBEAT, RUNNING, 501),
        ("stop", HEARTBEAT, STOPPED, 501),
    ],
)
def test_the_other_connectors_have_no_state_of_their_own(verb: str, name: str, desired: Desired, status: int) -> None:
    answer = steer(verb, name, desired=desired)
    assert (answer.status, answer.deeds) == (status, ())
    if status == 501:
        right = "raymirror reload" if name == HEARTBEAT else SOURCE
        assert right in error(answer)[1]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_tool_does_not_start_a_flow_again_that_was_failed_over(verb: str) -> None:
    answer = steer(verb, desired=STOPPED, failed_over=True)
    status, message = error(answer)
    assert (status, answer.deeds) == (400, ())
    assert "raymirror resume 'A->B'" in message
    assert steer("stop", desired=STOPPED, failed_over=True).status == 204


@pytest.mark.parametrize(
    ("query", "desired", "deeds"),
    [
        ("restart", RUNNING, (GiveCommand(Command.RESUME, "A->B"),)),
        ("restart?includeTasks=false&onlyFailed=no", RUNNING, (GiveCommand(Command.RESUME, "A->B"),)),
        ("restart", PAUSED, ()),
        ("restart", STOPPED, ()),
    ],
)
def test_a_restart_without_tasks_tries_again_what_has_stopped(
    query: str, desired: Desired, deeds: tuple[Deed, ...]
) -> None:
    answer = restart(query, desired=desired, **HALF_BROKEN)
    assert (answer.status, answer.encoded(), answer.deeds) == (204, b"", deeds)


@pytest.mark.parametrize(
    ("query", "flow", "deeds", "states"),
    [
        ("includeTasks=true", {}, (RestartFlow("A->B"),), ["RESTARTING", "RESTARTING"]),
        ("includeTasks=TRUE&onlyFailed=true", {}, (RestartCopiers("A->B", ("bad",)),), ["RUNNING", "RESTARTING"]),
        ("onlyFailed=true", {}, (), ["RUNNING", "FAILED"]),
        (
            "includeTasks=true&onlyFailed=true",
            {"quarantined": {"q-0": "why"}},
            (RestartCopiers("A->B", ("bad",)),),
            ["RUNNING", "RESTARTING", "RESTARTING"],
        ),
        (
            "includeTasks=true&onlyFailed=true",
            {"quarantined": {"q-0": "why"}, "copiers": [GOOD], "errors": 0},
            (RestartCopiers("A->B", ()),),
            ["RUNNING", "RESTARTING"],
        ),
        ("includeTasks=true&onlyFailed=true", {"copiers": [GOOD], "errors": 0}, (), ["RUNNING"]),
        ("includeTasks=true", {"desired": STOPPED}, (), []),
    ],
)
def test_a_restart_with_tasks_says_which_begin_again(
    query: str, flow: dict[str, Any], deeds: tuple[Deed, ...], states: list[str]
) -> None:
    answer = restart(f"restart?{query}", **HALF_BROKEN | flow)
    assert (answer.status, answer.deeds) == (202, deeds)
    assert [task["state"] for task in shown(answer)["tasks"]] == states
    is_whole = "onlyFailed" not in query
    assert (shown(answer)["connector"]["state"] == "RESTARTING") is is_whole


@pytest.mark.parametrize(
    ("task", "deeds"),
    [
        (0, (RestartCopiers("A->B", ("good",)),)),
        (1, (RestartCopiers("A->B", ("bad",)),)),
        (2, (RestartCopiers("A->B", ()),)),
    ],
)
def test_a_task_restarts_its_copier_or_what_is_in_quarantine(task: int, deeds: tuple[Deed, ...]) -> None:
    answer = restart(f"tasks/{task}/restart", quarantined={"q-0": "why"}, **HALF_BROKEN)
    assert (answer.status, answer.encoded(), answer.deeds) == (204, b"", deeds)


@pytest.mark.parametrize("name", [CHECKPOINT, HEARTBEAT])
@pytest.mark.parametrize("what", ["restart", "restart?includeTasks=true", "tasks/0/restart"])
def test_what_metadata_does_tries_again_by_itself(name: str, what: str) -> None:
    answer = restart(what, name)
    assert (answer.status, answer.deeds) == (202 if "true" in what else 204, ())
