"""A mirror on local Ray without a shell: `run` in a process of its own, in a session of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from actors import session
from engine.errors import MirrorError

READY_S = 120.0
POLL_S = 0.2


class NotStarted(MirrorError):
    """The process in the background has ended, or did not get ready."""

    exit_code = 1

    def __init__(self, what: str, log: str) -> None:
        super().__init__(what, log)
        self.what, self.log = what, log

    def __str__(self) -> str:
        return f"the mirror did not start in the background: {self.what}; see {self.log}"


def run_in_background(config: Path, namespace: str, log_file: Path | None = None) -> str:
    """Start `raymirror run` without this terminal, wait until its mirror can be asked, say where it is.

    Raises NotStarted.
    """
    name = namespace.removeprefix(session.PREFIX)
    log = log_file.absolute() if log_file else session.folder(os.environ) / f"{namespace}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=_private) as out:  # what is printed before the process takes the file itself
        child = subprocess.Popen(
            [sys.executable, "-m", "actors", "run", str(config.resolve()), "--name", name, "--log-file", str(log)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_S
    while not any(state.namespace == namespace and state.pid == child.pid for state in session.living(os.environ)):
        if child.poll() is not None:
            raise NotStarted(f"process {child.pid} ended with exit code {child.returncode}", str(log))
        if time.monotonic() > deadline:
            raise NotStarted(f"process {child.pid} is not ready after {READY_S:.0f} s", str(log))
        time.sleep(POLL_S)
    return (
        f"mirror {name} runs in process {child.pid}; its output goes to {log}\n"
        f"see it: raymirror status --mirror {name}; end it: raymirror stop --mirror {name}"
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
