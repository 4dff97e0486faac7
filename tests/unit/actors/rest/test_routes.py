"""Every route of the table by Jersey's rules: slashes, methods, types of bodies and answers, and who may ask."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from actors.api.view import ApiView
from actors.http.table import ROUTES
from actors.rest.exchange import JSON
from actors.rest.routes import HttpRoute
from actors.rest.view import Need
from engine.config.http.http_secrets import HttpLogin, digest_of_secret
from policies.roles import ROLES, Role
from tests.unit.actors.rest.rest_views import SOURCE, ask, error, shown, status_with, view_of
from tests.unit.actors.telemetry.statuses import flow_status, lane, mirror_status

SECRETS = {role: f"secret-of-{role}" for role in Role}
LOGINS = [HttpLogin(name=role, role=role, token=digest_of_secret(secret)) for role, secret in SECRETS.items()]
FILLED = {
    "{connector}": SOURCE.replace(">", "%3E"),
    "{flow}": "A-%3EB",
    "{task}": "0",
    "{plugin}": "MirrorSourceConnector",
    "{logger}": "raymirror",
    "{run}": "r1",
}
TEMPLATES = sorted({route.template for route in ROUTES})
by_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.template}")


def path_of(template: str) -> str:
    for variable, value in FILLED.items():
        template = template.replace(variable, value)
    return template


def bearer(role: Role) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRETS[role]}"}


def forbidden_roles() -> Iterator[tuple[HttpRoute, Role]]:
    return (
        (route, role) for route in ROUTES for role in Role if route.role is not None and not role.covers(route.role)
    )


@by_route
def test_a_slash_at_the_end_changes_nothing(route: HttpRoute) -> None:
    path = path_of(route.template)
    without, with_slash = (ask(route.method, one, {}) for one in (path, f"{path.rstrip('/')}/"))
    assert (without.status, without.encoded()) == (with_slash.status, with_slash.encoded())
    assert without.status not in (404, 405)


@by_route
def test_a_user_is_asked_for_before_anything_is_said(route: HttpRoute) -> None:
    answer = ask(route.method, path_of(route.template), {}, logins=LOGINS)
    assert answer.status == (401 if route.role is not None else 200)
    wrong = ask(route.method, path_of(route.template), {}, logins=LOGINS, headers={"authorization": "Bearer x"})
    assert wrong.status == answer.status


@pytest.mark.parametrize(("route", "role"), list(forbidden_roles()))
def test_a_role_that_is_too_weak_is_refused(route: HttpRoute, role: Role) -> None:
    status, message = error(ask(route.method, path_of(route.template), {}, logins=LOGINS, headers=bearer(role)))
    assert (status, message) == (403, f"User {role} has the role {role}; this needs the role {route.role}")


@by_route
def test_the_role_of_the_route_is_enough(route: HttpRoute) -> None:
    role = route.role or Role.VIEW
    answer = ask(route.method, path_of(route.template), {}, logins=LOGINS, headers=bearer(role))
    named = shown(answer) if answer.content_type == JSON else None
    assert not (isinstance(named, dict) and "has the role" in str(named.get("message")))


def test_what_changes_something_needs_more_than_view() -> None:
    reading = {route.template for route in ROUTES if route.role is Role.VIEW and route.method != "GET"}
    assert reading == {"/connector-plugins/{plugin}/config/validate"}
    assert {route.template for route in ROUTES if route.role is None} == {"/health", "/healthz", "/readyz"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_another_method_is_405_with_those_that_exist(template: str) -> None:
    there = {route.method for route in ROUTES if route.template == template}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - there:
        answer = ask(method, path_of(template))
        assert error(answer) == (405, "HTTP 405 Method Not Allowed")
        ((name, allowed),) = answer.headers
        assert name == "Allow"
        assert set(allowed.split(",")) == there | {"OPTIONS"} | ({"HEAD"} if "GET" in there else set())


@pytest.mark.parametrize("template", TEMPLATES)
def test_options_says_which_methods_there_are(template: str) -> None:
    answer = ask("OPTIONS", path_of(template))
    there = {route.method for route in ROUTES if route.template == template}
    assert answer.status == 200
    assert there < set(dict(answer.headers)["Allow"].split(","))


def test_head_is_get() -> None:
    assert ask("HEAD", "/connectors").encoded() == ask("GET", "/connectors").encoded()


@pytest.mark.parametrize(
    "target",
    ["/x", "/connectors/a/b", "/connectors/a/tasks/0", "/health/x", "/admin"],
)
def test_an_unknown_path_is_404_in_jerseys_words(target: str) -> None:
    assert error(ask("GET", target)) == (404, "HTTP 404 Not Found")
    assert ask("GET", target, logins=LOGINS).status == 401, "who has no name learns nothing about paths"


def test_a_path_that_cannot_be_read_is_400() -> None:
    assert error(ask("GET", "/connectors/%")) == (400, "HTTP 400 Bad Request")


@pytest.mark.parametrize(
    ("accept", "is_taken"),
    [
        ("*/*", True),
        ("application/json", True),
        ("application/*;q=0.1", True),
        ("text/html, application/json;q=0.9", True),
        ("", True),
        ("text/html", False),
        ("application/json;q=0", False),
        ("application/json;q=0.0", False),
        ("text/html;q=1, */*;q=0.000", False),
    ],
)
def test_an_answer_that_the_client_does_not_take_is_406(accept: str, is_taken: bool) -> None:
    answer = ask("GET", "/connectors", headers={"accept": accept})
    assert answer.status == 200 if is_taken else error(answer) == (406, "HTTP 406 Not Acceptable")


@pytest.mark.parametrize(
    ("content_type", "is_taken"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_a_body_of_another_type_is_415(content_type: str, is_taken: bool) -> None:
    target = "/connector-plugins/MirrorSourceConnector/config/validate"
    body = {"connector.class": "MirrorSourceConnector"}
    answer = ask("PUT", target, body, headers={"content-type": content_type})
    assert answer.status == 200 if is_taken else error(answer) == (415, "HTTP 415 Unsupported Media Type")


def test_a_route_of_our_own_says_which_type_is_right() -> None:
    answer = ask("POST", "/api/v1/mirror/pause", {"topics": ["t"]}, headers={"content-type": "text/plain"})
    right = "send the body with the header Content-Type: application/json"
    assert error(answer) == (415, f"HTTP 415 Unsupported Media Type: {right}")


def test_a_request_without_a_body_needs_no_type() -> None:
    assert ask("PUT", path_of("/connectors/{connector}/pause"), headers={"content-type": "text/plain"}).status == 202


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"[]", b'{"a": {}}', b"\xff", b"[" * 100_000, b'{"a":1}x'])
@pytest.mark.parametrize("route", [one for one in ROUTES if one.takes is not None], ids=lambda route: route.template)
def test_a_body_that_is_something_else_is_400(route: HttpRoute, body: bytes) -> None:
    if route.takes == dict[str, object] and body == b'{"a": {}}':
        return
    if not (route.needs_body or body.strip()):
        return
    status, message = error(ask(route.method, path_of(route.template), body))
    assert status == 400
    assert len(message) < 300


def test_roles_are_ordered_as_they_are_named() -> None:
    assert ROLES == ("view", "operate", "admin")


def test_a_route_of_a_connector_knows_whether_a_request_has_deleted_it() -> None:
    knowing = (Need.STATUS, Need.TASKS, Need.LANES, Need.POSITIONS)
    ignorant = [route.template for route in ROUTES if "{connector}" in route.template and route.need not in knowing]
    assert ignorant == ["/connectors/{connector}/topics/reset"], "it is refused for each connector"


def begun(up_s: float = 3.0, **flow: Any) -> ApiView:
    """A mirror whose supervisor has just begun."""
    status = status_with(lane("t", 0), **{"remembered": False, "waiting_for": "cluster B", **flow})
    return view_of(msgspec.structs.replace(status, up_s=up_s))


ONE = f"/connectors/{SOURCE}"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/connectors", None),
        ("GET", "/connectors?expand=status", None),
        ("GET", f"{ONE}/status", None),
        ("GET", f"{ONE}/topics", None),
        ("PUT", f"{ONE}/resume", None),
        ("PUT", f"{ONE}/stop", None),
        ("POST", f"{ONE}/restart", None),
        ("DELETE", ONE, None),
        ("PATCH", f"{ONE}/config", {}),
        ("DELETE", f"{ONE}/offsets", None),
        ("POST", "/connectors", {"name": SOURCE, "config": {}}),
    ],
)
def test_a_mirror_that_has_just_begun_guesses_nothing_and_does_nothing(method: str, target: str, body: object) -> None:
    answer = ask(method, target, body, view=begun())
    assert answer.status == 409
    assert "has not read the stored state of A->B yet: it waits for cluster B; try again" in answer.body.message
    assert ask(method, target, body, view=begun(remembered=True)).status != 409


@pytest.mark.parametrize("up_s", [3.0, 3600.0])
@pytest.mark.parametrize("target", ["/connectors/{}.MirrorSourceConnector/pause", "/api/v1/flows/{}/pause"])
def test_a_flow_whose_state_is_not_read_keeps_no_other_one_from_its_command(target: str, up_s: float) -> None:
    away = flow_status("A->B", remembered=False, waiting_for="cluster B")
    status = mirror_status(flows=[away, flow_status("B->A")], copiers=[])
    view = view_of(msgspec.structs.replace(status, up_s=up_s), extra="B->A.enabled = true\n")
    method = "PUT" if "connectors" in target else "POST"
    assert ask(method, target.format("A-%3EB"), view=view).status == 409
    assert ask(method, target.format("B-%3EA"), view=view).status == 202
    if method == "POST":
        assert ask(method, "/api/v1/mirror/pause", view=view).status == 409, "it would change both"


@pytest.mark.parametrize("target", ["/", "/health", "/metrics", "/readyz", "/connector-plugins", "/admin/loggers"])
def test_what_does_not_depend_on_the_stored_state_is_answered_at_once(target: str) -> None:
    assert ask("GET", target, view=begun()).status == 200


def test_if_the_target_stays_away_what_is_known_is_shown_and_nothing_is_done() -> None:
    view = begun(up_s=100.0)
    assert ask("GET", f"{ONE}/status", view=view).body.connector.state == "UNASSIGNED"
    assert ask("GET", "/connectors", view=view).status == 200
    assert ask("PUT", f"{ONE}/resume", view=view).status == 409


def test_topics_are_named_when_they_are_known() -> None:
    status = mirror_status(flows=[flow_status(discovered=False, lanes=0)], copiers=[])
    view = view_of(msgspec.structs.replace(status, up_s=3.0))
    assert ask("GET", f"{ONE}/topics", view=view).status == 409
    assert ask("GET", f"{ONE}/status", view=view).status == 200
