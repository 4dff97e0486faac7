"""Where the running mirrors of this user are: one small state file per mirror.

`raymirror run` writes `$XDG_STATE_HOME/raymirror/mirrors/<namespace>.json` and removes it when it ends. A process that
was killed leaves its file behind: it is recognised by the pid together with the start time of that process, because
pids are used again. Looking needs neither Ray nor the network, so "no mirror" is said at once; so is "it ends", which
stands in that file, and "it has ended", which `<namespace>.ended` beside it says until the mirror is started again.
"""

import contextlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.clock import wall_ms
from engine.errors import MirrorError

_Note = TypeVar("_Note")

PREFIX = "raymirror-"
ENDING_PHASES = ("draining", "stopped")
"""Phases of a mirror out of which it does not come back."""


class StateFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` leaves for other shells. `pid_start` is field 22 of /proc/PID/stat, clock ticks since boot; a pid of 0
    means that the mirror lives in a Ray cluster, whoever follows it.
    """

    address: str
    namespace: str
    pid: int
    pid_start: int
    version: str
    config_path: str
    config_digest: str
    local: bool
    instance_id: str = ""
    ending_ms: int = 0
    """Since when its process ends it (Unix ms), 0: it goes on."""
    said: str = ""
    """How it stood when it began to end: a line of each flow."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a mirror had ended; `said`: how each flow stood, `in_order`: all was drained and written down."""

    namespace: str
    config_path: str
    at_ms: int
    in_order: bool
    said: str = ""


class MirrorPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where to ask for a mirror. An empty namespace means: whichever mirror that Ray cluster has."""

    address: str
    namespace: str = ""
    local: bool = False
    pid: int = 0
    pid_start: int = 0
    said: str = ""
    """How it stood when it began to end; empty while it goes on."""


class NoMirror(MirrorError):
    """No running mirror was found; `ended`: what is known of the one that ended last, empty where nothing is."""

    def __init__(self, looked: str, ended: str = "") -> None:
        super().__init__(looked, ended)
        self.looked, self.ended = looked, ended

    def __str__(self) -> str:
        if self.ended:
            return f"no running mirror found: {self.ended}"
        return f"no running mirror found ({self.looked}); start one with: raymirror run CONFIG"


class MirrorEnds(NoMirror):
    """The mirror of a place ends just now, and takes no commands any more; `seconds`: since when."""

    def __init__(self, place: MirrorPlace, seconds: float) -> None:
        super().__init__(place.namespace)
        self.args = place, seconds
        self.place, self.seconds = place, seconds

    def __str__(self) -> str:
        name = self.place.namespace.removeprefix(PREFIX)
        stood = f"; how it stood then: {self.place.said}" if self.place.said else ""
        return f"mirror {name} has been ending for {self.seconds:.0f} s, and takes no commands any more{stood}"


class SeveralMirrors(MirrorError):
    """More than one mirror runs, and the command did not say which."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        return f"several mirrors are running: {', '.join(self.names)}; choose one with --mirror NAME"


class AlreadyRunning(MirrorError):
    """A mirror of this name is followed by another process of this user."""

    def __init__(self, namespace: str, pid: int) -> None:
        super().__init__(namespace, pid)
        self.namespace, self.pid = namespace, pid

    def __str__(self) -> str:
        name = self.namespace.removeprefix(PREFIX)
        return (
            f"mirror {name} already runs in process {self.pid};"
            " end it with raymirror stop, or give this one another --name"
        )


def folder(env: Mapping[str, str]) -> Path:
    """Give the folder of the state files."""
    base = env.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path(env.get("HOME", "~")).expanduser() / ".local" / "state"
    return root / "raymirror" / "mirrors"


def process_start(pid: int) -> int | None:
    """Give a process's start time in clock ticks since boot, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the command in field 2 may hold blanks and brackets
    return None if fields[0] in ("Z", "X") else int(fields[19])


def write(state: StateFile, env: Mapping[str, str]) -> Path:
    """Write a state file in one move, readable by its owner only."""
    path = folder(env) / f"{state.namespace}.json"
    _put(path, state)
    _ended_path(state.namespace, env).unlink(missing_ok=True)
    return path


def _put(path: Path, note: StateFile | Ended) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.touch(mode=0o600)
    part.write_bytes(msgspec.json.format(msgspec.json.encode(note)))
    part.replace(path)


def remove(namespace: str, pid: int, env: Mapping[str, str]) -> None:
    """Remove a state file, if it is this process's own."""
    path = folder(env) / f"{namespace}.json"
    state = _read(path)
    if state is not None and state.pid == pid:
        path.unlink(missing_ok=True)


def note_ending(namespace: str, pid: int, at_ms: int, said: str, env: Mapping[str, str]) -> None:
    """Note in this process's own state file that its mirror ends."""
    state = _read(folder(env) / f"{namespace}.json")
    if state is not None and state.pid == pid:
        write(msgspec.structs.replace(state, ending_ms=at_ms, said=said), env)


def note_ended(ended: Ended, env: Mapping[str, str]) -> None:
    """Note how a mirror ended, for who asks for it before it is started again."""
    _put(_ended_path(ended.namespace, env), ended)


def refuse_ended(place: MirrorPlace, now_ms: int, env: Mapping[str, str]) -> None:
    """Raise MirrorEnds or NoMirror where the mirror of a place is known to end, or to have ended since it was found."""
    if not place.pid:
        return
    state = _read(folder(env) / f"{place.namespace}.json")
    if state is None or (state.pid, state.pid_start) != (place.pid, place.pid_start) or not _may_live(state):
        raise NoMirror(f"process {place.pid} has ended", _last_ended(place.namespace, now_ms, env))
    if state.ending_ms:
        raise MirrorEnds(_place(state), max(0, now_ms - state.ending_ms) / 1000)


def _last_ended(name: str | None, now_ms: int, env: Mapping[str, str]) -> str:
    """Say how the mirror of a name, or whichever ended last, ended; empty where nothing is known."""
    pattern = "*.ended" if name is None else f"{namespace_of(name)}.ended"
    notes = (_read_ended(path) for path in folder(env).glob(pattern))
    last = max((note for note in notes if note is not None), key=lambda note: note.at_ms, default=None)
    if last is None:
        return ""
    how = "" if last.in_order else " not in order"
    stood = f"; how it stood then: {last.said}" if last.said else ""
    ago_s = max(0, now_ms - last.at_ms) / 1000
    return (
        f"mirror {last.namespace.removeprefix(PREFIX)} ended{how} {ago_s:.0f} s ago{stood};"
        f" start it again with: raymirror run {last.config_path}"
    )


def _ended_path(namespace: str, env: Mapping[str, str]) -> Path:
    return folder(env) / f"{namespace}.ended"


def living(env: Mapping[str, str]) -> tuple[StateFile, ...]:
    """List the mirrors that may run, in order of name: those of Ray clusters, and those whose `run` process lives."""
    states = (_read(path) for path in sorted(folder(env).glob("*.json")))
    return tuple(state for state in states if state is not None and _may_live(state))


def _may_live(state: StateFile) -> bool:
    return state.pid == 0 or process_start(state.pid) == state.pid_start


def dead_instance(namespace: str, env: Mapping[str, str]) -> str:
    """Name the instance of this mirror whose `run` process is known to have died here; empty when there is none."""
    state = _read(folder(env) / f"{namespace}.json")
    return state.instance_id if state is not None and state.pid and not _may_live(state) else ""


def refuse_second(namespace: str, env: Mapping[str, str]) -> None:
    """Raise AlreadyRunning if a living process follows a mirror of this namespace."""
    for state in living(env):
        if state.namespace == namespace and state.pid:
            raise AlreadyRunning(namespace, state.pid)


def find(address: str | None, name: str | None, env: Mapping[str, str]) -> MirrorPlace:
    """Find the mirror: an address given, then RAY_ADDRESS, then the state files; never Ray's `auto`.

    Raises NoMirror, SeveralMirrors.
    """
    given = address or env.get("RAY_ADDRESS")
    states = [state for state in living(env) if name is None or state.namespace in (name, namespace_of(name))]
    if given:
        same = [state for state in states if state.address == given]
        if len(same) == 1:
            return _place(same[0])
        return MirrorPlace(address=given, namespace=namespace_of(name) if name else "")
    if not states:
        looked = f"no --address, no RAY_ADDRESS, no living process in {folder(env)}"
        raise NoMirror(looked, _last_ended(name, wall_ms(), env))
    if len(states) > 1:
        raise SeveralMirrors(tuple(state.namespace.removeprefix(PREFIX) for state in states))
    return _place(states[0])


def deployment_id(env: Mapping[str, str]) -> str:
    """Give this installation's own id, made once: it tells two deployments of one configuration apart in positions."""
    path = folder(env).parent / "deployment-id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(uuid.uuid4().hex + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(part, path)  # whoever comes first, all read the same id
        part.unlink()
        return path.read_text().strip()


def namespace_of(name: str) -> str:
    """Give the Ray namespace of a mirror's name."""
    return name if name.startswith(PREFIX) else PREFIX + name


def _place(state: StateFile) -> MirrorPlace:
    return MirrorPlace(
        address=state.address,
        namespace=state.namespace,
        local=state.local,
        pid=state.pid,
        pid_start=state.pid_start,
        said=state.said,
    )


def _read(path: Path) -> StateFile | None:
    return _decoded(path, StateFile)


def _read_ended(path: Path) -> Ended | None:
    return _decoded(path, Ended)


def _decoded(path: Path, kind: type[_Note]) -> _Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (
        msgspec.DecodeError,
        PermissionError,
    ):  # half a file, another version's or user's
        return None
