"""The tables of all routes. The server, the tests and the OpenAPI document are made of them."""

import functools
from typing import Any, Final

import msgspec

from actors.api.table import API_ROUTES
from actors.console.table import CONSOLE_ROUTES
from actors.rest.exchange import HttpAnswer, HttpCall
from actors.rest.openapi import describe
from actors.rest.routes import HttpRoute
from actors.rest.table import CONNECT_ROUTES
from actors.rest.view import MirrorView


def _openapi(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    return HttpAnswer(body=_document(view.version))


@functools.cache
def _document(version: str) -> msgspec.Raw:
    """Return the description as JSON, made once: that takes as long as many other answers."""
    return msgspec.Raw(msgspec.json.encode(describe(ROUTES, version)))


ROUTES: Final[tuple[HttpRoute, ...]] = (
    *CONNECT_ROUTES,
    *API_ROUTES,
    HttpRoute(
        method="GET",
        template="/openapi.json",
        summary="This description, OpenAPI 3.1",
        handler=_openapi,
        gives={200: dict[str, Any]},
        tag="raymirror",
    ),
)

ALL_ROUTES: Final = (*ROUTES, *CONSOLE_ROUTES)
"""Also those of the console's page, which are for nobody else: the OpenAPI document does not have them."""
