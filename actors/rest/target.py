"""Reads the target of a request: the parts of its path, decoded one by one, and its query.

A name may hold characters that a path may not: `A->B.MirrorSourceConnector` arrives as `A-%3EB...` or `A%2D%3EB...`.
So a path is divided before it is decoded, and an encoded slash belongs to its part.
"""

import re
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

import msgspec

from actors.rest.exchange import HttpRefusal

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
