"""Looks at records, groups, ends, tables and drift: which command runs, and that no value is read as an option."""

from typing import Any

import pytest

from actors.api.commands.look_words import LOOKS, MOST_QUERY, words_of
from actors.api.queries import MOST_WORD, MOST_WORDS
from actors.api.table import API_ROUTES
from actors.api.view import ApiFacts, ApiNeed
from actors.cli.main import build_parser
from actors.rest.exchange import HttpCall, HttpRefusal
from policies.roles import Role
from tests.unit.actors.rest.rest_views import view_of
from tests.unit.actors.telemetry.statuses import NOW_MS

PATH = "/etc/mm2.properties"
SINCE = "2027-01-15T08:00:00+00:00"
KEPT = ApiFacts(storage="file:/kept")
OF_STORAGE = (ApiNeed.TABLES, ApiNeed.SQL, ApiNeed.DRIFT, ApiNeed.REPORT)
OF_FLOW = (ApiNeed.REFUSED, ApiNeed.CONTENTS, ApiNeed.TRANSLATION, ApiNeed.MOVES, ApiNeed.ENDS)
NASTY = ("--apply", "--all", "-x", "--config=/etc/passwd", "a b", "'", "A->B")


def words(need: ApiNeed, flow: str = "A->B", facts: ApiFacts = KEPT, **query: str | tuple[str, ...]) -> tuple[str, ...]:
    path = {"flow": flow} if need in OF_FLOW else {}
    values = {name: (value,) if isinstance(value, str) else value for name, value in query.items()}
    return words_of(need, HttpCall(path=path, query=values), view_of(facts=facts))


def test_the_command_is_the_one_of_the_command_line() -> None:
    behind = ("--flow=A->B", "--json", "--", PATH)
    assert words(ApiNeed.REFUSED) == ("quarantine", "list", *behind)
    assert words(ApiNeed.REFUSED, all="true", topic=("a", "b"), record="t-0@1") == (
        *("quarantine", "list", "--all", "--topic=a", "--topic=b", "--record=t-0@1"),
        *behind,
    )
    assert words(ApiNeed.CONTENTS, record="t-0@1") == ("quarantine", "show", "--record=t-0@1", *behind)
    assert words(ApiNeed.TRANSLATION, group="g") == ("translate", "--flow=A->B", "--json", "--", "g", PATH)
    assert words(ApiNeed.MOVES) == ("move", "--list", "--flow=A->B", "--config", PATH, "--json")
    assert words(ApiNeed.ENDS, topic="t") == ("compare-ends", "--topic=t", *behind)
    assert words(ApiNeed.TABLES) == ("tables", "--config", PATH, "--json")
    assert words(ApiNeed.SQL, q="SELECT 1", limit="5") == (
        *("sql", "--page", "--rows=5", "--config", PATH, "--", "SELECT 1"),
    )
    assert words(ApiNeed.DRIFT, flow="A->B", since=str(NOW_MS), topic="x.*") == (
        *("drift", f"--since={SINCE}", "--topic=x.*", "--page", "--config", PATH),
    )
    assert words(ApiNeed.REPORT, since=str(NOW_MS)) == (
        *("report", f"--since={SINCE}", "--output=-", "--config", PATH),
    )


def test_a_flow_of_a_query_must_be_there() -> None:
    for need in (ApiNeed.DRIFT, ApiNeed.REPORT):
        call = HttpCall(query={"flow": ("A->B",)})
        assert "--flow=A->B" in words_of(need, call, view_of(facts=KEPT))
        with pytest.raises(HttpRefusal) as refused:
            words_of(need, HttpCall(query={"flow": ("--storage=/x",)}), view_of(facts=KEPT))
        assert refused.value.status == 404


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_never_an_option_of_the_command(value: str) -> None:
    asked: dict[ApiNeed, dict[str, Any]] = {
        ApiNeed.REFUSED: {"topic": value, "record": value},
        ApiNeed.CONTENTS: {"topic": value, "record": value},
        ApiNeed.TRANSLATION: {"group": value},
        ApiNeed.MOVES: {},
        ApiNeed.ENDS: {"topic": value},
        ApiNeed.TABLES: {},
        ApiNeed.SQL: {"q": value},
        ApiNeed.DRIFT: {"topic": value},
        ApiNeed.REPORT: {},
    }
    assert asked.keys() == {*OF_STORAGE, *OF_FLOW}
    for need, query in asked.items():
        parts = words(need, **query)
        args, extra = build_parser(parts[0]).parse_known_args(parts)
        assert extra == []
        assert str(args.config) == PATH
        assert not any(getattr(args, name, None) for name in ("apply", "all", "backwards", "storage", "undo"))
        given = [getattr(args, name, None) for name in ("topic", "record", "group", "query")]
        assert all(one in (None, value, [value]) for one in given)


@pytest.mark.parametrize("need", OF_STORAGE)
def test_nothing_runs_where_nothing_is_kept(need: ApiNeed) -> None:
    assert words(need, facts=ApiFacts(), q="SELECT 1") == ()


@pytest.mark.parametrize("need", OF_FLOW)
def test_nothing_runs_for_a_flow_that_is_not_there(need: ApiNeed) -> None:
    with pytest.raises(HttpRefusal) as refused:
        words(need, flow="--config=/etc/passwd", group="g", record="t-0@1")
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("need", "query"),
    [
        (ApiNeed.CONTENTS, {}),
        (ApiNeed.CONTENTS, {"record": "a\0b"}),
        (ApiNeed.TRANSLATION, {}),
        (ApiNeed.TRANSLATION, {"group": "a\nb"}),
        (ApiNeed.TRANSLATION, {"group": "--"}),
        (ApiNeed.SQL, {"q": "--"}),
        (ApiNeed.TRANSLATION, {"group": "x" * (MOST_WORD + 1)}),
        (ApiNeed.ENDS, {"topic": ("t",) * (MOST_WORDS + 1)}),
        (ApiNeed.ENDS, {"limit": "1001"}),
        (ApiNeed.REFUSED, {"offset": "-1"}),
        (ApiNeed.SQL, {}),
        (ApiNeed.SQL, {"q": " \n"}),
        (ApiNeed.SQL, {"q": "SELECT '\0'"}),
        (ApiNeed.SQL, {"q": "SELECT 1", "limit": "1001"}),
        (ApiNeed.SQL, {"q": "SELECT " + "1" * MOST_QUERY}),
        (ApiNeed.DRIFT, {"since": "x"}),
        (ApiNeed.REPORT, {"since": "999999999999999"}),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(need: ApiNeed, query: dict[str, Any]) -> None:
    with pytest.raises(HttpRefusal) as refused:
        words(need, **query)
    assert refused.value.status == 400


def test_every_look_has_a_bound_of_its_own_and_only_contents_need_more_than_the_role_view() -> None:
    made = {one.need: one for one in API_ROUTES if one.need in LOOKS and one.method == "GET"}
    assert made.keys() == LOOKS.keys() - {ApiNeed.OPEN_OPERATION}
    assert all(one.is_large and one.within_s == 90.0 for one in made.values())
    assert {need for need, one in made.items() if one.role is not Role.VIEW} == {ApiNeed.CONTENTS}
    assert made[ApiNeed.CONTENTS].role is Role.OPERATE
