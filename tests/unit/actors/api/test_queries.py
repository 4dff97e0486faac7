"""Parameters of queries: what each route permits is read, refused and described by one owner."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from actors.api.partitions import SORT, STATE
from actors.api.queries import LIMIT, MOST, OFFSET, USUAL_LIMIT, part_of
from actors.api.table import API_ROUTES
from actors.rest.exchange import HttpCall, HttpRefusal
from actors.rest.openapi import describe
from actors.rest.routes import HttpRoute
from actors.rest.target import ChoiceParameter, CountParameter, FlagParameter, QueryParameter
from tests.unit.actors.rest.rest_views import ask, error

DOCUMENT = describe(API_ROUTES, "0.1.0")
KILL = FlagParameter(name="kill", meaning="")


def call(**query: str) -> HttpCall:
    return HttpCall(query={name: (value,) for name, value in query.items()})


def closed() -> Iterator[Any]:
    """Yield every route with each parameter of it that does not take any text."""
    for route in API_ROUTES:
        for one in route.query:
            if type(one) is not QueryParameter:
                yield pytest.param(route, one, id=f"{route.method} {route.template} {one.name}")


@pytest.mark.parametrize(("route", "parameter"), [*closed()])
def test_a_value_that_is_not_permitted_is_refused_by_its_name_with_those_that_are(
    route: HttpRoute, parameter: QueryParameter
) -> None:
    path = route.template.replace("{flow}", "A->B").replace("{run}", "r1")
    accept = {"accept": route.content_type}
    status, message = error(ask(route.method, f"{path}?{parameter.name}=typo", headers=accept))
    assert status == 400
    assert message.startswith(f"{parameter.name}=typo is ")
    match parameter:
        case ChoiceParameter(values=values):
            assert message.endswith(f"it may be: {', '.join(values)}")
        case FlagParameter():
            assert message.endswith("it may be: true, false")
        case _:
            assert "is no number from 0" in message


@pytest.mark.parametrize(("route", "parameter"), [*closed()])
def test_the_document_says_what_is_permitted(route: HttpRoute, parameter: QueryParameter) -> None:
    described = DOCUMENT["paths"][route.template][route.method.lower()]["parameters"]
    (schema,) = [one["schema"] for one in described if one["name"] == parameter.name and one["in"] == "query"]
    match parameter:
        case ChoiceParameter(values=values):
            assert schema["enum"] == [*values]
        case CountParameter(most=most, usual=usual):
            assert (schema["type"], schema["minimum"], schema["maximum"]) == ("integer", 0, most)
            assert schema["default"] == usual
        case _:
            assert schema == {"type": "boolean", "default": False}


def test_every_list_reads_its_limit_as_the_others_do() -> None:
    limits = {route.template: one for route in API_ROUTES for one in route.query if one.name == "limit"}
    assert len(limits) > 5
    for one in limits.values():
        assert isinstance(one, CountParameter)
        assert one.schema["minimum"] == 0
    assert {template for template, one in limits.items() if one is not LIMIT} == {"/api/v1/events"}


def test_a_part_is_read_with_its_defaults() -> None:
    assert (part_of(call()).offset, part_of(call()).limit) == (0, USUAL_LIMIT)
    assert part_of(call(offset="7", limit="0")).of(range(100)) == range(0)
    assert LIMIT.read(call(limit=str(MOST))) == MOST
    assert OFFSET.read(call(offset="9" * 15)) == 10**15 - 1
    for wrong in ("-1", "1.5", "٣", "9" * 16, " 1"):
        with pytest.raises(HttpRefusal):
            OFFSET.read(call(offset=wrong))


def test_a_word_is_one_of_those_or_the_usual_one() -> None:
    assert (SORT.read(call()), SORT.read(call(sort="")), SORT.read(call(sort="bytes"))) == ("name", "name", "bytes")
    assert STATE.read(call()) == "", "all states"
    with pytest.raises(HttpRefusal) as refused:
        STATE.read(call(state="Failed"))
    assert refused.value.status == 400


@pytest.mark.parametrize(("given", "expected"), [("true", True), ("TRUE", True), ("false", False), ("", False)])
def test_a_flag_is_true_or_false(given: str, expected: bool) -> None:
    assert KILL.read(call(kill=given)) is expected
    assert KILL.read(call()) is False
    with pytest.raises(HttpRefusal):
        KILL.read(call(kill="yes"))


def test_every_value_of_a_name_that_is_given_twice_is_looked_at() -> None:
    twice = msgspec.structs.replace(call(), query={"sort": ("name", "typo")})
    with pytest.raises(HttpRefusal):
        SORT.read(twice)


def test_a_query_of_connect_takes_any_text_as_connect_does() -> None:
    assert ask("GET", "/connectors?expand=typo").status == 200
