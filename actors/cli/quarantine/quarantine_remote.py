"""Asks a mirror behind `--url` for the refused records of its flows: the same as the target says."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.api.commands.pages import RefusedContents, RefusedContentsPage, RefusedOfFlow, RefusedPage
from actors.cli.common.remote_flows import flows_behind, one_flow_behind

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror


def remote_records(mirror: "HttpMirror", args: argparse.Namespace) -> tuple[RefusedOfFlow, ...]:
    """Return the records of a flow, or of all. Raises BadQuestion, MirrorLost, RequestRefused."""
    query, flows = (*_named(args), ("all", "true" if args.all else "")), flows_behind(mirror, args.flow)
    found = {name: mirror.pages("quarantine", RefusedPage, query, flow=name) for name in flows}
    return tuple(
        RefusedOfFlow(flow=name, records=tuple(row for page in pages for row in page.records))
        for name, pages in found.items()
    )


def remote_contents(mirror: "HttpMirror", args: argparse.Namespace) -> tuple[RefusedContents, ...]:
    """Return records with their contents. Raises BadQuestion, MirrorLost, RequestRefused."""
    flow = one_flow_behind(mirror, args.flow)
    return mirror.look("quarantine/contents", RefusedContentsPage, tuple(_named(args)), flow=flow).records


def _named(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    yield from (("topic", one) for one in args.topic or ())
    yield from (("record", one) for one in args.record or ())
