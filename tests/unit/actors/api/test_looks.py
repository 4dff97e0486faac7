"""Answers of commands: which command runs, what its output becomes, and what is said if it fails."""

from typing import Any

import msgspec
import pytest

from actors.api.commands.look_words import CommandOutcome, words_of
from actors.api.table import API_ROUTES
from actors.api.view import ApiFacts, ApiNeed, ApiView
from actors.config.difference import ChangeRow, ConfigDifference
from actors.model.requests import ApplyFile
from actors.rest.exchange import HttpCall, HttpRefusal
from engine.flow.config_sync.audit import AuditRow
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.surveys.dr_preview import DrPreview, TopicLoss, unknown_losses
from engine.flow.topic_logs.last_known import KnownLane
from policies.model import TopicPartition
from tests.unit.actors.rest.rest_views import ask, error, shown, view_of
from tests.unit.actors.telemetry.statuses import NOW_MS

FLOW = "/api/v1/flows/A-%3EB"
KEPT = ApiFacts(storage="file:/kept")


def outcome(printed: object, code: int = 0, said: str = "") -> CommandOutcome:
    data = printed if isinstance(printed, bytes) else msgspec.json.encode(printed)
    return CommandOutcome(code=code, printed=data, said=said, took_seconds=1.5)


def words(need: ApiNeed, *, facts: ApiFacts = KEPT, flow: str = "A->B", **query: str) -> tuple[str, ...]:
    path = {"flow": flow} if flow else {}
    call = HttpCall(path=path, query={name: (value,) for name, value in query.items()})
    return words_of(need, call, view_of(facts=facts))


def get(path: str, found: Any, facts: ApiFacts = KEPT) -> Any:
    answer = ask("GET", path, view=view_of(found=found, facts=facts))
    assert answer.status == 200, shown(answer)
    return shown(answer)


def test_the_command_is_the_one_of_the_command_line() -> None:
    path = "/etc/mm2.properties"
    since = "2027-01-15T08:00:00+00:00"
    assert words(ApiNeed.PREVIEW) == ("dr", "preview", "A->B", "--config", path, "--json")
    assert words(ApiNeed.SYNC_PLAN) == ("plan", path, "A->B", "--json")
    assert words(ApiNeed.HISTORY, since=str(NOW_MS), topics="3") == (
        *("lag", "A->B", "--history", "--since", since, "--most-topics", "3", "--config", path, "--json"),
    )
    assert words(ApiNeed.AUDIT, flow="", since=str(NOW_MS + 9999)) == ("audit", path, "--since", since, "--json")


@pytest.mark.parametrize("need", [ApiNeed.HISTORY, ApiNeed.AUDIT, ApiNeed.STATUS, ApiNeed.FILE_PLAN])
def test_nothing_runs_where_nothing_is_kept_or_needed(need: ApiNeed) -> None:
    assert words(need, facts=ApiFacts()) == ()


@pytest.mark.parametrize("need", [ApiNeed.PREVIEW, ApiNeed.SYNC_PLAN, ApiNeed.HISTORY, ApiNeed.STATUS])
@pytest.mark.parametrize("facts", [KEPT, ApiFacts()])
def test_nothing_runs_for_a_flow_that_is_not_there(need: ApiNeed, facts: ApiFacts) -> None:
    with pytest.raises(HttpRefusal) as refused:
        words(need, facts=facts, flow="--config=/etc/passwd")
    assert refused.value.status == 404


@pytest.mark.parametrize("query", [{"since": "x"}, {"topics": "101"}, {"since": "999999999999999"}])
def test_a_query_that_cannot_be_is_refused_before_anything_runs(query: dict[str, Any]) -> None:
    with pytest.raises(HttpRefusal) as refused:
        words(ApiNeed.HISTORY, facts=KEPT, **query)
    assert refused.value.status == 400


def preview(**changes: Any) -> DrPreview:
    loss = TopicLoss(topic="t", partitions=1, records=3, bytes=2048, seconds=0.4, torn=0, is_exact=True, unknown=0)
    stand = GroupPartitionStatus(
        group="g", topic="t", partition=0, source_offset=5, target_offset=4, stored=4, why="not translated"
    )
    plain = DrPreview(
        flow="A->B", at_ms=NOW_MS, source="", losses=(loss,), standing=GroupStatus(groups=2, stands=(stand,))
    )
    return msgspec.structs.replace(plain, **changes)


def test_a_preview_says_what_would_be_lost() -> None:
    printed = {**msgspec.to_builtins(preview()), "whole": False, "equal": False}
    found = get(f"{FLOW}/failover-preview", outcome(printed, code=4))
    assert found["sentence"] == "a failover now would lose 3 records (2.0 KiB), the oldest 0.4 s old"
    assert found["loss"] == {"records": 3, "bytes": 2048, "seconds": 0.4, "exact": True, "unknown_partitions": 0}
    assert (found["whole"], found["equal"], found["groups"], found["groups_not_exact"]) == (False, False, 2, ["g"])
    assert found["took_seconds"] == 1.5
    assert found["preview"]["losses"][0]["topic"] == "t"


def test_a_preview_of_nothing_lost_is_whole() -> None:
    found = get(f"{FLOW}/failover-preview", outcome(preview(losses=(), standing=GroupStatus(groups=0, stands=()))))
    assert (found["whole"], found["equal"], found["loss"]["seconds"]) == (True, True, 0.0)


