"""`raymirror help [COMMAND]`: the same as `raymirror COMMAND --help`."""

import argparse

from actors.cli.common import exits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="default: list all commands")


def run(args: argparse.Namespace) -> int:
    """Print the help. An unknown command ends with exit code 2."""
    from actors.cli.main import build_parser  # here, because `main` imports this module

    build_parser(args.command[0] if args.command else None).parse_args([*args.command, "--help"])
    return exits.OK
