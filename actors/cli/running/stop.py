"""`raymirror stop`: drain a running mirror and wait until it is gone."""

import argparse
import os
import sys
import time

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, mirror_on_ray
from actors.cli.common.flags import add_json_argument, say
from actors.local.session import MirrorEnds, MirrorPlace, process_start, refuse_ended
from actors.model.states import Command
from actors.model.status import MirrorStatus
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError

POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    add_json_argument(parser)
    parser.add_argument("--timeout", type=float, default=40.0, metavar="SECONDS", help="how long to wait (default: 40)")


def run(args: argparse.Namespace) -> int:
    """Stop it, in order; one that ends already is waited for. Raises NoMirror.

    Exit code 1 if it is not gone in time, or what is written down does not say that it was stopped.
    """
    try:
        return stop(args)
    except MirrorEnds as ends:
        return _gone_in_time(args, ends.place)


def stop(args: argparse.Namespace) -> int:
    """Ask for the end, and wait for it. Raises NoMirror, MirrorEnds."""
    with mirror_on_ray(args) as (mirror, place):
        from actors.ray.mirror import patiently

        try:
            status = patiently(lambda: mirror.command(Command.STOP), args.timeout)
        except MirrorError as failure:
            refuse_ended(place, wall_ms(), os.environ)  # no failure: somebody else has ended it
            mirror.end_all()
            print(
                f"the supervisor has failed ({failure}): all processes of the mirror were ended, and that it is stopped"
                " could not be written down: who starts it again finds it running, or paused, as it was",
                file=sys.stderr,
            )
            return exits.FAILED
        if not place.pid:  # no `run` process of this machine follows it and ends it
            if not mirror.wait_stopped(args.timeout):
                print(f"still draining after {args.timeout:.0f} s; see: raymirror status", file=sys.stderr)
                return exits.FAILED
            status = mirror.status()
            mirror.kill()
    code = _gone_in_time(args, place, unremembered=status.unremembered)
    return _warn_unwritten(status) if code == exits.OK else code


def _warn_unwritten(status: MirrorStatus) -> int:
    """Say of which flows the target does not know that they were stopped, now that nobody tells it; the exit code."""
    if not status.unremembered:
        return exits.OK
    print(
        f"the mirror has ended, but the target could not be written to and does not know of the stop of"
        f" {', '.join(status.unremembered)}; nobody tries it again: the next run finds what was wanted before, and"
        " copies on, unless that was a pause",
        file=sys.stderr,
    )
    return exits.FAILED


def _gone_in_time(args: argparse.Namespace, place: MirrorPlace, **facts: object) -> int:
    """Wait until the `run` process that has the mirror has ended, if it is one of this machine, and say so."""
    if place.pid and not _gone(place.pid, place.pid_start, args.timeout):
        print(f"process {place.pid} still runs after {args.timeout:.0f} s; see: raymirror status", file=sys.stderr)
        return exits.FAILED
    say(args, "stopped", command="stop", done=True, **facts)
    return exits.OK


def _gone(pid: int, pid_start: int, timeout_s: float) -> bool:
    """Wait for the end of the `run` process: it drains, then takes its Ray down."""
    deadline = time.monotonic() + timeout_s
    while process_start(pid) == pid_start:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
