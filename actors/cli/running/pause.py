"""`raymirror pause`: stops fetching, finishes what is in flight, and reports when that is done."""

import argparse
import sys

from actors.cli.common import exits
from actors.cli.common.command_args import add_scope_arguments, say_done, scope_of, warn_unremembered
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, running_mirror
from actors.cli.common.flags import say_facts
from actors.cli.common.quiesce import at_work, comes_to_rest
from actors.model.states import Command
from actors.model.status import MirrorStatus
from engine.core.reports.progress import LaneProgress

LONG_S = 2.0
"""Seconds after which a pause prints what it waits for."""
NAMED = 5
"""Most partitions that a message names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    add_place_arguments(parser)
    add_url_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait until copying has stopped and everything copied is committed (default: 30; 0: do not"
        " wait)",
    )


def run(args: argparse.Namespace) -> int:
    """Send the command and wait until it is done. Raises NoMirror, and what `command` of a mirror raises.

    Exit code 1 if something is still being copied, or if the target has not stored the pause yet.
    """
    topics = tuple(args.topics)
    with running_mirror(args) as (mirror, _):
        status = mirror.command(Command.PAUSE, args.flow, topics)
        is_done = not args.timeout or comes_to_rest(mirror, args.flow, topics, min(args.timeout, LONG_S))
        if not is_done and args.timeout > LONG_S:
            _say_waiting(args, mirror.status(lanes=True))
            is_done = comes_to_rest(mirror, args.flow, topics, args.timeout - LONG_S)
        if not is_done:
            return _not_still(args, mirror.status(lanes=True))
    return say_done(args, "pause", status)


def _not_still(args: argparse.Namespace, seen: MirrorStatus) -> int:
    """Print what is still being copied after the timeout, and whether the pause is stored; return the exit code."""
    moving = at_work(seen, args.flow, tuple(args.topics))
    print(
        f"{scope_of(args)}: after {args.timeout:.0f} s some fetched records are not copied and committed yet, or a"
        " copier does not answer; the pause is complete as soon as that is done; see: raymirror lag",
        *_named(moving),
        sep="\n",
        file=sys.stderr,
    )
    warn_unremembered(seen, what="the pause is")
    waits = {str(lane.lane): lane.reason or lane.state for lane in moving}
    facts = {"flow": args.flow, "topics": args.topics, "done": False, "unremembered": seen.unremembered}
    say_facts(args, command="pause", **facts, moving=waits)
    return exits.FAILED


def _say_waiting(args: argparse.Namespace, seen: MirrorStatus) -> None:
    """Print on stderr what a slow command waits for."""
    print(
        f"{scope_of(args)}: waiting up to {args.timeout:.0f} s until no copier fetches and all fetched records are"
        " copied and committed",
        *_named(at_work(seen, args.flow, tuple(args.topics))),
        sep="\n",
        file=sys.stderr,
    )


def _named(moving: list[LaneProgress]) -> list[str]:
    """Name up to NAMED partitions that are not at rest, and why."""
    return [f"{lane.lane}: {lane.reason or lane.state}" for lane in moving[:NAMED]]
