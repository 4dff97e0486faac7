"""What `pause` and `resume` have in common."""

import argparse
import sys

from actors.cli import exits
from actors.cli.asking import running_mirror
from actors.states import Command
from actors.status import MirrorStatus


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command is about."""
    parser.add_argument("flow", nargs="?", metavar="FLOW", help="SOURCE->TARGET (quote it); default: every flow")
    parser.add_argument(
        "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all of the flow"
    )


def say(command: Command, args: argparse.Namespace) -> int:
    """Give the command to the running mirror. Exit code 1 if it is done, and not written down yet."""
    with running_mirror(args) as (mirror, _):
        status = mirror.command(command, args.flow, tuple(args.topics))
    what = ", ".join(args.topics) or args.flow or "every flow"
    print(f"{command.value}: {what}")
    return warn_unremembered(status)


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
