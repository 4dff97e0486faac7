"""`raymirror resume`: copy again; partitions that had stopped on their own try again."""

import argparse

from actors.cli.common.command_args import add_scope_arguments, say_done
from actors.cli.common.connect_args import add_place_arguments, running_mirror
from actors.model.states import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Say it; copiers hear of it within a second or so. Raises NoMirror, and what `command` of a mirror raises.

    Exit code 1 if it is not written down yet.
    """
    with running_mirror(args) as (mirror, _):
        status = mirror.command(Command.RESUME, args.flow, tuple(args.topics))
    return say_done(args, "resume", status)
