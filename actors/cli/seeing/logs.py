"""`raymirror logs`: shows what the mirror's processes on this machine have logged."""

import argparse
import os
import sys
import threading
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from actors.cli.common import exits
from actors.cli.common.flags import add_flow_argument
from actors.logging.log_files import LEVELS, LineFilter, LogLine, LogReader, find_logs, line_text
from actors.observability.instants import instant_ms
from engine.base.clock import wall_ms

POLL_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    parser.add_argument(
        "--level", choices=LEVELS, default="info", help="only lines of this level or a higher one (info)"
    )
    parser.add_argument("--since", metavar="TIME", help="30s, 10m, 2h or 1d ago, or an instant")
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="only the last N lines (200; 0: all)")
    parser.add_argument("--follow", action="store_true", help="continue with new lines until interrupted")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if there are several"
    )


def run(args: argparse.Namespace) -> int:
    """Print, and follow if asked to. Raises NoMirror, SeveralMirrors, BadInstant."""
    wanted = LineFilter(flow=args.flow, level=args.level, since=_since(args.since))
    logs = find_logs(args.mirror, os.environ)
    if logs.note:
        print(f"raymirror logs: {logs.note}", file=sys.stderr)
    reader = LogReader(logs.folder)
    found = [line for line in reader.read() if wanted.accepts(line)]
    _print(found[-args.lines :] if args.lines > 0 else found, json=args.json)
    while args.follow:
        threading.Event().wait(POLL_S)
        _print((line for line in reader.read() if wanted.accepts(line)), json=args.json)
    return exits.OK


def _since(text: str | None) -> str:
    if text is None:
        return ""
    at_ms = instant_ms(text, wall_ms())
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _print(lines: Iterable[LogLine], *, json: bool) -> None:
    for line in lines:
        print(msgspec.json.encode(line).decode() if json else line_text(line))
    sys.stdout.flush()
