"""What `pause` and `resume` have in common."""

import argparse
import sys

from actors.cli import exits
from actors.cli.flags import add_flow_argument, add_json_argument, say
from actors.status import MirrorStatus


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command is about."""
    add_flow_argument(parser)
    add_json_argument(parser)
    parser.add_argument(
        "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all of the flow"
    )


def scope_of(args: argparse.Namespace) -> str:
    """Say what the command is about."""
    return ", ".join(args.topics) or args.flow or "every flow"


def say_done(args: argparse.Namespace, command: str, status: MirrorStatus) -> int:
    """Say what was done; the exit code, by whether it is remembered."""
    facts = {"flow": args.flow, "topics": args.topics, "done": True, "unremembered": status.unremembered}
    say(args, f"{command}: {scope_of(args)}", command=command, **facts)
    return warn_unremembered(status)


def warn_unremembered(status: MirrorStatus, *, what: str = "it is done, but") -> int:
    """Say which flows a mirror that is started anew would find otherwise than they were asked to be; the exit code.

    `what` is not remembered begins the sentence.
    """
    if not status.unremembered:
        return exits.OK
    print(
        f"{what} not remembered yet for {', '.join(status.unremembered)}: the target could not be written to;"
        " while the mirror runs it is tried again, but if it ends before, the next start does not know of it",
        file=sys.stderr,
    )
    return exits.FAILED
