"""What `pause` and `resume` have in common."""

import argparse

from actors.cli import exits
from actors.cli.asking import running_mirror
from actors.states import Command


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command is about."""
    parser.add_argument("flow", nargs="?", metavar="FLOW", help="SOURCE->TARGET (quote it); default: every flow")
    parser.add_argument(
        "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all of the flow"
    )


def say(command: Command, args: argparse.Namespace) -> int:
    """Give the command to the running mirror."""
    with running_mirror(args) as (mirror, _):
        mirror.command(command, args.flow, tuple(args.topics))
    what = ", ".join(args.topics) or args.flow or "every flow"
    print(f"{command.value}: {what}")
    return exits.OK
