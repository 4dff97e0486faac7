"""`raymirror resume`: copies again; partitions that had stopped on an error try again."""

import argparse

from actors.cli.common.command_args import add_scope_arguments, say_done
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, running_mirror
from actors.model.states import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    add_place_arguments(parser)
    add_url_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the command; copiers get it within about 1 s. Raises NoMirror, and what `command` of a mirror raises.

    Exit code 1 if the target has not stored it yet.
    """
    with running_mirror(args) as (mirror, _):
        status = mirror.command(Command.RESUME, args.flow, tuple(args.topics))
    return say_done(args, "resume", status)
