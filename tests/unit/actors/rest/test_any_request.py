"""Any request is answered, and never with 500: whatever its path, query, headers and body are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.http.table import ROUTES
from actors.model.states import Desired
from actors.rest.routes import HttpRoute
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, SOURCE, ask, status_with, view_of

NAMES = st.sampled_from(
    [
        SOURCE,
        CHECKPOINT,
        HEARTBEAT,
        "A->B",
        "x",
        "%",
        "%ff",
        "%2f",
        "..",
        "a%0Ab",
        "0",
        "-1",
        "9" * 30,
        "root",
        "raymirror",
    ]
)
WORDS = st.sampled_from(
    [
        "name",
        "changes",
        "copiers",
        "config",
        "connector.class",
        "topics",
        "tasks.max",
        "offsets",
        "partition",
        "offset",
        "cluster",
        "topic",
        "level",
        "enabled",
    ]
)
VALUES = st.sampled_from(
    [None, True, 0, -1, 2**63, 1.5, "", "x", "\x00", SOURCE, "MirrorSourceConnector", "A", "t", "INFO", "STOPPED"]
)
LISTS = st.lists(VALUES | st.dictionaries(WORDS, VALUES | st.dictionaries(WORDS, VALUES, max_size=3)), max_size=2)
BODIES = VALUES | LISTS | st.dictionaries(WORDS, VALUES | LISTS, max_size=4) | st.binary(max_size=8)
HEADERS = st.dictionaries(
    st.sampled_from(["accept", "content-type", "origin", "authorization", "sec-fetch-site", "host"]),
    st.sampled_from(["", "*/*", "application/json", "text/html;q=0", "Basic !", "Bearer", "http://[", "[", "x"]),
    max_size=2,
)
QUERIES = st.sampled_from(
    [
        *("", "?", "?expand=info&expand=status", "?includeTasks=TRUE", "?onlyFailed=+1", "?a=%zz", "?limit=x"),
        *("?limit=1&offset=9&sort=bytes", "?since=1d&state=behind", "?since=999999999d", "?partitions=true"),
    ]
)
VIEWS = {desired: view_of(status_with(desired=desired)) for desired in Desired}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.template}")
@given(NAMES, BODIES, HEADERS, QUERIES, st.sampled_from(Desired))
def test_any_request_is_answered(
    route: HttpRoute, name: str, body: Any, headers: dict[str, str], query: str, desired: Desired
) -> None:
    target = "/".join(name if part.startswith("{") else part for part in route.template.split("/"))
    answer = ask(route.method, target + query, body, view=VIEWS[desired], headers=headers)
    assert answer.status < 500 or answer.status == 501
    answer.encoded()
