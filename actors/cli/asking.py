"""What `status`, `pause`, `resume` and `stop` have in common: finding the running mirror and connecting to it."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors import session
from actors.mirror import Mirror
from actors.status import MirrorStatus
from engine.clock import wall_ms
from engine.config import load_config


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the mirror is found."""
    parser.add_argument("--address", help="its Ray cluster, HOST:PORT (default: RAY_ADDRESS, else the state file)")
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, where several are running"
    )


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the configuration whose targets are asked where no mirror runs."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="where no mirror runs, say what the targets of this configuration hold, and from when; exit code 3",
    )


class NoConfigGiven(session.NoMirror):
    """No mirror runs, and without a configuration nobody knows which target to ask."""

    def __str__(self) -> str:
        return f"{super().__str__()}; or let this command work from what the target holds: --config FILE"


def why_none(args: argparse.Namespace, none: session.NoMirror) -> str:
    """Say why no mirror answers, where `--config` names targets to ask instead.

    Raises NoConfigGiven without that; a mirror that ends, or has ended, is told of as it is.
    """
    ends = isinstance(none, session.MirrorEnds)
    if args.config is not None:
        return str(none) if ends else none.ended or none.looked
    raise none if ends else NoConfigGiven(none.looked, none.ended) from none


def is_of_others(args: argparse.Namespace, status: MirrorStatus) -> str:
    """Say why the mirror that was found is none of the configuration that was given; empty where it is, or none was."""
    if args.config is None or args.address or args.mirror:
        return ""
    there = {flow.flow for flow in status.flows}
    if any(str(flow.name) in there for flow in load_config(args.config).flows):
        return ""
    return f"the mirror that runs here copies {' and '.join(sorted(there))}"


@contextmanager
def running_mirror(args: argparse.Namespace) -> Iterator[tuple[Mirror, session.MirrorPlace]]:
    """Connect to the running mirror. Raises NoMirror (MirrorEnds: it ends just now), SeveralMirrors, MirrorLost.

    One that ends, or has ended meanwhile, says so, and not that it does not answer.
    """
    place = session.find(args.address, args.mirror, os.environ)
    session.refuse_ended(place, wall_ms(), os.environ)
    from actors.connect import RayUnreachable, attach
    from actors.mirror import MirrorLost, join

    try:
        connection = attach(place.address, local=place.local)
    except RayUnreachable as unreachable:
        session.refuse_ended(place, wall_ms(), os.environ)
        raise session.NoMirror(str(unreachable)) from unreachable
    try:
        yield join(connection, place), place
    except (MirrorLost, session.NoMirror):
        session.refuse_ended(place, wall_ms(), os.environ)
        raise
    finally:
        connection.close()
