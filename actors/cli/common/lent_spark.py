"""Finds the Spark of a running mirror for a command: of the mirror with the same file, or of the one that it names."""

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from actors.config.config_ref import digest_of
from actors.jobs.remote_spark import AWAY, NoSpark, RemoteSpark
from actors.local import session
from actors.local.session import MirrorPlace, NoMirror
from actors.ray.mirror import Mirror
from engine.base.errors import MirrorError


@contextmanager
def lent_spark(args: argparse.Namespace) -> Iterator[RemoteSpark]:
    """Find the mirror that runs with exactly this file, or the mirror that the command names.

    Raises NoSpark if no mirror's Spark can be used; NoMirror and SeveralMirrors only if the command names a mirror.
    """
    digest = digest_of(Path(args.config).read_bytes())
    asked = bool(args.address or args.mirror)
    place = _place(args, digest, os.environ)
    from actors.ray.connect import RayUnreachable, attach
    from actors.ray.mirror import join

    try:
        connection = attach(place.address, local=place.local)
    except RayUnreachable as unreachable:
        raise (NoMirror if asked else NoSpark)(str(unreachable)) from unreachable
    try:
        try:
            mirror = join(connection, place)
        except MirrorError as error:
            if asked:
                raise
            raise NoSpark(str(error)) from error
        yield _asked_for(mirror, digest)
    finally:
        connection.close()


def _place(args: argparse.Namespace, digest: str, env: Mapping[str, str]) -> MirrorPlace:
    if args.address or args.mirror or env.get("RAY_ADDRESS"):
        return session.find(args.address, args.mirror, env)
    same = [state.namespace for state in session.living(env) if state.config_digest == digest]
    if not same:
        raise NoSpark("no mirror on this machine runs with this file")
    return session.find(None, same[0], env)


def _asked_for(mirror: Mirror, digest: str) -> RemoteSpark:
    status, name = mirror.status(), session.short_name(mirror.namespace)
    if status.config_digest != digest:
        raise NoSpark(f"mirror {name} runs with another file, or with another version of this file")
    if status.spark.state in AWAY:
        raise NoSpark(f"mirror {name} has no Spark ({status.spark.reason or 'raymirror.spark is off'})")
    return RemoteSpark(mirror, name)
