"""Mirrors on Ray clusters that do not answer: the note that was left of one hides no other mirror.

Whether the process of a mirror on this machine lives can be seen. Of one on a Ray cluster only a note is here, which is
kept after the cluster has gone: its mirror may run on, out of reach.
"""

import socket
import sys
from collections.abc import Mapping
from typing import Final

from actors.local import session
from engine.base.clock import wall_ms

PROBE_S: Final = 1.0


class SilentMirror(session.NoMirror):
    """The Ray cluster of a mirror does not answer; `ended`: what is known of other mirrors of this machine."""

    def __init__(self, name: str, cause: str, note: str, ended: str = "") -> None:
        super().__init__(cause, ended)
        self.args = name, cause, note, ended
        self.name, self.note = name, note
        self.looked = f"mirror {name} was last followed from here, and {cause}"

    def __str__(self) -> str:
        text = (
            f"no running mirror found: {self.looked}; if that cluster is gone for good, remove {self.note}, and it is"
            " not looked for any more"
        )
        return f"{text}; of the others here: {self.ended}" if self.ended else text


def silent_mirror(place: session.MirrorPlace, cause: str, env: Mapping[str, str]) -> session.NoMirror:
    """Say that the Ray cluster of a place does not answer, of which mirror that is, and what is known of others."""
    if place.pid or not place.namespace or not _noted(place, env):
        return session.NoMirror(cause)
    name = session.short_name(place.namespace)
    note = session.folder(env) / f"{place.namespace}.json"
    return SilentMirror(name, cause, str(note), session.last_ended(None, wall_ms(), env))


def only_answering(several: session.SeveralMirrors, env: Mapping[str, str]) -> session.MirrorPlace:
    """Choose the one of several mirrors that is not on a Ray cluster which does not answer; say what is left out.

    Raises SeveralMirrors where it is not the only one.
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
        f"mirror {name} is left out: its Ray cluster at {place.address} does not answer; if that is gone for good,"
        f" remove {note}"
    )


def _noted(place: session.MirrorPlace, env: Mapping[str, str]) -> bool:
    return any((state.namespace, state.address) == (place.namespace, place.address) for state in session.living(env))


def _answers(address: str) -> bool:
    """Whether something listens at HOST:PORT; of an address in another form that is not known, so it counts."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        return True
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except OSError:
        return False
    return True
