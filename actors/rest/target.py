"""Reads the target of a request: the parts of its path, decoded one by one, and its query; and what a query may have.

A name may hold characters that a path may not: `A->B.MirrorSourceConnector` arrives as `A-%3EB...` or `A%2D%3EB...`.
So a path is divided before it is decoded, and an encoded slash belongs to its part.

A parameter of a query has one owner, its `QueryParameter`: a route names it, handlers read the value with it, a value
that it does not permit is refused before anything is done, and the OpenAPI document has its schema.
"""

import re
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

import msgspec

from actors.rest.exchange import HttpCall, HttpRefusal

MOST_FIELDS = 64
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class HttpTarget(msgspec.Struct, frozen=True):
    """The parts of a path (of `/`: none), and the values of each name in the query."""

    path: tuple[str, ...]
    query: dict[str, tuple[str, ...]] = {}


def read_target(target: str) -> HttpTarget:
    """Read a target: origin form, or with a host before it as proxies send it. Raises HttpRefusal."""
    if not target.startswith("/"):
        target = _without_host(target)
    if not target.startswith("/") or _BAD_ESCAPE.search(target):
        raise HttpRefusal(400, "HTTP 400 Bad Request")
    path, _, query = target.partition("#")[0].partition("?")
    try:
        parts_of_path = tuple(unquote_to_bytes(part).decode() for part in path.split("/")[1:])
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:  # also UnicodeDecodeError
        raise HttpRefusal(400, "HTTP 400 Bad Request") from None
    parts_of_path = parts_of_path[:-1] if parts_of_path[-1] == "" else parts_of_path
    if "" in parts_of_path:  # Jetty refuses an empty part too: what it means is not certain
        raise HttpRefusal(400, "HTTP 400 Bad Request")
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return HttpTarget(parts_of_path, found)


def _without_host(target: str) -> str:
    """Return path and query of a target with a host; empty if it is none."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return ""
    return f"{parts.path or '/'}?{parts.query}" if parts.scheme in ("http", "https") else ""


class QueryParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A name of the query, what it means, and any text as its value. An empty value is none."""

    name: str
    meaning: str

    def given(self, call: HttpCall) -> str:
        """Return the value of a request, empty if it gives none."""
        return call.query.get(self.name, ("",))[0]

    def refuse_wrong(self, call: HttpCall) -> None:
        """Refuse values that are not permitted. Raises HttpRefusal (400)."""
        for given in filter(None, call.query.get(self.name, ())):
            if wrong := self.wrong(given):
                raise HttpRefusal(400, f"{self.name}={given} is {wrong}")

    def wrong(self, _given: str) -> str:
        """Say what is wrong with a value that is not permitted; empty for others: a text has only such."""
        return ""

    @property
    def schema(self) -> dict[str, Any]:
        """What the OpenAPI document says about its values."""
        return {"type": "string"}


class ChoiceParameter(QueryParameter, frozen=True, kw_only=True):
    """A name that takes one of some words; `usual` if a request gives none, which may be no word at all."""

    values: tuple[str, ...]
    usual: str = ""

    def read(self, call: HttpCall) -> str:
        """Return the word. Raises HttpRefusal (400)."""
        self.refuse_wrong(call)
        return self.given(call) or self.usual

    def wrong(self, given: str) -> str:
        """Say so of any other word."""
        return "" if given in self.values else f"unknown; it may be: {', '.join(self.values)}"

    @property
    def schema(self) -> dict[str, Any]:
        """What the OpenAPI document says about its values."""
        return {"type": "string", "enum": [*self.values], **({"default": self.usual} if self.usual else {})}


class FlagParameter(QueryParameter, frozen=True, kw_only=True):
    """A name that takes `true` or `false`, in letters of any case; false if a request gives none."""

    def read(self, call: HttpCall) -> bool:
        """Return whether it is set. Raises HttpRefusal (400)."""
        self.refuse_wrong(call)
        return call.flag(self.name)

    def wrong(self, given: str) -> str:
        """Say so of any other word."""
        return "" if given.strip().lower() in ("true", "false") else "unknown; it may be: true, false"

    @property
    def schema(self) -> dict[str, Any]:
        """What the OpenAPI document says about its values."""
        return {"type": "boolean", "default": False}


_HIGHEST: Final = 10**15 - 1


class CountParameter(QueryParameter, frozen=True, kw_only=True):
    """A name that takes a number from 0 to `most`; `usual` if a request gives none."""

    usual: int
    most: int = _HIGHEST

    def read(self, call: HttpCall) -> int:
        """Return the number. Raises HttpRefusal (400)."""
        self.refuse_wrong(call)
        return int(self.given(call) or self.usual)

    def wrong(self, given: str) -> str:
        """Say so of what is no such number."""
        if given.isascii() and given.isdecimal() and len(given) <= 15 and int(given) <= self.most:
            return ""
        return f"no number from 0{f' to {self.most:,}' if self.most != _HIGHEST else ''}"

    @property
    def schema(self) -> dict[str, Any]:
        """What the OpenAPI document says about its values."""
        return {"type": "integer", "minimum": 0, "maximum": self.most, "default": self.usual}
