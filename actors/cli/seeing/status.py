"""`raymirror status`: shows the state of a running mirror; without one, what its targets hold."""

import argparse
import sys

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_config_argument, add_place_arguments, add_url_arguments, status_or_why
from actors.model.status import MirrorStatus
from actors.observability.colours import stdout_console
from actors.observability.conditions import FIGURES, Condition, parse_condition
from actors.observability.view import render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    add_url_arguments(parser)
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object with every partition")
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit code 1 if it holds in some flow, e.g. 'lag_seconds>60'; may be given several times;"
        f" figures: {', '.join(FIGURES)}",
    )


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoConfigGiven, BadCondition, ConfigError."""
    conditions = [parse_condition(text) for text in args.fail_if]
    status = status_or_why(args, lanes=args.json)
    if isinstance(status, str):
        from actors.cli.seeing.alone import status_alone  # imports Kafka's clients, slow and needed here only

        return status_alone(args, status)
    if args.json:
        print(msgspec.json.encode(status).decode())
    else:
        stdout_console().print(render(status))
    return verdict(status, conditions)


def verdict(status: MirrorStatus, conditions: list[Condition]) -> int:
    """Print on stderr which conditions hold, and return the exit code."""
    found = [sentence for condition in conditions for sentence in condition.holds_in(status)]
    for sentence in found:
        print(f"raymirror status: {sentence}", file=sys.stderr)
    return exits.FAILED if found else exits.OK
