"""Describes the routes as an OpenAPI 3.1 document."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actors.rest.exchange import EVENT_STREAM, JSON, ErrorBody
from actors.rest.routes import HttpRoute
from actors.rest.target import QueryParameter

_REASONS = {200: "done", 201: "created", 202: "accepted", 204: "done, nothing to say"}
_REF = "#/components/schemas/{name}"


def describe(routes: Sequence[HttpRoute], version: str) -> dict[str, Any]:
    """Return the document; `version` is raymirror's."""
    types = [ErrorBody, *_types(routes)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "raymirror", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _types(routes: Sequence[HttpRoute]) -> list[Any]:
    """Return every type of a body once."""
    all_types = [kind for route in routes for kind in (route.takes, *route.gives.values()) if kind is not None]
    return list({repr(kind): kind for kind in all_types if kind is not ErrorBody}.values())


def _operation(route: HttpRoute, by_type: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _name_of(route),
        "tags": [route.tag],
        "parameters": [*map(_variable, _variables(route)), *map(_query, route.query)],
        "responses": {str(status): _response(route, status, kind, by_type) for status, kind in route.gives.items()},
        "security": [{"basic": []}, {"bearer": []}] if route.role is not None else [],
    }
    refusal = {"schema": by_type[repr(ErrorBody)]}
    operation["responses"]["default"] = {"description": "refused", "content": {JSON: refusal}}
    if route.role is not None:
        operation["description"] = f"Needs the role `{route.role}`."
    if route.takes is not None:
        operation["requestBody"] = {
            "required": route.needs_body,
            "content": {JSON: {"schema": by_type[repr(route.takes)]}},
        }
    if route.content_type == EVENT_STREAM:
        operation["x-raymirror-stream"] = True  # it does not end by itself
    if route.missing:
        operation["x-raymirror-missing"] = True
    return operation


def _name_of(route: HttpRoute) -> str:
    words = [part.strip("{}").replace(".", "-") for part in route.parts]
    return "-".join([route.method.lower(), *words])


def _variables(route: HttpRoute) -> list[str]:
    return [part[1:-1] for part in route.parts if part.startswith("{")]


def _variable(name: str) -> dict[str, Any]:
    kind = "integer" if name == "task" else "string"
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _query(one: QueryParameter) -> dict[str, Any]:
    return {"name": one.name, "in": "query", "description": one.meaning, "schema": one.schema}


def _response(route: HttpRoute, status: int, kind: Any, by_type: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": _REASONS[status]}
    if kind is not None:
        is_stream = route.content_type == EVENT_STREAM  # OpenAPI 3.1 has no schema of one event
        found["content"] = {route.content_type: {} if is_stream else {"schema": by_type[repr(kind)]}}
    return found
