"""Requests that change settings, create and delete: Connect's refusals, no change, and what is not there yet."""

import pytest

from actors.api.view import ApiView
from actors.model.requests import ChangeSettings, CreateFlow, DeleteFlow, GiveCommand
from actors.model.states import Command, Desired
from tests.unit.actors.rest.rest_views import (
    CHECKPOINT,
    HEARTBEAT,
    SOURCE,
    ask,
    configured,
    error,
    shown,
    status_with,
    view_of,
)

SAME = configured()[SOURCE].config
ONE = f"/connectors/{SOURCE}"
FILE = "/etc/mm2.properties"


def test_the_present_settings_are_accepted_again() -> None:
    for method, body in (("PUT", SAME), ("PATCH", {}), ("PATCH", {"enabled": "true", "absent": None})):
        answer = ask(method, f"{ONE}/config", body)
        assert (answer.status, shown(answer)["config"], answer.deeds) == (200, SAME, ())


def test_a_name_is_added_and_must_be_the_one_of_the_path() -> None:
    assert ask("PUT", f"{ONE}/config", {key: value for key, value in SAME.items() if key != "name"}).status == 200
    message = f"Connector name configuration (x) doesn't match connector name in the URL ({SOURCE})"
    assert error(ask("PUT", f"{ONE}/config", SAME | {"name": "x"})) == (400, message)
    assert error(ask("PATCH", f"{ONE}/config", {"name": "x"})) == (400, message)


@pytest.mark.parametrize(("method", "body"), [("PUT", SAME | {"tasks.max": 4}), ("PATCH", {"tasks.max": 4})])
def test_other_settings_are_given_to_the_supervisor(method: str, body: dict[str, object]) -> None:
    answer = ask(method, f"{ONE}/config", body)
    assert (answer.status, shown(answer)["config"]) == (200, SAME | {"tasks.max": "4"})
    assert answer.deeds == (ChangeSettings("A->B", {"tasks.max": "4"}, SAME if method == "PUT" else None),)


@pytest.mark.parametrize(("method", "body"), [("PUT", SAME), ("PATCH", {"tasks.max": None})])
def test_a_setting_that_is_absent_or_null_is_removed(method: str, body: dict[str, object]) -> None:
    view = view_of(extra="tasks.max = 4\n")
    answer = ask(method, f"{ONE}/config", body, view=view)
    assert (answer.status, shown(answer)["config"]) == (200, SAME)
    before = SAME | {"tasks.max": "4"} if method == "PUT" else None
    assert answer.deeds == (ChangeSettings("A->B", {"tasks.max": None}, before),)


@pytest.mark.parametrize("value", [0, "0", "x", True, 1.5])
def test_settings_that_are_invalid_are_refused_as_connect_does(value: object) -> None:
    status, message = error(ask("PUT", f"{ONE}/config", SAME | {"tasks.max": value}))
    assert status == 400
    assert message.startswith("Connector configuration is invalid and contains the following")
    assert "for configuration tasks.max: " in message
    assert message.endswith("at the endpoint `/connector-plugins/{connectorType}/config/validate`")


def test_a_connector_that_exists_is_a_conflict() -> None:
    assert error(ask("POST", "/connectors", {"name": SOURCE, "config": SAME})) == (
        409,
        f"Connector {SOURCE} already exists",
    )


OTHER = "B->A.MirrorSourceConnector"
FRESH = {"connector.class": "MirrorSourceConnector", "source.cluster.alias": "B", "topics": "t"}


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_new_flow_is_added_to_the_file(method: str) -> None:
    target = "/connectors" if method == "POST" else f"/connectors/{OTHER}/config"
    answer = ask(method, target, {"name": OTHER, "config": FRESH} if method == "POST" else FRESH)
    assert (answer.status, shown(answer)) == (
        201,
        {"name": OTHER, "config": {**FRESH, "name": OTHER}, "tasks": [], "type": "source"},
    )
    assert answer.headers == (("Location", "/connectors/B-%3EA.MirrorSourceConnector"),)
    assert answer.deeds == (CreateFlow("B", "A", {"source.cluster.alias": "B", "topics": "t"}),)


@pytest.mark.parametrize("name", ["new", "B->A", "B->A.MirrorSource", "->A.MirrorSourceConnector", "B->A.Other"])
def test_a_flow_is_named_by_its_connector(name: str) -> None:
    status, message = error(ask("POST", "/connectors", {"name": name, "config": FRESH}))
    assert status == 400
    assert f"Connector {name} must have the name of its flow and class" in message


