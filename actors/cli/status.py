"""`raymirror status`: how a running mirror is."""

import argparse

import msgspec
from rich.console import Console

from actors.cli import exits
from actors.cli.asking import add_place_arguments, running_mirror
from actors.view import render

HELP = "show how a running mirror is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_place_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, with every partition")


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoMirror."""
    with running_mirror(args) as (mirror, _):
        status = mirror.status(lanes=args.json)
    if args.json:
        print(msgspec.json.encode(status).decode())
    else:
        Console().print(render(status))
    return exits.OK
