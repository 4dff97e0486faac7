"""`raymirror restart FLOW`: replaces the copiers of a flow one by one, while the others continue to copy."""

import argparse

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, running_mirror
from actors.cli.common.flags import add_json_argument, add_needed_flow_argument, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_needed_flow_argument(parser)
    add_json_argument(parser)
    add_place_arguments(parser)
    add_url_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the command. Raises NoMirror, UnknownFlow."""
    with running_mirror(args) as (mirror, _):
        mirror.restart(args.flow)
    say(args, f"restart: {args.flow}; follow it with: raymirror status", command="restart", flow=args.flow)
    return exits.OK
