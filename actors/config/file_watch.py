"""Watches the configuration file (`raymirror.reload = watch`): an edited file is applied by `raymirror reload` itself.

The command runs in a process of its own. So a watched file is read, checked and applied exactly as by hand, and the
supervisor needs none of the clients that ask the clusters. The file is looked at once a second. Notices of the kernel
(inotify) were rejected: they follow no symbolic link, miss changes on network file systems and end with the folder that
Kubernetes replaces. A look at the file finds all of that, for 10 us.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from actors.config.config_ref import is_edited
from actors.local import session
from actors.model.messages import ConfigRef
from engine.base.clock import Backoff, now_s

LOOK_S = 1.0
"""Seconds between two looks at the file."""
AGAIN = Backoff(30.0, 600.0)
"""Pauses before a refused file is tried again: a cluster may have been unreachable."""
RUN_S = 600.0
"""Seconds after which the command is ended: it waits for clusters, and for Spark to end in order."""
_MOST_LETTERS = 2000


class FileStamp(NamedTuple):
    """What changes when a file changes: the path behind all symbolic links, and the facts of that file."""

    path: str
    device: int
    inode: int
    changed_ns: int
    size: int


def stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of a file; None while there is none, or while it cannot be read."""
    try:
        real = os.path.realpath(path)
        found = os.stat(real)
    except OSError:
        return None
    return FileStamp(real, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


class FileWatch:
    """Says once that a file has changed, when two looks in a row have found it the same: a half-written file waits."""

    def __init__(self, stamp: Callable[[str], FileStamp | None] = stamp_of) -> None:
        self._stamp = stamp
        self._seen: FileStamp | None = None
        self._told: FileStamp | None = None

    def look(self, path: str) -> bool:
        """Look at the file; return whether it has changed since this was last true."""
        found = self._stamp(path)
        is_quiet, self._seen = found is not None and found == self._seen, found
        if not is_quiet or found == self._told:
            return False
        self._told = found
        return True


class ReloadOutcome(NamedTuple):
    """How the command ended: its exit code (`actors/cli/common/exits.py`), and why, empty if it applied the file."""

    code: int
    why: str = ""


class FileFollower:
    """Applies a watched file whenever it changes, and reports once why a file cannot be applied."""

    def __init__(self, apply: Callable[[str], ReloadOutcome], refused: Callable[[str], None]) -> None:
        self._apply, self._refused = apply, refused
        self._watch = FileWatch()
        self._told = ""
        self._failures = 0
        self._again_s: float | None = None

    async def look(self, ref: ConfigRef) -> None:
        """Look at the file of the running configuration; if it has changed, apply it, and wait until that is done."""
        changed = await asyncio.to_thread(self._watch.look, ref.path)
        if changed:
            self._failures = 0
        elif self._again_s is None or now_s() < self._again_s:
            return
        self._again_s = None
        if not await asyncio.to_thread(is_edited, ref):
            self._told = ""
            return
        self._note(await asyncio.to_thread(self._apply, ref.path))

    def _note(self, outcome: ReloadOutcome) -> None:
        if not outcome.code:
            self._told, self._failures = "", 0
            return
        self._failures += 1
        self._again_s = now_s() + AGAIN.after_s(self._failures)
        if outcome.why != self._told:
            self._told = outcome.why
            self._refused(outcome.why)


def command(path: str, namespace: str, address: str, env: Mapping[str, str]) -> list[str]:
    """Return the command that applies a file to a mirror. `address`: of its Ray, if this machine has no state file."""
    name = session.short_name(namespace)
    words = [sys.executable, "-m", "actors", "reload", path, "--mirror", name, "--json"]
    return words if session.living(env, name) else [*words, "--address", address]


def apply_file(path: str, namespace: str, address: str) -> ReloadOutcome:
    """Run `raymirror reload` for a file, and wait for its end. Call it in a thread."""
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    words = command(path, namespace, address, env)
    try:
        done = subprocess.run(
            words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ReloadOutcome(1, f"raymirror reload did not end within {RUN_S:g} s")
    return ReloadOutcome(done.returncode, _why(done.stdout, done.stderr) if done.returncode else "")


def _why(printed: str, said: str) -> str:
    """Return in one line why the command refused: what it lists as refused, else what it says last."""
    try:
        refused = [str(one) for one in json.loads(printed)["refused"]]
    except (ValueError, KeyError, TypeError):
        refused = []
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("warning:")]
    return "; ".join(refused or lines)[:_MOST_LETTERS] or "raymirror reload says nothing"
