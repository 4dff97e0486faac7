"""What a mirror is: the mirror, flows, groups, events, settings, series and who asks."""

from typing import Any

import msgspec
import pytest

from actors.model.status import EventLine
from engine.config.http.http_secrets import HttpLogin, digest_of_secret
from engine.core.reports.group_report import GroupsReport
from policies.roles import Role
from tests.unit.actors.rest.rest_views import ask, error, shown, status_with, view_of
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_proof, lane

FLOW = "/api/v1/flows/A-%3EB"


def line(number: int, severity: str = "info", flow: str = "A->B") -> EventLine:
    return EventLine(at_ms=NOW_MS - 1000 * number, severity=severity, flow=flow, text=f"{number}")


def get(path: str, **view: Any) -> Any:
    answer = ask("GET", path, view=view_of(**view))
    assert answer.status == 200, shown(answer)
    return shown(answer)


def test_who_asks() -> None:
    login = HttpLogin(name="eve", role=Role.OPERATE, token=digest_of_secret("x"))
    answer = ask("GET", "/api/v1/me", logins=[login], headers={"authorization": "Bearer x"})
    assert shown(answer) == {"user": "eve", "role": "operate", "mirror": "A-B"}
    assert shown(ask("GET", "/api/v1/me"))["role"] == "admin", "without users everybody may do everything"


def test_a_mirror_says_how_it_is_and_what_a_loss_would_cost() -> None:
    status = status_with(unknown_lanes=0, stalled=0, lag_records=3, least_lag_records=3, lag_bytes=9, groups=None)
    found = get("/api/v1/mirror", status=msgspec.structs.replace(status, proofs={"A->B": flow_proof(differences=0)}))
    assert found["mirror"]["health"] == "ok"
    assert found["mirror"]["rpo"]["records"] == 3
    assert found["mirror"]["proven_ms"] == NOW_MS - 4000
    (flow,) = found["flows"]
    assert (flow["state"], flow["source"], flow["target"]) == ("running", "A", "B")
    assert flow["proof"]["age_seconds"] == 4.0


def test_one_flow_is_as_in_the_list() -> None:
    assert get(FLOW) == get("/api/v1/flows")[0] == get("/api/v1/mirror")["flows"][0]


def test_the_status_is_that_of_the_command() -> None:
    status = status_with(lane())
    assert get("/api/v1/status", status=status) == msgspec.json.decode(msgspec.json.encode(status))


def test_settings_are_those_of_the_source_connector() -> None:
    found = get(f"{FLOW}/settings", extra="A->B.topics = orders\nA->B.producer.sasl.jaas.config = secret\n")
    assert found["settings"]["topics"] == "orders"
    assert not {"name", "connector.class"} & found["settings"].keys()
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["3", "2", "1"]),
        ("?severity=warning", ["2", "1"]),
        ("?severity=error", ["1"]),
        ("?flow=A->C", ["2"]),
        ("?limit=1", ["1"]),
        ("?limit=0", []),
        ("?since=2s", ["2", "1"]),
        (f"?since={NOW_MS - 1000}", ["1"]),
    ],
)
def test_events_are_chosen(query: str, expected: list[str]) -> None:
    events = (line(3), line(2, "warning", "A->C"), line(1, "error"))
    found = get(f"/api/v1/events{query}", status=msgspec.structs.replace(status_with(), events=events))
    assert [one["text"] for one in found["events"]] == expected


@pytest.mark.parametrize("query", ["since=yesterday", "severity=fatal", "limit=501"])
def test_a_query_that_cannot_be_is_refused(query: str) -> None:
    status, message = error(ask("GET", f"/api/v1/events?{query}"))
    assert status == 400
    assert query.split("=")[0] in message


def test_groups_that_are_all_translated_are_ready() -> None:
    report = GroupsReport(at_ms=1, groups=4, how={"run": 8})
    found = get(f"{FLOW}/groups", status=status_with(groups=report, lag_records=0, unknown_lanes=0))
    assert (found["ready"], found["why_not"]) == (True, [])
    assert found["sentence"] == "4 mirrored, 8 offsets translated"


def test_groups_say_what_speaks_against_a_move() -> None:
    found = get(f"{FLOW}/groups")
    assert found["ready"] is False
    assert found["why_not"] == [
        "3 offsets have no translation (beyond)",
        "1 group failing",
        "the lag of the flow is not known",
    ]
    nothing = get(f"{FLOW}/groups", status=status_with(groups=None))
    assert (nothing["ready"], nothing["report"]) == (False, None)


def test_series_are_those_of_the_ring() -> None:
    view = view_of()
    view.ring.note(view.present)
    found = shown(ask("GET", f"{FLOW}/series", view=view))
    assert found["at_ms"] == [NOW_MS]
    assert shown(ask("GET", f"{FLOW}/series?since={NOW_MS + 1}", view=view))["at_ms"] == []


def test_a_stream_begins_after_the_message_that_its_reader_has() -> None:
    answer = ask("GET", "/api/v1/stream", headers={"last-event-id": "x-7", "accept": "text/event-stream"})
    assert answer.follow is not None
    assert answer.follow.last_id == "x-7"
    assert error(ask("GET", "/api/v1/stream", headers={"accept": "application/json"}))[0] == 406


def test_a_flow_says_why_its_groups_are_not_ready() -> None:
    report = GroupsReport(at_ms=1, groups=3, without={"too old": 2})
    found = shown(ask("GET", FLOW, view=view_of(status_with(groups=report))))
    assert found["groups_not_ready"] == ["2 offsets have no translation (too old)"]
    assert shown(ask("GET", FLOW, view=view_of(status_with(groups=GroupsReport(at_ms=1)))))["groups_not_ready"] == []
    assert "their sync is off" in shown(ask("GET", FLOW, view=view_of(status_with(groups=None))))["groups_not_ready"][0]
