"""Answers that only read, field by field, and Connect's words for what does not exist."""

from typing import Any

import msgspec
import pytest

from actors.http.table import ROUTES
from actors.model.states import Desired
from tests.unit.actors.rest.rest_views import (
    CHECKPOINT,
    HEARTBEAT,
    NAMES,
    SOURCE,
    ask,
    configured,
    error,
    shown,
    status_with,
    view_of,
)
from tests.unit.actors.telemetry.statuses import lane

VERSION = "4.3.1-raymirror.0.1.0"
ONE = f"/connectors/{SOURCE}"


def get(target: str, **view: Any) -> Any:
    answer = ask("GET", target, view=view_of(**view))
    assert answer.status == 200
    return shown(answer)


def test_a_client_learns_version_and_cluster() -> None:
    status = status_with(target_id="kafka-1")
    assert get("/", status=status) == {"version": VERSION, "commit": "unknown", "kafka_cluster_id": "kafka-1"}
    assert get("/")["kafka_cluster_id"] == ""


@pytest.mark.parametrize(
    ("phase", "why_dead", "status", "word"),
    [
        ("running", "", 200, "healthy"),
        ("waiting", "", 200, "healthy"),
        ("draining", "", 200, "healthy"),
        ("starting", "", 503, "starting"),
        ("running", "no step for 40 s", 500, "unhealthy"),
        ("starting", "no step for 40 s", 500, "unhealthy"),
    ],
)
def test_health(phase: str, why_dead: str, status: int, word: str) -> None:
    answer = ask("GET", "/health", view=view_of(status_with(phase=phase), why_dead=why_dead))
    assert (answer.status, shown(answer)["status"]) == (status, word)
    assert why_dead in shown(answer)["message"]


def test_connectors_are_listed_by_name() -> None:
    assert get("/connectors") == list(NAMES)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("expand=info", {"info"}),
        ("expand=status", {"status"}),
        ("expand=info&expand=status", {"info", "status"}),
        ("expand=other", set()),
        ("expand", set()),
    ],
)
def test_connectors_are_expanded_as_asked(query: str, keys: set[str]) -> None:
    found = get(f"/connectors?{query}")
    assert tuple(found) == NAMES
    assert all(one.keys() == keys for one in found.values())
    for name, one in found.items():
        for key in keys:
            assert one[key] == get(f"/connectors/{name}" + ("/status" if key == "status" else ""))


def test_a_connector_has_settings_tasks_and_a_type() -> None:
    tasks = [{"connector": SOURCE, "task": 0}]
    assert get(ONE) == {"name": SOURCE, "config": configured()[SOURCE].config, "tasks": tasks, "type": "source"}
    assert get(f"{ONE}/config") == configured()[SOURCE].config


def test_a_status_has_no_empty_trace() -> None:
    assert get(f"{ONE}/status") == {
        "name": SOURCE,
        "connector": {"state": "RUNNING", "worker_id": "head:8083", "version": VERSION},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "head:8083", "version": VERSION}],
        "type": "source",
    }


def test_a_task_knows_its_partitions() -> None:
    (task,) = get(f"{ONE}/tasks")
    assert task["id"] == {"connector": SOURCE, "task": 0}
    assert task["config"] == configured()[SOURCE].config | {
        "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
        "task.index": "0",
        "task.assigned.partitions": "t-0,t-1",
    }
    (other,) = get(f"/connectors/{CHECKPOINT}/tasks")
    assert "task.assigned.partitions" not in other["config"]


def test_the_state_of_a_task() -> None:
    assert get(f"{ONE}/tasks/0/status")["state"] == "RUNNING"


def test_topics_are_the_copies() -> None:
    lanes = [lane("t", 0), lane("t", 1), lane("u"), lane("other", flow="B->A")]
    assert get(f"{ONE}/topics", status=status_with(*lanes)) == {SOURCE: {"topics": ["A.t", "A.u"]}}
    assert get(f"/connectors/{CHECKPOINT}/topics") == {CHECKPOINT: {"topics": ["A.checkpoints.internal"]}}
    assert get(f"/connectors/{HEARTBEAT}/topics") == {HEARTBEAT: {"topics": ["heartbeats"]}}


