"""The description of the routes: complete, without a loose end, and true to the answers."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from actors.http.table import ROUTES
from actors.rest.openapi import describe
from engine.core.position.end_offsets import EndsRow
from engine.core.reports.move_progress import MoveProgress
from engine.core.reports.translated import Translated, TranslationRow
from tests.unit.actors.api.commands.test_answers import facts as refused_record
from tests.unit.actors.api.test_looks import outcome, preview
from tests.unit.actors.rest.rest_views import SOURCE, ask, shown, view_of

DOCUMENT = describe(ROUTES, "0.1.0")


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from references(one)


def test_every_route_is_described_once() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.template) for route in ROUTES}
    assert len(ROUTES) == len(described)
    names = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) <= known
    assert "#/components/schemas/ErrorBody" in known


def test_every_operation_says_who_may_and_how_it_refuses() -> None:
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.template][route.method.lower()]
        assert bool(operation["security"]) is (route.role is not None)
        assert "default" in operation["responses"]
        assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == {
            part[1:-1] for part in route.parts if part.startswith("{")
        }
        assert ("requestBody" in operation) is (route.takes is not None)
        assert operation.get("x-raymirror-missing", False) is route.missing


def test_the_server_gives_this_document() -> None:
    assert ask("GET", "/openapi.json").encoded() == msgspec.json.encode(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1.")


FOUND = {
    "/api/v1/flows/{flow}/plan": outcome({"flows": [{"flow": "A->B", "topics": 3}]}),
    "/api/v1/flows/{flow}/failover-preview": outcome(preview(), code=4),
    "/api/v1/flows/{flow}/operations": outcome(
        {"operations": [{"id": "o1"}], "failovers": [], "failovers_unread": {}, "away": {"source": "no answer"}}
    ),
    "/api/v1/flows/{flow}/quarantine": outcome({"flows": [{"flow": "A->B", "records": [refused_record(1)]}]}),
    "/api/v1/flows/{flow}/quarantine/contents": outcome(
        {
            "records": [
                {
                    **msgspec.to_builtins(refused_record(1)),
                    "contents": {"key": None, "value": {"base64": "/w=="}, "headers": [{"name": None, "value": None}]},
                }
            ]
        }
    ),
    "/api/v1/flows/{flow}/translation": outcome(
        Translated(
            flow="A->B",
            group="g",
            source_state="active",
            target_state="missing",
            rows=(TranslationRow(topic="t", partition=0, source_offset=5),),
        ),
        code=1,
    ),
    "/api/v1/flows/{flow}/moves": outcome(MoveProgress(flow="A->B", topics=(), groups=()), code=4),
    "/api/v1/flows/{flow}/ends": outcome(
        {
            "flows": [
                {
                    "flow": "A->B",
                    "partitions": [EndsRow(topic="t", partition=0, target_topic="", source_start=0, source_end=1)],
                }
            ]
        },
        code=1,
    ),
    "/api/v1/sql": outcome({"columns": [{"name": "n", "type": "BIGINT"}], "rows": [[1], [None]], "more": False}),
    "/api/v1/report": outcome(b"<!doctype html></html>"),
}
"""What commands have printed."""


@pytest.mark.parametrize("route", [one for one in ROUTES if one.method == "GET"], ids=lambda route: route.template)
def test_answers_are_as_described(route: Any) -> None:
    target = route.template.replace("{connector}", SOURCE).replace("{task}", "0").replace("{flow}", "A->B")
    target = target.replace("{plugin}", "MirrorSourceConnector").replace("{logger}", "root").replace("{run}", "r1")
    answer = ask("GET", target, view=view_of(found=FOUND.get(route.template)))
    (content,) = DOCUMENT["paths"][route.template]["get"]["responses"]["200"]["content"].values()
    body = shown(answer) if answer.content_type == "application/json" else answer.encoded().decode()
    schema = content.get("schema", {}) | {"components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(body)


def test_a_stream_says_that_it_does_not_end() -> None:
    streams = [path for path, some in DOCUMENT["paths"].items() if some.get("get", {}).get("x-raymirror-stream")]
    assert streams == ["/api/v1/stream"]
    content = DOCUMENT["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"]
    assert content == {"text/event-stream": {}}, "OpenAPI 3.1 has no schema of one event"


def test_the_typed_interface_has_types() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert {"MirrorPage", "FlowSummary", "PartitionPage", "LagRow", "FailoverPreview", "DrPreview"} <= schemas.keys()
    body = DOCUMENT["paths"]["/api/v1/flows/{flow}/pause"]["post"]["requestBody"]
    assert body["required"] is False
    assert DOCUMENT["paths"]["/api/v1/reload"]["post"]["requestBody"]["required"] is True
