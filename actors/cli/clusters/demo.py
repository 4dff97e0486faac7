"""`raymirror demo`: starts two real clusters, real load and a live mirror, and proves its copy."""

import argparse
import sys
import time

from actors.cli.common import exits
from actors.cli.common.flags import add_json_argument, say_facts
from actors.observability.colours import stdout_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="keep the clusters' data and logs")
    add_json_argument(parser, "print one JSON object with every partition; the progress goes to standard error")


def run(args: argparse.Namespace) -> int:
    """Run the demo. Exit code 0 only if every partition is identical, 130 after Ctrl-C."""
    from actors.demo.play import play
    from actors.demo.stage import open_stage
    from actors.demo.table import total_line, verdict_table
    from actors.observability.view import open_view

    began_at = time.monotonic()
    out = sys.stderr if args.json else sys.stdout
    with open_view(json=False, out=out) as view, open_stage(view, args.keep) as stage:
        outcome = play(stage, view)
    if args.json:
        say_facts(args, whole=outcome.is_whole, partitions=outcome.verdicts, copy_s=outcome.copy_s)
    else:
        stdout_console().print(verdict_table(outcome))
        print(total_line(outcome, time.monotonic() - began_at))
    return exits.OK if outcome.is_whole else exits.FAILED
