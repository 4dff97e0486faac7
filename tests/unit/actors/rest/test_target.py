"""Targets of requests: names of connectors in every spelling, trailing slashes, and what no client should send."""

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rest.exchange import HttpRefusal
from actors.rest.target import HttpTarget, read_target

NAME = "A->B.MirrorSourceConnector"
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    "spelling", [NAME, NAME.replace(">", "%3E"), NAME.replace("->", "%2D%3E"), NAME.replace("->", "%2d%3e")]
)
@pytest.mark.parametrize("slash", ["", "/"])
def test_every_spelling_of_a_name_is_the_name(spelling: str, slash: str) -> None:
    assert read_target(f"/connectors/{spelling}/status{slash}").path == ("connectors", NAME, "status")


@given(st.lists(names, max_size=5), st.booleans())
def test_an_encoded_path_is_read_back(parts: list[str], slash: bool) -> None:
    path = "/" + "/".join(quote(part, safe="") for part in parts) + ("/" if slash and parts else "")
    assert read_target(path).path == tuple(parts)


@given(st.dictionaries(names, st.lists(names, min_size=1, max_size=3), max_size=5))
def test_an_encoded_query_is_read_back(query: dict[str, list[str]]) -> None:
    pairs = [f"{quote(name, safe='')}={quote(value, safe='')}" for name, values in query.items() for value in values]
    assert read_target(f"/connectors?{'&'.join(pairs)}").query == {name: tuple(all_) for name, all_ in query.items()}


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_a_bad_request(text: str) -> None:
    with contextlib.suppress(HttpRefusal):  # any other error fails the test
        assert isinstance(read_target(text), HttpTarget)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", (), {}),
        ("/connectors", ("connectors",), {}),
        ("/a%2Fb/c", ("a/b", "c"), {}),
        ("/a+b", ("a+b",), {}),
        ("/..", ("..",), {}),
        ("/x?expand=info&expand=status", ("x",), {"expand": ("info", "status")}),
        ("/x?expand", ("x",), {"expand": ("",)}),
        ("/x?a=%2B+b", ("x",), {"a": ("+ b",)}),
        ("http://h:1/x/?a=b", ("x",), {"a": ("b",)}),
        ("https://h", (), {}),
    ],
)
def test_what_a_target_means(target: str, path: tuple[str, ...], query: dict[str, tuple[str, ...]]) -> None:
    assert read_target(target) == HttpTarget(path, query)


@pytest.mark.parametrize(
    "target",
    [
        "//",
        "/connectors//",
        "/connectors//status",
        "",
        "x",
        "*",
        "ftp://h/x",
        "http://[/x",
        "/%",
        "/%zz",
        "/%ff",
        "/x?a=%ff",
        "/x?" + "a=1&" * 65,
        "/x?%",
    ],
)
def test_what_is_no_target_is_a_bad_request(target: str) -> None:
    with pytest.raises(HttpRefusal) as refused:
        read_target(target)
    assert (refused.value.status, refused.value.message) == (400, "HTTP 400 Bad Request")