def test_probes_and_metrics_are_text() -> None:
    for path, text in (("/healthz", "ok\n"), ("/readyz", "ok\n"), ("/metrics", "# HELP x\n")):
        answer = ask("GET", path)
        assert (answer.status, answer.encoded().decode()) == (200, text)
        assert answer.content_type.startswith("text/plain")
    waits = view_of(why_not_ready="A->B waits for A")
    assert [ask("GET", path, view=waits).status for path in ("/healthz", "/readyz")] == [200, 503]
    dead = view_of(why_dead="no step")
    assert [ask("GET", path, view=dead).status for path in ("/healthz", "/readyz")] == [503, 503]


MISSING = [
    ("GET", "/connectors/x", "Connector x not found"),
    ("GET", "/connectors/x/config", "Connector x not found"),
    ("GET", "/connectors/x/tasks", "Connector x not found"),
    ("GET", "/connectors/x/offsets", "Connector x not found"),
    ("PATCH", "/connectors/x/config", "Connector x not found"),
    ("DELETE", "/connectors/x", "Connector x not found"),
    ("DELETE", "/connectors/x/offsets", "Connector x not found"),
    ("GET", "/connectors/x/status", "No status found for connector x"),
    ("GET", "/connectors/x/tasks/0/status", "No status found for task x-0"),
    ("GET", f"{ONE}/tasks/7/status", f"No status found for task {SOURCE}-7"),
    ("GET", f"{ONE}/tasks/-1/status", f"No status found for task {SOURCE}--1"),
    ("GET", f"{ONE}/tasks/x/status", "HTTP 404 Not Found"),
    ("GET", f"{ONE}/tasks/99999999999/status", "HTTP 404 Not Found"),
    ("GET", f"{ONE}/tasks/²/status", "HTTP 404 Not Found"),
    ("PUT", "/connectors/x/pause", "Unknown connector x"),
    ("PUT", "/connectors/x/resume", "Unknown connector x"),
    ("PUT", "/connectors/x/stop", "Unknown connector x"),
    ("POST", "/connectors/x/restart", "Unknown connector: x"),
    ("POST", "/connectors/x/restart?includeTasks=true", "Unknown connector: x"),
    ("POST", "/connectors/x/tasks/0/restart", "Unknown connector: x"),
    ("POST", f"{ONE}/tasks/7/restart", f"Unknown task: {SOURCE}-7"),
    ("POST", f"{ONE}/tasks/x/restart", "HTTP 404 Not Found"),
    ("GET", "/connector-plugins/x/config", "Unknown plugin x."),
    ("GET", "/admin/loggers/x", "Logger x not found."),
    ("PUT", "/admin/loggers/x", "Logger x not found."),
]


@pytest.mark.parametrize(("method", "target", "message"), MISSING)
def test_what_does_not_exist_is_said_in_connects_words(method: str, target: str, message: str) -> None:
    body = {"level": "INFO"} if "loggers" in target else {} if method == "PATCH" else None
    assert error(ask(method, target, body)) == (404, message)


def test_as_in_connect_an_unknown_connector_writes_no_topics() -> None:
    assert get("/connectors/x/topics") == {"x": {"topics": []}}


def test_topics_are_not_collected_so_they_cannot_be_reset() -> None:
    assert error(ask("PUT", f"{ONE}/topics/reset")) == (403, "Topic tracking reset is disabled.")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("desired", list(Desired))
def test_every_answer_is_of_the_type_that_its_route_names(name: str, desired: Desired) -> None:
    view = view_of(status_with(lane("t", 0), lane("t", 1, state="failed", reason="x"), errors=1, desired=desired))
    filled = {
        "{connector}": name,
        "{flow}": "A->B",
        "{task}": "0",
        "{plugin}": "MirrorSourceConnector",
        "{logger}": "root",
    }
    for route in ROUTES:
        target = route.template
        for variable, value in filled.items():
            target = target.replace(variable, value)
        answer = ask(route.method, target, {"level": "INFO"} if "logger" in target else None, view=view)
        if answer.status not in route.gives:
            error(answer)
            continue
        kind = route.gives[answer.status]
        if kind is None:
            assert answer.encoded() == b""
        elif answer.content_type == "application/json":
            msgspec.json.decode(answer.encoded(), type=kind)
