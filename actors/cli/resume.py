"""`raymirror resume`: copy again; partitions that had stopped on their own try again."""

import argparse

from actors.cli.asking import add_place_arguments
from actors.cli.commanding import add_scope_arguments, say
from actors.states import Command

HELP = "copy again after a pause; wakes partitions that had stopped on their own"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_scope_arguments(parser)
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Say it. Raises NoMirror, UnknownFlow, UnknownTopic, IllegalCommand."""
    return say(Command.RESUME, args)
