"""`raymirror report`: lag, latency, throughput and breaches of a stretch of time as one HTML file."""

import argparse
import time
from pathlib import Path

from actors.cli import exits
from actors.cli.history import add_history_arguments, find_place, read_summary
from actors.instants import instant_ms

HELP = "write lag, latency, throughput and breaches of the last hours as an HTML page"
_OUTPUT = Path("raymirror-report.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("flow", nargs="?", metavar="FLOW", help="SOURCE->TARGET (quote it); default: every flow")
    parser.add_argument("--since", default="24h", metavar="TIME", help="30m, 24h, 7d ago, or an instant (24h)")
    parser.add_argument(
        "-o", "--output", type=Path, default=_OUTPUT, metavar="FILE", help=f"the page to write ({_OUTPUT})"
    )
    parser.add_argument("--mirror", metavar="NAME", help="name of the mirror, where several are running")
    add_history_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read and write. Raises NoHistory, BadInstant, ConfigError, OSError."""
    # Read what is needed only when a page is made: `raymirror --help` and `report --help` answer without it.
    from actors.report.page import MOST_TOPICS, page
    from engine.jobs.lag_summary import has_anything

    now_ms = time.time_ns() // 1_000_000
    since_ms = instant_ms(args.since, now_ms)
    place = find_place(args)
    summary = read_summary(place, since_ms, now_ms, args.flow, most_topics=MOST_TOPICS)
    part = args.output.with_name(f".{args.output.name}.part")
    part.write_text(page(summary, place.rpo_s, now_ms))
    part.replace(args.output)
    flows, topics, breaches = len(summary.topic_numbers), sum(summary.topic_numbers.values()), len(summary.breaches)
    print(f"{args.output}: flows: {flows:,}, topics: {topics:,}, breaches of an objective: {breaches:,}")
    return exits.OK if has_anything(summary) else exits.FAILED
