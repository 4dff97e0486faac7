"""`raymirror report`: writes lag, latency, throughput and RPO breaches of a span of time to one HTML file."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import add_flow_argument, add_json_argument, say
from actors.cli.seeing.history import add_history_arguments, find_place, read_summary, remote_summary
from actors.observability.instants import clock_text, instant_ms
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from policies.words import counted

if TYPE_CHECKING:
    from engine.jobs.lag.summary import Summary

_OUTPUT = Path("raymirror-report.html")
_PRINTED = Path("-")


class PageNotWritten(MirrorError):
    """The page cannot be written to the given file."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"{self.path} cannot be written ({self.why}); give a file in a folder that exists: -o FILE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    add_json_argument(parser)
    parser.add_argument("--since", default="24h", metavar="TIME", help="30m, 24h, 7d ago, or an instant (24h)")
    parser.add_argument(
        "-o", "--output", type=Path, default=_OUTPUT, metavar="FILE", help=f"the page to write ({_OUTPUT}); -: print it"
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_history_arguments(parser)
    add_url_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read and write.

    Raises NoHistory, BadInstant, ConfigError, PageNotWritten; with `--url` MirrorLost, and what `remote_mirror` raises.
    """
    # Slow to import, and `report --help` needs none of it.
    from actors.report.page import MOST_TOPICS, page

    now_ms = wall_ms()
    since_ms, remote = instant_ms(args.since, now_ms), remote_mirror(args)
    if remote is not None:
        summary = remote_summary(remote, args.flow, since_ms, MOST_TOPICS)
        text = remote.page("report", (("since", str(since_ms)), ("flow", args.flow or "")))
        return _told(args, summary, text, since_ms)
    place = find_place(args)
    summary = read_summary(place, since_ms, now_ms, args.flow, most_topics=MOST_TOPICS)
    return _told(args, summary, page(summary, place.rpo_s, now_ms), since_ms)


def _told(args: argparse.Namespace, summary: "Summary", text: str, since_ms: int) -> int:
    from engine.jobs.lag.summary import has_anything

    if args.output == _PRINTED:
        sys.stdout.write(text)
    else:
        write(args.output, text)
        _tell(args, summary)
    if has_anything(summary):
        return exits.OK
    what = args.flow or "any flow"
    print(f"the history has no data of {what} since {clock_text(since_ms)}; try an earlier --since", file=sys.stderr)
    return exits.FAILED


def _tell(args: argparse.Namespace, summary: "Summary") -> None:
    flows, topics, breaches = len(summary.topic_numbers), sum(summary.topic_numbers.values()), len(summary.breaches)
    say(
        args,
        f"{args.output}: {counted(flows, 'flow')}, {counted(topics, 'topic')}, breaches of an objective: {breaches:,}",
        output=str(args.output),
        flows=flows,
        topics=topics,
        breaches=breaches,
    )


def write(path: Path, text: str) -> None:
    """Write a file atomically. Raises PageNotWritten."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PageNotWritten(path, error.strerror or str(error)) from None
