"""What the commands of looks have printed becomes an answer: typed, in parts, and refused if it is not whole."""

from typing import Any

import msgspec
import pytest

from actors.api.commands.answers import PAGE_POLICY
from actors.api.commands.look_words import CommandOutcome
from actors.api.commands.pages import DriftLine, PrintedDrift, RefusedFacts
from actors.api.view import ApiFacts
from engine.core.position.end_offsets import EndsRow, EndsVerdict
from engine.core.reports.move_progress import MoveProgress
from engine.core.reports.translated import Translated, TranslationRow
from tests.unit.actors.rest.rest_views import ask, error, shown, view_of
from tests.unit.actors.telemetry.statuses import NOW_MS

FLOW = "/api/v1/flows/A-%3EB"
KEPT = ApiFacts(storage="file:/kept")


def outcome(printed: object, code: int = 0, said: str = "") -> CommandOutcome:
    data = printed if isinstance(printed, bytes) else msgspec.json.encode(printed)
    return CommandOutcome(code=code, printed=data, said=said, took_seconds=1.5)


def get(path: str, found: Any, facts: ApiFacts = KEPT) -> Any:
    answer = ask("GET", path, view=view_of(found=found, facts=facts))
    assert answer.status == 200, shown(answer)
    return shown(answer)


def facts(offset: int, state: str = "held") -> RefusedFacts:
    return RefusedFacts(
        record=f"t-0@{offset}",
        state=state,
        topic="t",
        partition=0,
        offset=offset,
        topic_id="",
        target_topic="A.t",
        target_offset=-1,
        timestamp_ms=NOW_MS,
        error_code=10,
        error="too large",
        left_out_at_ms=NOW_MS,
        done_at_ms=-1,
        held=True,
        key_bytes=None,
        value_bytes=9,
        headers=1,
    )


def test_refused_records_come_in_parts_and_are_all_counted() -> None:
    records = [facts(1), facts(2, "skipped"), facts(3)]
    found = get(f"{FLOW}/quarantine?offset=1&limit=1", outcome({"flows": [{"flow": "A->B", "records": records}]}))
    assert (found["total"], found["states"], found["took_seconds"]) == (3, {"held": 2, "skipped": 1}, 1.5)
    assert [one["record"] for one in found["records"]] == ["t-0@2"]
    assert "contents" not in found["records"][0]


def test_contents_keep_nulls_text_and_bytes_apart() -> None:
    contents = {"key": None, "value": {"base64": "/w=="}, "headers": [{"name": {"text": "h"}, "value": {"text": ""}}]}
    record = {**msgspec.to_builtins(facts(1)), "contents": contents}
    (one,) = get(f"{FLOW}/quarantine/contents?record=t-0@1", outcome({"records": [record]}))["records"]
    assert one["contents"] == contents
    none = {**record, "contents": None}
    assert get(f"{FLOW}/quarantine/contents?topic=t", outcome({"records": [none]}))["records"][0]["contents"] is None


def test_a_translation_says_what_follows_from_it() -> None:
    rows = (
        TranslationRow(topic="t", partition=0, source_offset=5, target_offset=7, stored=7),
        TranslationRow(topic="u", partition=0, source_offset=5, target_offset=8, stored=-1),
    )
    one = Translated(flow="A->B", group="g", source_state="active", target_state="missing", rows=rows)
    found = get(f"{FLOW}/translation?group=g", outcome(one, code=1))
    assert (found["answered"], found["exact"], found["equal"]) == (True, True, False)
    assert msgspec.convert(found["translation"], Translated) == one


def test_moves_are_passed_on_also_if_a_group_went_back() -> None:
    progress = MoveProgress(flow="A->B", topics=(), groups=(), addresses={"A": "a:1"})
    assert msgspec.convert(get(f"{FLOW}/moves", outcome(progress, code=4))["progress"], MoveProgress) == progress


