"""Requests that would change settings or offsets: Connect's refusals, no change, and what is not there yet."""

import pytest

from actors.model.requests import ChangeSettings
from actors.model.states import Desired
from tests.unit.actors.rest.rest_views import CHECKPOINT, SOURCE, ask, configured, error, shown, status_with, view_of

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
    assert answer.deeds == (ChangeSettings("A->B", {"tasks.max": "4"}),)


@pytest.mark.parametrize(("method", "body"), [("PUT", SAME), ("PATCH", {"tasks.max": None})])
def test_a_setting_that_is_absent_or_null_is_removed(method: str, body: dict[str, object]) -> None:
    view = view_of(extra="tasks.max = 4\n")
    answer = ask(method, f"{ONE}/config", body, view=view)
    assert (answer.status, shown(answer)["config"]) == (200, SAME)
    assert answer.deeds == (ChangeSettings("A->B", {"tasks.max": None}),)


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


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/connectors", {"name": "new", "config": SAME | {"name": "new"}}),
        ("PUT", "/connectors/new/config", SAME | {"name": "new"}),
        ("DELETE", ONE, None),
    ],
)
def test_a_flow_is_added_and_removed_in_the_file(method: str, target: str, body: object) -> None:
    answer = ask(method, target, body)
    status, message = error(answer)
    assert (status, answer.deeds) == (501, ())
    assert f"raymirror reload {FILE}" in message


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


def test_a_refusal_repeats_no_value() -> None:
    body = {"name": "new", "sasl.jaas.config": "hunter2"}
    assert "hunter2" not in error(ask("PUT", "/connectors/new/config", body))[1]


MUST_STOP = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified"
    f" connector by issuing a 'PUT' request to the '/connectors/{SOURCE}/stop' endpoint"
)


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(("desired", "status"), [(Desired.RUNNING, 400), (Desired.PAUSED, 400), (Desired.STOPPED, 501)])
def test_offsets_are_changed_only_when_stopped_and_not_yet(method: str, desired: Desired, status: int) -> None:
    view = view_of(status_with(desired=desired))
    body: object = {"offsets": [{"partition": {}, "offset": {}}]} if method == "PATCH" else None
    found, message = error(ask(method, f"{ONE}/offsets", body, view=view))
    assert found == status
    assert message == MUST_STOP if status == 400 else "raymirror.start" in message


@pytest.mark.parametrize("body", [{}, {"offsets": []}, {"offsets": None}])
def test_a_change_of_offsets_without_offsets_is_refused(body: object) -> None:
    message = "Partitions / offsets need to be provided for an alter offsets request"
    assert error(ask("PATCH", f"/connectors/{CHECKPOINT}/offsets", body)) == (400, message)
