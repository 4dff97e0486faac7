"""`raymirror stop`: drains a running mirror and waits until it has ended."""

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, mirror_on_ray, remote_mirror
from actors.cli.common.flags import add_json_argument, say
from actors.cli.common.quiesce import until
from actors.local.session import MirrorEnds, MirrorPlace, process_start, refuse_ended
from actors.local_socket.client import RequestRefused
from actors.model.requests import MirrorLost
from actors.model.states import Command
from actors.model.status import MirrorStatus
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError

if TYPE_CHECKING:
    from actors.ray.mirror import Mirror
    from actors.remote.http_mirror import HttpMirror

POLL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place_arguments(parser)
    add_url_arguments(parser)
    add_json_argument(parser)
    parser.add_argument(
        "--timeout",
        type=float,
        default=40.0,
        metavar="SECONDS",
        help="how long to wait (default: 40)",
    )


def run(args: argparse.Namespace) -> int:
    """Stop the mirror in order, or wait for a mirror that is already ending. Raises NoMirror.

    Exit code 1 if it has not ended in time, or if the target has not stored that it was stopped.
    """
    remote = remote_mirror(args)
    if remote is not None:
        return _stop_remote(args, remote)
    try:
        return stop(args)
    except MirrorEnds as ends:
        return _gone_in_time(args, ends.place)


def _stop_remote(args: argparse.Namespace, mirror: "HttpMirror") -> int:
    """Stop the mirror behind `--url`, and wait until its server has ended with it."""
    status = mirror.command(Command.STOP)
    if not until(args.timeout, lambda: _has_ended(mirror)):
        print(f"still draining after {args.timeout:.0f} s; see: raymirror status --url {args.url}", file=sys.stderr)
        return exits.FAILED
    say(args, "stopped", command="stop", done=True, unremembered=status.unremembered)
    return _warn_unwritten(status)


def _has_ended(mirror: "HttpMirror") -> bool:
    """Whether nothing listens behind `--url` any more, or the mirror says that it has stopped.

    A server that is slow, or cannot be reached, may still be there. So may one that refuses: another node answers 409
    while no supervisor runs.
    """
    try:
        return mirror.status().phase == "stopped"
    except MirrorLost as lost:
        return isinstance(lost.__cause__, ConnectionError)
    except RequestRefused as refused:
        if getattr(refused, "exit_code", None) != exits.FAILED:  # not busy: a wrong login, for example
            raise
        return False


def stop(args: argparse.Namespace) -> int:
    """Request the end and wait for it. Raises NoMirror, MirrorEnds."""
    with mirror_on_ray(args) as (mirror, place):
        from actors.ray.mirror import patiently

        try:
            status = patiently(lambda: mirror.command(Command.STOP), args.timeout)
        except MirrorError as failure:
            refuse_ended(place, wall_ms(), os.environ)  # no failure: another command or process has ended it
            mirror.end_all()
            print(
                f"the supervisor has failed ({failure}): all processes of the mirror were ended, but the stop could not"
                " be stored on the target: at the next start the mirror is running or paused, as it was before",
                file=sys.stderr,
            )
            return exits.FAILED
        if not place.pid:  # no `run` process of this machine follows it and ends it
            drained = _end_when_drained(mirror, status, args.timeout)
            if drained is None:
                print(f"still draining after {args.timeout:.0f} s; see: raymirror status", file=sys.stderr)
                return exits.FAILED
            status = drained
    code = _gone_in_time(args, place, unremembered=status.unremembered)
    return _warn_unwritten(status) if code == exits.OK else code


def _end_when_drained(mirror: "Mirror", status: MirrorStatus, timeout_s: float) -> MirrorStatus | None:
    """Wait until the mirror has stopped, then end its supervisor; return its last status, None if it took too long.

    A `run` process on another machine, or a submitted job, follows the mirror too and may end the supervisor first:
    then no supervisor has the name any more. Raises MirrorLost.
    """
    try:
        if not mirror.wait_stopped(timeout_s):
            return None
        status = mirror.status()
        mirror.kill()
    except MirrorLost as lost:
        if not (lost.has_ended and mirror.is_gone()):
            raise
    return status


def _warn_unwritten(status: MirrorStatus) -> int:
    """Name the flows whose stop the target has not stored, which no process retries now; return the exit code."""
    if not status.unremembered:
        return exits.OK
    print(
        f"the mirror has ended, but the stop of {', '.join(status.unremembered)} is not stored: the target could not be"
        " written to; raymirror does not retry this: the next run finds the state from before the stop, and copies"
        " unless that state is a pause",
        file=sys.stderr,
    )
    return exits.FAILED


def _gone_in_time(args: argparse.Namespace, place: MirrorPlace, **facts: object) -> int:
    """Wait until the `run` process of the mirror has ended, if it is on this machine, and print that."""
    if place.pid and not _gone(place.pid, place.pid_start, args.timeout):
        print(f"process {place.pid} still runs after {args.timeout:.0f} s; see: raymirror status", file=sys.stderr)
        return exits.FAILED
    say(args, "stopped", command="stop", done=True, **facts)
    return exits.OK


def _gone(pid: int, pid_start: int, timeout_s: float) -> bool:
    """Wait for the end of the `run` process, which drains and then stops its Ray; return whether it ended in time."""
    deadline = time.monotonic() + timeout_s
    while process_start(pid) == pid_start:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
