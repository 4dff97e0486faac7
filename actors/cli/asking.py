"""What `status`, `pause`, `resume` and `stop` have in common: finding the running mirror and connecting to it."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from actors import session
from actors.mirror import Mirror
from engine.clock import wall_ms


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the mirror is found."""
    parser.add_argument("--address", help="its Ray cluster, HOST:PORT (default: RAY_ADDRESS, else the state file)")
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, where several are running"
    )


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