def test_a_connector_is_named_by_its_class() -> None:
    name = "B->A.MirrorCheckpointConnector"
    assert error(ask("POST", "/connectors", {"name": name, "config": FRESH}))[0] == 400
    config = FRESH | {"connector.class": "MirrorCheckpointConnector"}
    status, message = error(ask("POST", "/connectors", {"name": name, "config": config}))
    assert (status, f"create connector {OTHER}" in message) == (501, True)


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_a_new_flow_begins_running(state: str) -> None:
    answer = ask("POST", "/connectors", {"name": OTHER, "config": FRESH, "initial_state": state})
    assert (answer.status, answer.deeds) == (501, ())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "contains no connector type"),
        ({"connector.class": None}, "contains no connector type"),
        ({"connector.class": "org.example.X"}, "Failed to find any class that implements Connector"),
        ({"connector.class": "MirrorSourceConnector", "name": "other"}, "doesn't match connector name in the URL"),
    ],
)
def test_a_connector_of_another_class_is_refused(config: dict[str, object], message: str) -> None:
    for method, target, body in (
        ("POST", "/connectors", {"name": "new", "config": config}),
        ("PUT", "/connectors/new/config", config),
    ):
        status, found = error(ask(method, target, body))
        assert status == 400
        assert message in found


def after_a_delete() -> ApiView:
    """Return a view of a mirror whose flow a request has deleted."""
    known = configured()
    status = status_with(desired=Desired.STOPPED, may_return=True, deleted=True)
    deleted = {name: known[name] for name in (SOURCE, CHECKPOINT)}
    return view_of(status, connectors={HEARTBEAT: known[HEARTBEAT]}, deleted=deleted)


def test_a_source_connector_is_deleted_with_its_flow_and_then_unknown() -> None:
    answer = ask("DELETE", ONE)
    assert (answer.status, shown(answer), answer.deeds) == (204, None, (DeleteFlow("A->B"),))
    gone = after_a_delete()
    assert error(ask("DELETE", ONE, view=gone)) == (404, f"Connector {SOURCE} not found")
    assert shown(ask("GET", "/connectors", view=gone)) == [HEARTBEAT]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (CHECKPOINT, "emit.checkpoints.enabled and sync.group.offsets.enabled of the flow to false, or remove A->B.M"),
        (HEARTBEAT, f"A->B.emit.heartbeats.enabled = false in {FILE}, then: raymirror reload"),
    ],
)
def test_the_other_connectors_are_not_deleted_alone(name: str, says: str) -> None:
    answer = ask("DELETE", f"/connectors/{name}")
    status, message = error(answer)
    assert (status, answer.deeds) == (501, ())
    assert says in message


def test_a_flow_that_was_failed_over_stays_as_it_is() -> None:
    answer = ask("DELETE", ONE, view=view_of(status_with(desired=Desired.STOPPED, failed_over=True)))
    assert (answer.status, answer.deeds) == (501, ())
    assert "was failed over, and is stopped. Remove it from" in error(answer)[1]


@pytest.mark.parametrize(
    ("state", "command"),
    [(None, Command.RESUME), ("RUNNING", Command.RESUME), ("PAUSED", Command.PAUSE), ("STOPPED", Command.STOP)],
)
def test_a_deleted_connector_is_created_again(state: str | None, command: Command) -> None:
    answer = ask("POST", "/connectors", {"name": SOURCE, "config": SAME, "initial_state": state}, view=after_a_delete())
    assert (answer.status, shown(answer)["config"], shown(answer)["tasks"]) == (201, SAME, [])
    assert answer.headers == (("Location", "/connectors/A-%3EB.MirrorSourceConnector"),)
    assert answer.deeds == (GiveCommand(command, "A->B"),)


@pytest.mark.parametrize(("method", "target"), [("POST", "/connectors"), ("PUT", f"{ONE}/config")])
def test_its_settings_are_changed_first(method: str, target: str) -> None:
    config = SAME | {"tasks.max": "4"}
    body = {"name": SOURCE, "config": config} if method == "POST" else config
    answer = ask(method, target, body, view=after_a_delete())
    assert answer.status == 201
    assert answer.deeds == (ChangeSettings("A->B", {"tasks.max": "4"}, SAME), GiveCommand(Command.RESUME, "A->B"))


def test_an_unknown_initial_state_is_refused() -> None:
    answer = ask("POST", "/connectors", {"name": SOURCE, "config": SAME, "initial_state": "x"}, view=after_a_delete())
    assert error(answer) == (400, "Unknown initial state 'x'; it is one of: RUNNING, PAUSED, STOPPED")


def test_a_checkpoint_connector_comes_with_its_flow() -> None:
    config = configured()[CHECKPOINT].config
    answer = ask("POST", "/connectors", {"name": CHECKPOINT, "config": config}, view=after_a_delete())
    assert (answer.status, answer.deeds) == (501, ())
    assert f"create connector {SOURCE}" in error(answer)[1]


def test_a_refusal_repeats_no_value() -> None:
    body = {"name": "new", "sasl.jaas.config": "hunter2"}
    assert "hunter2" not in error(ask("PUT", "/connectors/new/config", body))[1]
