"""Reserves the name of a mirror for the process that starts it, so that a second start is refused at once.

A state file (`session.py`) says that a mirror runs. It is written when the supervisor answers, which takes seconds, and
on a busy machine 30 s. Until then the starting process locks `<namespace>.lock` next to it (`flock`). The kernel drops
the lock when the process ends, however it ends, so a file without a lock blocks no start. The process holds the lock
until the state file is removed.
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from actors.local import session
from engine.base.errors import MirrorError

_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system without locks: there a start continues without a reservation."""


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a lock, as it wrote it into the file."""

    pid: int
    pid_start: int
    config_path: str


class AlreadyStarting(MirrorError):
    """Another process of this user is starting a mirror of this name, or of this file. A pid of 0: not known."""

    def __init__(self, namespace: str, pid: int) -> None:
        super().__init__(namespace, pid)
        self.namespace, self.pid = namespace, pid

    def __str__(self) -> str:
        name = session.short_name(self.namespace)
        process = f"process {self.pid}" if self.pid else "another process"
        return (
            f"mirror {name} is already being started by {process}; when it runs, show it with: raymirror status"
            f" --mirror {name}; or give the new mirror another --name"
        )


class MirrorStarts(session.NoMirror):
    """A process of this user has been starting the mirror for `seconds`; it takes no commands yet."""

    def __init__(self, namespace: str, pid: int, seconds: float) -> None:
        super().__init__(namespace)
        self.args = namespace, pid, seconds
        self.namespace, self.pid, self.seconds = namespace, pid, seconds

    def __str__(self) -> str:
        name = session.short_name(self.namespace)
        return (
            f"process {self.pid} has been starting mirror {name} for {self.seconds:.0f} s; the mirror takes no commands"
            " yet: try again in a moment"
        )


class Reservation:
    """A reserved name; `release` may be called again."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # a file without a lock blocks no start
                self._path.unlink()  # before the lock is dropped: after that the file may be another process's
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def reserved(namespace: str, config: str, env: Mapping[str, str]) -> Iterator[Reservation]:
    """Reserve the name of a mirror for this process until the reservation is released.

    Raises AlreadyStarting, and AlreadyRunning if the other process has just finished its start.
    """
    reservation = _reserve(namespace, config, env)
    try:
        # finds a mirror whose process has just written its state file, or whose file system has no locks
        session.refuse_second(namespace, env, config=config)
        yield reservation
    finally:
        reservation.release()


def refuse_starting(namespace: str, config: str, env: Mapping[str, str], *, unnamed: bool = False) -> None:
    """Raise AlreadyStarting if a living process is starting a mirror of this name or, if the mirror is `unnamed`, of
    this file. This takes no lock: a check must not block the start of another process.
    """
    pattern = "*.lock" if unnamed else f"{namespace}.lock"
    for path, holder in _held(pattern, env):
        if path.stem == namespace or holder.config_path == config:
            raise AlreadyStarting(path.stem, holder.pid)


def mirror_starts(
    name: str | None, now_ms: int, env: Mapping[str, str], *, config: str | None = None
) -> MirrorStarts | None:
    """Find a start of the mirror with this name (None: any mirror) that has begun but has no state file yet.

    `config`: the path of the configuration file, if no name is given; a start with another file is another mirror.
    A mirror that has just ended holds its lock for a moment longer; its end note is newer than the lock then.
    """
    pattern = "*.lock" if name is None else f"{session.namespace_of(name)}.lock"
    for path, holder in _held(pattern, env):
        if name is None and config not in (None, holder.config_path):
            continue
        try:
            since_ms = path.stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            continue
        if (session.ended_ms(path.stem, env) or 0) < since_ms:
            return MirrorStarts(path.stem, holder.pid, max(0, now_ms - since_ms) / 1000)
    return None


def _reserve(namespace: str, config: str, env: Mapping[str, str]) -> Reservation:
    path = session.folder(env) / f"{namespace}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(path, descriptor)
            if _is_still(path, descriptor):
                _write(descriptor, config)
                return Reservation(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous owner removed the file between the open and the lock here


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(path)
        raise AlreadyStarting(path.stem, holder.pid if holder is not None else 0) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write(descriptor: int, config: str) -> None:
    pid = os.getpid()
    holder = LockHolder(pid=pid, pid_start=session.process_start(pid) or 0, config_path=config)
    with suppress(OSError):  # a full disk: the lock still works, only its holder is not in the file
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(holder), 0)


def _held(pattern: str, env: Mapping[str, str]) -> Iterator[tuple[Path, LockHolder]]:
    """Yield the locks whose process lives, with that process."""
    for path in sorted(session.folder(env).glob(pattern)):
        holder = _holder(path)
        if holder is not None and session.process_start(holder.pid) == holder.pid_start:
            yield path, holder


def _holder(path: Path) -> LockHolder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except (OSError, msgspec.DecodeError):
        return None
