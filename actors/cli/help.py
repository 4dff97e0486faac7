"""`raymirror help [COMMAND]`: the same as `raymirror COMMAND --help`."""

import argparse

from actors.cli.common import exits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="default: all commands, in a line each")


def run(args: argparse.Namespace) -> int:
    """Print the help. A word that is no command ends with exit code 2."""
    from actors.cli.main import build_parser  # which imports this module by name

    build_parser(args.command[0] if args.command else None).parse_args([*args.command, "--help"])
    return exits.OK