@pytest.mark.parametrize("changes", [{"source": "no route"}, {"unread": {"0": "x"}}, {"unknown": 1}])
def test_the_age_of_a_loss_that_is_not_known_is_not_zero(changes: dict[str, Any]) -> None:
    unknown = changes.pop("unknown", 0)
    loss = TopicLoss(topic="t", partitions=1, records=0, bytes=0, seconds=0.0, torn=0, is_exact=False, unknown=unknown)
    found = get(f"{FLOW}/failover-preview", outcome(preview(losses=(loss,), **changes), code=4))
    assert (found["whole"], found["loss"]["seconds"]) == (False, None)


def test_what_is_not_known_is_in_no_sum() -> None:
    lane = KnownLane(lane=TopicPartition("t", 0), target=TopicPartition("A.t", 0), source_next=1, at_ms=1, ours=True)
    lost = unknown_losses([lane])
    found = get(f"{FLOW}/failover-preview", outcome(preview(losses=lost, source="no route"), code=4))
    expected = {"records": 0, "bytes": 0, "seconds": None, "exact": False, "unknown_partitions": 1}
    assert (found["loss"], found["preview"]["losses"][0]["records"]) == (expected, -1)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (outcome(b"", code=2, said="cluster B does not answer"), "cluster B does not answer"),
        (outcome(b"", code=1), "The command ended with exit code 1 and said nothing"),
        (outcome(b"", code=-9), "The command ended with exit code -9 and said nothing"),
        (outcome(b'{"flow": "A'), "The command has not printed everything; ask again, or for less"),
    ],
)
@pytest.mark.parametrize("path", ["failover-preview", "plan", "history"])
def test_a_command_that_fails_is_409_with_what_it_said(path: str, found: CommandOutcome, message: str) -> None:
    assert error(ask("GET", f"{FLOW}/{path}", view=view_of(found=found, facts=KEPT))) == (409, message)


def test_a_plan_is_that_of_the_flow() -> None:
    printed = {"flows": [{"flow": "A->B", "topics": 3, "changes": []}]}
    found = get(f"{FLOW}/plan", outcome(printed))
    assert (found["flow"], found["changes"], found["plan"]["topics"]) == ("A->B", 0, 3)


def test_history_is_passed_on_and_empty_where_it_is_not_kept() -> None:
    assert get(f"{FLOW}/history", outcome({"flows": [1]})) == {
        "flow": "A->B",
        "kept": "file:/kept",
        "summary": {"flows": [1]},
    }
    assert get(f"{FLOW}/history", None, ApiFacts()) == {"flow": "A->B", "kept": "", "summary": None}


def row(number: int, flow: str = "A->B", topic: str = "t") -> AuditRow:
    return AuditRow(
        at_ms=number,
        run="r",
        flow=flow,
        who="w",
        topic=topic,
        target=f"A.{topic}",
        change="set_config",
        name=str(number),
    )


@pytest.mark.parametrize(
    ("query", "names", "total"),
    [
        ("", ["3", "2", "1"], 3),
        ("?flow=A->C", ["2"], 1),
        ("?about=t", ["2", "1"], 2),
        ("?about=A.other", ["3"], 1),
        ("?offset=1&limit=1", ["2"], 3),
    ],
)
def test_the_audit_trail_is_newest_first(query: str, names: list[str], total: int) -> None:
    rows = (row(1), row(2, "A->C"), row(3, topic="other"))
    printed = b"".join(msgspec.json.encode(one) + b"\n" for one in rows)
    found = get(f"/api/v1/audit{query}", outcome(printed))
    assert ([one["name"] for one in found["rows"]], found["total"]) == (names, total)


def test_an_audit_trail_that_was_cut_off_is_refused() -> None:
    printed = msgspec.json.encode(row(1)) + b"\n" + msgspec.json.encode(row(2))[:-9]
    assert error(ask("GET", "/api/v1/audit", view=view_of(found=outcome(printed), facts=KEPT)))[0] == 409


def test_an_audit_trail_without_changes_is_empty() -> None:
    assert get("/api/v1/audit", outcome(b""))["rows"] == []
    assert get("/api/v1/audit", None, ApiFacts()) == {"kept": "", "total": 0, "rows": []}


def test_a_file_that_differs_shows_what_a_reload_changes() -> None:
    change = ChangeRow(flow="A->B", change="changed", key="A->B.topics", running="a", new="b", takes_effect="at once")
    found = get("/api/v1/plan", ConfigDifference(running="1", new="2", rows=(change,), refused=("no",)))
    assert (found["edited"], found["new"], found["refused"], found["error"]) == (True, "2", ["no"], "")
    assert found["changes"][0]["key"] == "A->B.topics"


def test_a_file_that_cannot_be_read_says_why() -> None:
    found = get("/api/v1/plan", "line 3: no such key")
    assert (found["error"], found["changes"], found["new"]) == ("line 3: no such key", [], "")


def test_a_reload_applies_what_was_looked_at() -> None:
    assert ask("POST", "/api/v1/reload", {"new": "77"}).deeds == (ApplyFile("77"),)
    assert error(ask("POST", "/api/v1/reload", {}))[0] == 400


def test_every_answer_that_a_command_makes_has_a_bound_of_its_own() -> None:
    made = [
        one for one in API_ROUTES if one.need in (ApiNeed.PREVIEW, ApiNeed.SYNC_PLAN, ApiNeed.HISTORY, ApiNeed.AUDIT)
    ]
    assert len(made) == 4
    assert all(one.is_large and one.within_s == 90.0 for one in made)


def test_a_view_has_found_nothing_by_itself() -> None:
    assert isinstance(view_of(), ApiView)
    assert view_of().found is None
