"""Lets one command of a kind run for a flow at a time on this machine: a file that the kernel unlocks with its process.

Commands on other machines do not see it: what they share is the mirror and the target.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from actors.local import session
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError


class LockNote(msgspec.Struct, frozen=True, kw_only=True):
    """Who has the lock: the process, and since when (Unix ms)."""

    pid: int
    since_ms: int


class CommandRuns(MirrorError):
    """The same command runs for the flow already: its name, flow, who has the lock (None: not known yet)."""

    def __init__(self, command: str, flow: str, note: LockNote | None) -> None:
        super().__init__(command, flow, note)
        self.command, self.flow, self.note = command, flow, note

    def __str__(self) -> str:
        who = ""
        if self.note is not None:
            ago_s = max(0, wall_ms() - self.note.since_ms) / 1000
            who = f" in process {self.note.pid}, which began {ago_s:.0f} s ago"
        return (
            f"another {self.command} of {self.flow} runs on this machine{who}; wait until it has ended: what it has"
            f" done is then in: raymirror dr status '{self.flow}'"
        )


@contextmanager
def only_one(command: str, flow: str, target: str, env: Mapping[str, str]) -> Iterator[None]:
    """Hold the lock of a command and a flow while the block runs; `target`: the addresses of the flow's target.

    Raises CommandRuns if another process has it, OSError if the file cannot be made.
    """
    folder = session.folder(env).parent / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{command} {flow} {target}".encode()).hexdigest()[:32]
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandRuns(command, flow, _read(handle)) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, msgspec.json.encode(LockNote(pid=os.getpid(), since_ms=wall_ms())), 0)
        yield
    finally:
        os.close(handle)


def _read(handle: int) -> LockNote | None:
    try:
        return msgspec.json.decode(os.pread(handle, 1000, 0), type=LockNote)
    except msgspec.DecodeError:  # its owner has just taken it
        return None
