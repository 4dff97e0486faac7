"""What `pause` and `resume` have in common."""

import argparse
import sys

from actors.cli import exits
from actors.status import MirrorStatus


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command is about."""
    parser.add_argument("flow", nargs="?", metavar="FLOW", help="SOURCE->TARGET (quote it); default: every flow")
    parser.add_argument(
        "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all of the flow"
    )


def scope_of(args: argparse.Namespace) -> str:
    """Say what the command is about."""
    return ", ".join(args.topics) or args.flow or "every flow"


def warn_unremembered(status: MirrorStatus) -> int:
    """Say which flows a mirror that is started anew would find otherwise than they were asked to be; the exit code."""
    if not status.unremembered:
        return exits.OK
    print(
        f"it is done, but not remembered yet for {', '.join(status.unremembered)}: the target could not be written to;"
        " while the mirror runs it is tried again, but if it ends before, the next start does not know of it",
        file=sys.stderr,
    )
    return exits.FAILED
