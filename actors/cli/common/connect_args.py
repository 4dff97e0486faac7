"""Finds the running mirror and connects to it, for `status`, `pause`, `resume`, `stop` and other commands."""

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.cli.common.flags import warn
from actors.cli.common.silent_clusters import SilentMirror, only_answering, silent_mirror
from actors.local import session
from actors.local.reservation import MirrorStarts, mirror_starts
from actors.local_socket.client import reach
from actors.model.requests import AnsweringMirror, MirrorLost
from actors.model.run_kinds import RunKind
from actors.model.status import MirrorStatus
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError

if TYPE_CHECKING:
    from actors.cli.common.remote_runs import Ask
    from actors.ray.mirror import Mirror
    from actors.remote.http_mirror import HttpMirror


def add_place_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--address", help="Ray cluster of the mirror, HOST:PORT (default: RAY_ADDRESS, else state file)"
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )


def add_url_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--url`: the HTTP server of a mirror, for machines without Ray."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="ask the mirror's HTTP server, e.g. http://host:8083, from any machine; its user: RAYMIRROR_TOKEN, or"
        " RAYMIRROR_USER and RAYMIRROR_PASSWORD, or --login",
    )
    parser.add_argument(
        "--login",
        type=Path,
        metavar="FILE",
        help="with --url: a file with `token = ...`, or `user` and `password`; and for TLS `ca`, `certificate`, `key`",
    )


def remote_mirror(args: argparse.Namespace) -> "HttpMirror | None":
    """Return the mirror that `--url` names, None without it. Raises BadUrl, BadLogin, ConfigError, UrlAndPlace."""
    url = getattr(args, "url", None)
    if url is None:
        if getattr(args, "login", None) is not None:
            raise UrlAndPlace("--login is for --url, which is not given")
        return None
    for other in ("address", "mirror", "storage"):
        if getattr(args, other, None):
            raise UrlAndPlace(f"--url and --{other} both name a mirror, or what it keeps; give one")
    from actors.remote.http_mirror import open_mirror  # imports ssl, which is needed here only

    mirror = open_mirror(url, args.login, os.environ)
    if mirror.shows_secret:
        warn(f"the password or token passes the network to {mirror.namespace} without TLS")
    return mirror


def run_remotely(args: argparse.Namespace, kind: RunKind, ask: "Ask | None" = None) -> int | None:
    """Have the mirror that `--url` names run the command, and return its exit code; None without `--url`.

    `ask`: the question before a change. Raises what `remote_mirror` and `run_behind` raise.
    """
    mirror = remote_mirror(args)
    if mirror is None:
        return None
    from actors.cli.common.remote_runs import run_behind  # slow to import, and needed here only

    return run_behind(mirror, args, kind, ask)


class UrlAndPlace(MirrorError):
    """Arguments that do not go together."""


def add_config_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--config`: the configuration whose targets are read if no mirror runs."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="if no mirror runs, show what the targets of this configuration hold, and as of when; exit code 3",
    )


class NoConfigGiven(session.NoMirror):
    """No mirror runs, and without a configuration the command does not know which target to read."""

    def __init__(self, none: session.NoMirror) -> None:
        super().__init__(none.looked, none.ended)
        self.args = (none,)
        self.none = none

    def __str__(self) -> str:
        return f"{self.none}; or have this command read what the target holds: --config FILE"


def why_none(args: argparse.Namespace, none: session.NoMirror) -> str:
    """Say why no mirror answers, if `--config` names targets to read instead.

    Raises without `--config`: `none` itself if the mirror is starting or ending, else NoConfigGiven.
    """
    is_there = isinstance(none, (session.MirrorEnds, MirrorStarts))
    if args.config is None:
        raise none if is_there else NoConfigGiven(none) from none
    if isinstance(none, SilentMirror):
        return none.looked
    return str(none) if is_there else none.ended or none.looked


def _is_of_others(args: argparse.Namespace, status: MirrorStatus) -> str:
    """Say why the mirror that was found does not run the given configuration; empty if it does.

    Also empty if no configuration was given, or if the command names an address or a mirror.
    """
    if args.config is None or args.address or args.mirror or getattr(args, "url", None):
        return ""
    from engine.config.config import load_config  # slow to import, and needed here only

    there = {flow.flow for flow in status.flows}
    if any(str(flow.name) in there for flow in load_config(args.config).flows):
        return ""
    return f"the mirror on this machine copies {' and '.join(sorted(there))}"


def status_or_why(args: argparse.Namespace, *, lanes: bool = False) -> MirrorStatus | str:
    """Return the status of the running mirror, or why no mirror with the given configuration runs.

    Raises what `running_mirror` and `why_none` raise, and ConfigError.
    """
    try:
        with running_mirror(args) as (mirror, _):
            status = mirror.status(lanes=lanes)
    except session.NoMirror as none:
        return why_none(args, none)
    return _is_of_others(args, status) or status


@contextmanager
def running_mirror(args: argparse.Namespace) -> Iterator[tuple[AnsweringMirror, session.MirrorPlace]]:
    """Connect to the running mirror: by its socket if it is on this machine and no address is given, else through Ray.

    Raises NoMirror (MirrorStarts: it is starting, MirrorEnds: it is ending), SeveralMirrors, MirrorLost. If the mirror
    is ending, or has ended during the command, the error says so, not that it does not answer.
    """
    remote = remote_mirror(args)
    if remote is not None:
        with closing(remote):
            yield remote, session.MirrorPlace(address=remote.namespace, namespace=remote.namespace)
        return
    place = _find(args)
    local = None if args.address else reach(place)
    if local is None:
        with _through_ray(place) as mirror:
            yield mirror, place
        return
    with closing(local), _told_if_ended(place):
        yield local, place


@contextmanager
def mirror_on_ray(args: argparse.Namespace) -> Iterator[tuple["Mirror", session.MirrorPlace]]:
    """Connect to the Ray of the running mirror, if its socket is not enough. Raises what `running_mirror` raises."""
    place = _find(args)
    with _through_ray(place) as mirror:
        yield mirror, place


def _find(args: argparse.Namespace) -> session.MirrorPlace:
    try:
        place = session.find(args.address, args.mirror, os.environ)
    except session.NoMirror as none:
        given = getattr(args, "config", None)
        config = str(session.absolute(given)) if given is not None else None
        raise mirror_starts(args.mirror, wall_ms(), os.environ, config=config) or none from None
    except session.SeveralMirrors as several:
        place = only_answering(several, os.environ)
    session.refuse_ended(place, wall_ms(), os.environ)
    return place


@contextmanager
def _through_ray(place: session.MirrorPlace) -> Iterator["Mirror"]:
    from actors.ray.connect import RayUnreachable, attach
    from actors.ray.mirror import join

    try:
        connection = attach(place.address, local=place.local)
    except RayUnreachable as unreachable:
        session.refuse_ended(place, wall_ms(), os.environ)
        raise silent_mirror(place, str(unreachable), os.environ) from unreachable
    try:
        with _told_if_ended(place):
            yield join(connection, place)
    finally:
        connection.close()


@contextmanager
def _told_if_ended(place: session.MirrorPlace) -> Iterator[None]:
    """Raise "it is ending" or "it has ended" instead of "it does not answer", if that is known."""
    try:
        yield
    except (MirrorLost, session.NoMirror):
        session.refuse_ended(place, wall_ms(), os.environ)
        raise
