"""Writes the tables of docs/grants.md between its marks: `make grants`. A test compares the page with this."""

from collections.abc import Iterator

from policies.grants.features import USES
from policies.grants.planning import GrantNeed, need_of
from policies.grants.requests import BY_NAME, REQUESTS
from policies.grants.rights import operation_name
from policies.keys.page import END, line, replaced

BEGIN = "<!-- written by policies/grants/page.py: {} -->"
_NEEDS = {GrantNeed.NEEDED: "yes", GrantNeed.OPTIONAL: "no", GrantNeed.COMMAND: "by the command"}


def features() -> Iterator[str]:
    """Yield the table of features: operations, resources, and what happens without."""
    yield "| Feature | Cluster | Operations | On | Needed | Without it |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for use in USES:
        operations = dict.fromkeys(one for name in use.requests for one in BY_NAME[name].on(use.group.kind))
        names = ", ".join(map(operation_name, operations))
        kind = use.group.kind.value
        resource = use.group.value if kind in use.group.value else f"{use.group.value} ({kind})"
        yield line(use.feature.value, use.side.value, names, resource, _NEEDS[need_of(use)], use.without)


def requests() -> Iterator[str]:
    """Yield the table of requests, each with what a broker asks for."""
    yield "| Request | API key | Rights | Remark |"
    yield "| --- | --- | --- | --- |"
    for one in REQUESTS:
        rights = ", ".join(f"{operation_name(operation)} on {kind.value}" for operation, kind in one.needs)
        yield line(one.name, str(one.api_key), rights or "none", one.remark)


PARTS = {"features": features, "requests": requests}


def written(page: str) -> str:
    """Return the page with its tables as this module writes them."""
    for name, lines in PARTS.items():
        page = replaced(page, BEGIN.format(name), END, lines())
    return page
