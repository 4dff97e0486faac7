"""`raymirror demo`: two real clusters, real load, a live mirror, and a proof of its copy."""

import argparse
import time

from rich.console import Console

from actors.cli import exits

HELP = "two real clusters, a live mirror, a proof of the copy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--keep", action="store_true", help="keep the clusters' data and logs")


def run(args: argparse.Namespace) -> int:
    """Play the demo. Exit code 0 only if every partition is identical, 130 after Ctrl-C."""
    from actors.demo.play import play
    from actors.demo.stage import open_stage
    from actors.demo.table import total_line, verdict_table
    from actors.view import open_view

    began_at = time.monotonic()
    with open_view(json=False) as view, open_stage(view.say, args.keep) as stage:
        outcome = play(stage, view)
    Console().print(verdict_table(outcome))
    print(total_line(outcome, time.monotonic() - began_at))
    return exits.OK if outcome.is_whole else exits.FAILED
