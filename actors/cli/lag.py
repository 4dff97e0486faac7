"""`raymirror lag`: how far behind every partition is, and why it is not moving."""

import argparse
import sys

import msgspec
from rich.console import Console
from rich.table import Table

from actors.cli import exits
from actors.cli.asking import add_place_arguments, running_mirror
from actors.lagging import LagRow, bytes_text, lag_rows, seconds_text
from actors.supervisor import UnknownFlow

HELP = "show how far behind every partition is, and why it is not moving"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("flow", nargs="?", metavar="FLOW", help="SOURCE->TARGET (quote it); default: every flow")
    parser.add_argument("--topic", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all")
    parser.add_argument("--behind", action="store_true", help="only partitions that are behind, or do not move")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoMirror, UnknownFlow."""
    with running_mirror(args) as (mirror, _):
        status = mirror.status(lanes=True)
    names = tuple(flow.flow for flow in status.flows)
    if args.flow is not None and args.flow not in names:
        raise UnknownFlow(args.flow, names)
    rows = lag_rows(status, args.flow, args.topic)
    if args.behind:
        rows = [row for row in rows if row.why or row.lag_records != 0]
    if args.json:
        print(msgspec.json.encode({"at_ms": status.at_ms, "partitions": rows}).decode())
    else:
        # A pipe has no width: nothing is cut off or wrapped there.
        Console(width=None if sys.stdout.isatty() else 400).print(table(rows))
    return exits.OK


def table(rows: list[LagRow]) -> Table:
    """Draw the partitions."""
    drawn = Table(box=None, pad_edge=False)
    for name in ("flow", "partition"):
        drawn.add_column(name, no_wrap=True)
    for name in ("records", "bytes", "behind"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for name in ("state", "owner", "why it is not moving"):
        drawn.add_column(name)
    for row in rows:
        drawn.add_row(
            row.flow,
            f"{row.topic}-{row.partition}",
            "-" if row.lag_records is None else f"{row.lag_records:,}",
            bytes_text(row.lag_bytes),
            seconds_text(row.lag_seconds),
            row.state,
            row.owner or "-",
            row.why,
        )
    return drawn
