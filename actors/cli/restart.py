"""`raymirror restart FLOW`: replace the copiers of a flow, one by one, while the others copy on."""

import argparse

from actors.cli import exits
from actors.cli.asking import add_place_arguments, running_mirror

HELP = "replace the copiers of a flow, one by one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("flow", metavar="FLOW", help="SOURCE->TARGET (quote it)")
    add_place_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Say it. Raises NoMirror, UnknownFlow."""
    with running_mirror(args) as (mirror, _):
        mirror.restart(args.flow)
    print(f"restart: {args.flow}; follow it with: raymirror status")
    return exits.OK
