"""State files of this user's running mirrors: one small file per mirror says where it is.

`raymirror run` writes `$XDG_STATE_HOME/raymirror/mirrors/<namespace>.json` and removes it at its end. A killed process
leaves its file behind. Readers detect that by the pid together with the start time of the process, because pids are
reused. Reading the files needs neither Ray nor the network, so "no mirror" is known at once. So is "it is ending",
which is in that file, and "it has ended", which is in `<namespace>.ended` next to it until the mirror is started again.
"""

import contextlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from actors.local.ended import EndedMirror
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError

_Note = TypeVar("_Note")

PREFIX = "raymirror-"
ENDING_PHASES = ("draining", "stopped")
"""Phases from which a mirror does not return to work."""


class StateFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` writes for other shells. `pid_start` is field 22 of /proc/PID/stat, clock ticks since boot. A pid of 0
    means that the mirror runs in a Ray cluster, whichever process follows it.
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
    """When its process began to end it (Unix ms); 0: it is not ending."""
    said: str = ""
    """Its state when it began to end: one line per flow."""
    pid_space: str = ""
    """The pid namespace in which its pid is valid: containers and hosts may share a folder of state files."""
    socket: str = ""
    """Path of the socket where its supervisor answers commands on its own machine; empty if there is none."""
    failed_over: tuple[str, ...] = ()
    """Its flows that a failover stopped."""


class MirrorPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where to reach a mirror. An empty namespace means: whichever mirror runs in that Ray cluster."""

    address: str
    namespace: str = ""
    local: bool = False
    pid: int = 0
    pid_start: int = 0
    said: str = ""
    """Its state when it began to end; empty while it is not ending."""
    instance_id: str = ""
    socket: str = ""
    """Path of the socket where its supervisor may answer on this machine."""


class NoMirror(MirrorError):
    """No running mirror was found. `ended`: how the last mirror ended, empty if that is not known."""

    def __init__(self, looked: str, ended: str = "") -> None:
        super().__init__(looked, ended)
        self.looked, self.ended = looked, ended

    def __str__(self) -> str:
        if self.ended:
            return f"no running mirror found: {self.ended}"
        return f"no running mirror found ({self.looked}); start one with: raymirror run CONFIG"


class MirrorEnds(NoMirror):
    """The mirror of a place has been ending for `seconds` and takes no commands any more."""

    def __init__(self, place: MirrorPlace, seconds: float) -> None:
        super().__init__(place.namespace)
        self.args = place, seconds
        self.place, self.seconds = place, seconds

    def __str__(self) -> str:
        name = short_name(self.place.namespace)
        stood = f"; its last state: {self.place.said}" if self.place.said else ""
        return f"mirror {name} has been ending for {self.seconds:.0f} s and takes no commands any more{stood}"


class SeveralMirrors(MirrorError):
    """More than one mirror runs, and the command did not name one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        return f"several mirrors are running: {', '.join(self.names)}; choose one with --mirror NAME"


class AlreadyRunning(MirrorError):
    """A mirror of this name, or of this file, is followed by another process of this user."""

    def __init__(self, namespace: str, pid: int, config: str = "CONFIG") -> None:
        super().__init__(namespace, pid, config)
        self.namespace, self.pid, self.config = namespace, pid, config

    def __str__(self) -> str:
        name = short_name(self.namespace)
        return (
            f"mirror {name} already runs in process {self.pid}; to apply the file to it:"
            f" raymirror reload {self.config} --mirror {name}; or stop it with raymirror stop, or give the new mirror"
            " another --name"
        )


def folder(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_STATE_HOME", "")
    root = Path(base) if base.startswith("/") else Path(env.get("HOME", "~")).expanduser() / ".local" / "state"
    return root / "raymirror" / "mirrors"


def absolute(path: Path) -> Path:
    """Return a path from the root on, with its symbolic links: Kubernetes leads them to another file at a change."""
    return Path(os.path.abspath(path))


def process_start(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot, None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the command in field 2 may contain blanks and brackets
    return None if fields[0] in ("Z", "X") else int(fields[19])


def pid_space() -> str:
    """Return the boot id of the kernel and the pid namespace of this process; empty if /proc does not show them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def write(state: StateFile, env: Mapping[str, str]) -> Path:
    """Write a state file atomically, readable by its owner only.

    Raises AlreadyRunning if the file belongs to another living process.
    """
    path = folder(env) / f"{state.namespace}.json"
    other = _read(path)
    if other is not None and other.pid and other.pid != state.pid and _may_live(other):
        raise AlreadyRunning(other.namespace, other.pid, other.config_path)
    _put(path, state)
    _ended_path(state.namespace, env).unlink(missing_ok=True)
    return path


def _put(path: Path, note: StateFile | EndedMirror) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.touch(mode=0o600)
    part.write_bytes(msgspec.json.format(msgspec.json.encode(note)))
    part.replace(path)


def remove(namespace: str, pid: int, env: Mapping[str, str]) -> None:
    """Remove a state file, if it belongs to this process."""
    if _own(namespace, pid, env) is not None:
        (folder(env) / f"{namespace}.json").unlink(missing_ok=True)


def _own(namespace: str, pid: int, env: Mapping[str, str]) -> StateFile | None:
    """Read a state file if it belongs to this pid (0: in a Ray cluster) and that process lives, None otherwise.

    A pid alone is not enough if containers share the folder: in every container the first process has pid 1.
    """
    state = _read(folder(env) / f"{namespace}.json")
    return state if state is not None and state.pid == pid and _may_live(state) else None


def note(namespace: str, pid: int, env: Mapping[str, str], **facts: object) -> None:
    """Set fields of StateFile in the state file of this process (pid 0: of a mirror in a Ray cluster)."""
    state = _own(namespace, pid, env)
    if state is not None:
        write(msgspec.structs.replace(state, **facts), env)


def note_ended(ended: EndedMirror, env: Mapping[str, str]) -> None:
    """Write the end note of this process's mirror, for commands that search for it before it is started again.

    Write nothing if the state file belongs to another living process: that mirror has not ended.
    """
    state = _read(folder(env) / f"{ended.namespace}.json")
    if state is not None and state.pid not in (0, os.getpid()) and _may_live(state):
        return
    _put(_ended_path(ended.namespace, env), ended)


def note_failover(flow: str, path: str, digest: str, env: Mapping[str, str]) -> None:
    """Add the failover of a flow to the end notes of mirrors that ended here and had this configuration file.

    The note is a file of its own, not the state file of a dead process: a new start may just be writing that file.
    """
    alive = {state.namespace for state in living(env)}
    for note in _notes("*", env):
        if note.namespace not in alive and (note.config_path == path or note.config_digest == digest):
            flows = tuple(dict.fromkeys((*note.failed_over, flow)))
            _put(_ended_path(note.namespace, env), msgspec.structs.replace(note, failed_over=flows))


def refuse_ended(place: MirrorPlace, now_ms: int, env: Mapping[str, str]) -> None:
    """Raise MirrorEnds or NoMirror if the mirror of a place is known to be ending, or to have ended."""
    if not place.pid:
        return
    state = _read(folder(env) / f"{place.namespace}.json")
    if state is None or (state.pid, state.pid_start) != (place.pid, place.pid_start) or not _may_live(state):
        raise NoMirror(f"process {place.pid} has ended", last_ended(place.namespace, now_ms, env))
    if state.ending_ms:
        raise MirrorEnds(_place(state), max(0, now_ms - state.ending_ms) / 1000)


def last_ended(name: str | None, now_ms: int, env: Mapping[str, str]) -> str:
    """Say how the mirror with this name (None: the last one that ended) ended; empty if that is not known."""
    notes = _notes("*" if name is None else namespace_of(name), env)
    last = max(notes, key=lambda note: note.at_ms, default=None)
    if last is None:
        return ""
    return last.text(short_name(last.namespace), now_ms)


def _notes(namespaces: str, env: Mapping[str, str]) -> list[EndedMirror]:
    """List end notes: those that `run` wrote, and one for each state file of a dead process without a note."""
    found = (_decoded(path, EndedMirror) for path in folder(env).glob(f"{namespaces}.ended"))
    notes = {note.namespace: note for note in found if note is not None}
    for path in folder(env).glob(f"{namespaces}.json"):
        state = _read(path)
        if state is not None and not _may_live(state):
            notes.setdefault(state.namespace, _killed(state, path))
    return list(notes.values())


def _killed(state: StateFile, path: Path) -> EndedMirror:
    """Create the end note of a killed process. The time of death is not known, so this uses that of the state file."""
    try:
        written_ms = int(path.stat().st_mtime * 1000)
    except FileNotFoundError:
        written_ms = 0
    return EndedMirror(
        namespace=state.namespace,
        config_path=state.config_path,
        at_ms=written_ms,
        in_order=False,
        killed_pid=state.pid,
        failed_over=state.failed_over,
        config_digest=state.config_digest,
    )


def ended_ms(namespace: str, env: Mapping[str, str]) -> int | None:
    """Return the time of the end note of a mirror (Unix ms), None without a note."""
    note = _decoded(_ended_path(namespace, env), EndedMirror)
    return note.at_ms if note is not None else None


def _ended_path(namespace: str, env: Mapping[str, str]) -> Path:
    return folder(env) / f"{namespace}.ended"


def living(env: Mapping[str, str], name: str | None = None) -> tuple[StateFile, ...]:
    """List the mirrors (with a name: only that one) that may run: on a Ray cluster, or with a living `run` process."""
    states = [_read(path) for path in sorted(folder(env).glob("*.json"))]
    named = (state for state in states if state and (name is None or state.namespace in (name, namespace_of(name))))
    return tuple(state for state in named if _may_live(state))


def _may_live(state: StateFile) -> bool:
    return state.pid == 0 or process_start(state.pid) == state.pid_start


def dead_instance(namespace: str, env: Mapping[str, str]) -> str:
    """Return the instance id of this mirror if its `run` process is known to have died on this machine; else empty.

    A pid says nothing about a process in another container, on another host, or from before a reboot.
    """
    state = _read(folder(env) / f"{namespace}.json")
    if state is None or not state.pid or _may_live(state):
        return ""
    return state.instance_id if state.pid_space and state.pid_space == pid_space() else ""


def refuse_second(namespace: str, env: Mapping[str, str], *, config: str = "CONFIG", unnamed: bool = False) -> None:
    """Raise AlreadyRunning if a living process follows a mirror of this namespace.

    If the mirror is `unnamed`, raise also if a process follows a mirror of the same configuration file: changed flows
    in the file would give the mirror another name.
    """
    own = [state for state in living(env) if state.pid]
    same = [state for state in own if state.namespace == namespace]
    same += [state for state in own if unnamed and state.config_path == config]
    if same:
        raise AlreadyRunning(same[0].namespace, same[0].pid, config)


def find(address: str | None, name: str | None, env: Mapping[str, str]) -> MirrorPlace:
    """Find the mirror: an address given, then RAY_ADDRESS, then the state files; never Ray's `auto`.

    Raises NoMirror, SeveralMirrors.
    """
    given = address or env.get("RAY_ADDRESS")
    states = living(env, name)
    if given:
        same = [state for state in states if state.address == given]
        if len(same) == 1:
            return _place(same[0])
        return MirrorPlace(address=given, namespace=namespace_of(name) if name else "")
    if not states:
        looked = f"no --address, no RAY_ADDRESS, no living process in {folder(env)}"
        raise NoMirror(looked, last_ended(name, wall_ms(), env))
    if len(states) > 1:
        raise SeveralMirrors(tuple(short_name(state.namespace) for state in states))
    return _place(states[0])


def config_of(name: str, env: Mapping[str, str]) -> Path:
    """Return the configuration file of a mirror that was started from this machine. Raises NoMirror."""
    for state in living(env, name):
        return Path(state.config_path)
    looked = f"no mirror {name!r} in {folder(env)}"
    raise NoMirror(looked, last_ended(name, wall_ms(), env))


def deployment_id(env: Mapping[str, str]) -> str:
    """Return the id of this installation, created once: it distinguishes two deployments of one configuration."""
    path = folder(env).parent / "deployment-id"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(uuid.uuid4().hex + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(part, path)  # the first process wins; all read the same id
        part.unlink()
        return path.read_text().strip()


def namespace_of(name: str) -> str:
    return name if name.startswith(PREFIX) else PREFIX + name


def short_name(namespace: str) -> str:
    """Return the name of a mirror as users give it, from its Ray namespace."""
    return namespace.removeprefix(PREFIX)


def _place(state: StateFile) -> MirrorPlace:
    return MirrorPlace(
        address=state.address,
        namespace=state.namespace,
        local=state.local,
        pid=state.pid,
        pid_start=state.pid_start,
        said=state.said,
        instance_id=state.instance_id,
        socket=state.socket,
    )


def _read(path: Path) -> StateFile | None:
    return _decoded(path, StateFile)


def _decoded(path: Path, kind: type[_Note]) -> _Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, PermissionError):  # an incomplete file, or one of another version or user
        return None
