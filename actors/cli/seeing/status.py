"""`raymirror status`: how a running mirror is; without one, what its targets hold."""

import argparse
import sys

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import (
    add_config_argument,
    add_place_arguments,
    is_of_others,
    running_mirror,
    why_none,
)
from actors.local.session import NoMirror
from actors.model.status import MirrorStatus
from actors.observability.colours import stdout_console
from actors.observability.conditions import FIGURES, Condition, parse_condition
from actors.observability.view import render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    add_config_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object, with every partition")
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit code 1 if it holds in some flow, e.g. 'lag_seconds>60'; may be given several times;"
        f" of {', '.join(FIGURES)}",
    )


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoConfigGiven, BadCondition, ConfigError."""
    conditions = [parse_condition(text) for text in args.fail_if]
    try:
        with running_mirror(args) as (mirror, _):
            status = mirror.status(lanes=args.json)
    except NoMirror as none:
        return without_mirror(args, why_none(args, none))
    if why := is_of_others(args, status):
        return without_mirror(args, why)
    if args.json:
        print(msgspec.json.encode(status).decode())
    else:
        stdout_console().print(render(status))
    return verdict(status, conditions)


def without_mirror(args: argparse.Namespace, why: str) -> int:
    """Ask the targets. Raises ConfigError."""
    from actors.cli.seeing.alone import status_alone  # Kafka's clients: heavy, and needed here only

    return status_alone(args, why)


def verdict(status: MirrorStatus, conditions: list[Condition]) -> int:
    """Say on stderr which conditions hold, and give the exit code."""
    found = [sentence for condition in conditions for sentence in condition.holds_in(status)]
    for sentence in found:
        print(f"raymirror status: {sentence}", file=sys.stderr)
    return exits.FAILED if found else exits.OK
