"""Handles mirrors on Ray clusters that do not answer: the state file of such a mirror must not hide other mirrors.

For a mirror with a process on this machine, a command can check whether that process lives. For a mirror on a Ray
cluster there is only a state file, which stays after the cluster is gone: the mirror may still run, unreachable.
"""

import socket
import sys
from collections.abc import Mapping
from typing import Final

from actors.local import session
from engine.base.clock import wall_ms

PROBE_S: Final = 1.0


class SilentMirror(session.NoMirror):
    """The Ray cluster of a mirror does not answer. `ended`: what is known about other mirrors of this machine."""

    def __init__(self, name: str, cause: str, note: str, ended: str = "") -> None:
        super().__init__(cause, ended)
        self.args = name, cause, note, ended
        self.name, self.note = name, note
        self.looked = f"mirror {name} was last followed from here, and {cause}"

    def __str__(self) -> str:
        text = (
            f"no running mirror found: {self.looked}; if that cluster is gone for good, remove {self.note}, so that"
            " commands ignore that mirror"
        )
        return f"{text}; other mirrors of this machine: {self.ended}" if self.ended else text


def silent_mirror(place: session.MirrorPlace, cause: str, env: Mapping[str, str]) -> session.NoMirror:
    """Return the error for a Ray cluster that does not answer, with its mirror and what is known about others."""
    if place.pid or not place.namespace or not _noted(place, env):
        return session.NoMirror(cause)
    name = session.short_name(place.namespace)
    note = session.folder(env) / f"{place.namespace}.json"
    return SilentMirror(name, cause, str(note), session.last_ended(None, wall_ms(), env))


def only_answering(several: session.SeveralMirrors, env: Mapping[str, str]) -> session.MirrorPlace:
    """Return the only mirror whose Ray cluster answers or that runs on this machine; print which ones are left out.

    Raises SeveralMirrors if there is not exactly one.
    """
    places = [session.find(None, name, env) for name in several.names]
    silent = [place for place in places if not place.pid and not _answers(place.address)]
    left = [place for place in places if place not in silent]
    if len(left) != 1:
        raise several
    for place in silent:
        print(f"note: {_left_out(place, env)}", file=sys.stderr)
    return left[0]


def _left_out(place: session.MirrorPlace, env: Mapping[str, str]) -> str:
    name = session.short_name(place.namespace)
    note = session.folder(env) / f"{place.namespace}.json"
    return (
        f"mirror {name} is left out: its Ray cluster at {place.address} does not answer; if that cluster is gone for"
        f" good, remove {note}"
    )


def _noted(place: session.MirrorPlace, env: Mapping[str, str]) -> bool:
    return any((state.namespace, state.address) == (place.namespace, place.address) for state in session.living(env))


def _answers(address: str) -> bool:
    """Whether something listens at HOST:PORT. An address in another form is not checked and counts as answering."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        return True
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except OSError:
        return False
    return True