def test_ends_that_are_not_explained_come_first() -> None:
    one = EndsRow(topic="t", partition=0, target_topic="A.t", source_start=0, source_end=1)
    verdicts = (EndsVerdict.EQUAL, EndsVerdict.UNEXPLAINED, EndsVerdict.EXPLAINED, EndsVerdict.UNKNOWN)
    rows = [msgspec.structs.replace(one, partition=n, verdict=verdict) for n, verdict in enumerate(verdicts)]
    said = [{**msgspec.to_builtins(row), "fine": row.fine} for row in rows]
    printed = {"flows": [{"flow": "A->B", "partitions": said}]}
    found = get(f"{FLOW}/ends?limit=2", outcome(printed, code=1))
    assert ([one["partition"] for one in found["partitions"]], found["unexplained"], found["total"]) == ([1, 3], 2, 4)


def test_tables_and_drift_are_empty_where_nothing_is_kept_and_a_query_is_refused() -> None:
    assert get("/api/v1/tables", None, ApiFacts()) == {"kept": "", "tables": [], "unconverted": []}
    none = get("/api/v1/drift", None, ApiFacts())
    assert (none["kept"], none["lines"], none["compared"]) == ("", [], {})
    for path in ("/api/v1/sql?q=SELECT+1", "/api/v1/report"):
        status, message = error(ask("GET", path, view=view_of(facts=ApiFacts())))
        assert status == 409
        assert "raymirror.storage" in message


def test_rows_keep_their_types() -> None:
    columns = [{"name": "n", "type": "BIGINT"}, {"name": "s", "type": "VARCHAR"}]
    printed = {"columns": columns, "rows": [[1, None], [2, "x"]], "more": True}
    found = get("/api/v1/sql?q=SELECT+1", outcome(printed))
    assert {name: found[name] for name in printed} == printed


def test_drift_comes_in_parts_and_what_stands_is_counted_in_all_of_it() -> None:
    lines = tuple(
        DriftLine(
            seen_ms=n,
            after_ms=0,
            flow="A->B",
            topic="t",
            target="A.t",
            key="k",
            expected=None,
            found="1",
            outcome="waiting",
            settled_ms=None if n else 5,
            why="",
        )
        for n in range(3)
    )
    found = get("/api/v1/drift?offset=1", outcome(PrintedDrift(compared={"A->B": 7}, lines=lines), code=1))
    assert ([one["seen_ms"] for one in found["lines"]], found["stands"], found["total"]) == ([1, 2], 2, 3)
    assert (found["kept"], found["compared"]) == ("file:/kept", {"A->B": 7})


def test_a_report_is_a_page_on_which_nothing_runs() -> None:
    page = "<!doctype html><p>lag</p></html>\n"
    answer = ask("GET", "/api/v1/report", view=view_of(found=outcome(page.encode(), code=1), facts=KEPT))
    assert (answer.status, answer.body, answer.content_type) == (200, page, "text/html; charset=utf-8")
    assert ("Content-Security-Policy", PAGE_POLICY) in answer.headers
    assert PAGE_POLICY.endswith("sandbox")
    assert "script" not in PAGE_POLICY
    cut = ask("GET", "/api/v1/report", view=view_of(found=outcome(page[:20].encode()), facts=KEPT))
    assert error(cut)[0] == 409


@pytest.mark.parametrize(
    "path",
    [
        *(f"{FLOW}/{one}" for one in ("quarantine", "quarantine/contents", "translation", "moves", "ends")),
        *(f"/api/v1/{one}" for one in ("tables", "sql", "drift", "report")),
    ],
)
@pytest.mark.parametrize(
    ("found", "message"),
    [
        (outcome(b"", code=2, said="cluster B does not answer"), "cluster B does not answer"),
        (outcome(b"", code=-9), "The command ended with exit code -9 and said nothing"),
        (outcome(b'{"flows": [{'), "print"),
    ],
)
def test_a_command_that_fails_is_409_with_what_it_said(path: str, found: CommandOutcome, message: str) -> None:
    status, said = error(ask("GET", path, view=view_of(found=found, facts=KEPT)))
    assert status == 409
    assert message in said
