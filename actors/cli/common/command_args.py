"""Flags and messages that `pause` and `resume` share."""

import argparse
import sys

from actors.cli.common import exits
from actors.cli.common.flags import add_flow_argument, add_json_argument, say
from actors.model.status import MirrorStatus


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    add_json_argument(parser)
    parser.add_argument(
        "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all topics of the flow"
    )


def scope_of(args: argparse.Namespace) -> str:
    """Name the scope of the command: its topics, its flow, or every flow."""
    return ", ".join(args.topics) or args.flow or "every flow"


def say_done(args: argparse.Namespace, command: str, status: MirrorStatus, **more: object) -> int:
    """Print what was done, with further facts for `--json`; return FAILED if the target has not stored it yet."""
    facts = {"flow": args.flow, "topics": args.topics, "done": True, "unremembered": status.unremembered, **more}
    say(args, f"{command}: {scope_of(args)}", command=command, **facts)
    return warn_unremembered(status)


def warn_unremembered(status: MirrorStatus, *, what: str = "it is done, but") -> int:
    """Name the flows whose wanted state the target has not stored yet; return the exit code.

    A restarted mirror would find their old state. `what` is the start of the printed sentence.
    """
    if not status.unremembered:
        return exits.OK
    print(
        f"{what} not remembered yet for {', '.join(status.unremembered)}: the target could not be written to;"
        " raymirror retries while the mirror runs, but if the mirror ends before, the next start does not know of it",
        file=sys.stderr,
    )
    return exits.FAILED
