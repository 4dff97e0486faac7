"""`raymirror resume`: copies again; partitions that had stopped on an error try again."""

import argparse

from actors.cli.common.command_args import add_scope_arguments, say_done
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, running_mirror
from actors.cli.common.questions import BadQuestion
from actors.model.states import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    parser.add_argument(
        "--forget-failover",
        action="store_true",
        help="resume a flow that was failed over; what applications wrote to the target is not copied back",
    )
    add_place_arguments(parser)
    add_url_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the command; copiers get it within about 1 s. Raises NoMirror, BadQuestion, and what `command` of a mirror
    raises: FailedOverFlow for a flow that was failed over.

    Exit code 1 if the target has not stored it yet.
    """
    if args.forget_failover and not args.flow:
        raise BadQuestion("--forget-failover needs a flow", "name it: raymirror resume 'A->B' --forget-failover")
    with running_mirror(args) as (mirror, _):
        if args.forget_failover:
            mirror.command(Command.FORGET, args.flow)
        status = mirror.command(Command.RESUME, args.flow, tuple(args.topics))
    return say_done(args, "resume", status)
