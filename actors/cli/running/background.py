"""A mirror on local Ray without a shell: `run` in a process of its own, in a session of its own."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from actors.cli.common import exits
from actors.local import session
from actors.local.reservation import refuse_starting
from actors.local_socket.client import status_of
from actors.model.status import MirrorStatus
from engine.base.errors import MirrorError

READY_S = 120.0
BEGUN_S = 30.0
"""How long a mirror that answers may take until it copies, waits or ends; a slower one is said to run all the same."""
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
    """Start `raymirror run` without this terminal, wait until its mirror has begun, say where it is.

    Raises NotStarted, AlreadyRunning, AlreadyStarting.
    """
    name = session.short_name(namespace)
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
    _await_start(Child(child, config, namespace, log))
    return (
        f"mirror {name} runs in process {child.pid}; its output goes to {log}\n"
        f"see it: raymirror status --mirror {name}; end it: raymirror stop --mirror {name}"
    )


class Child(NamedTuple):
    """A `run` in the background."""

    process: subprocess.Popen[bytes]
    config: Path
    namespace: str
    log: Path

    def refuse_ended(self, why: str = "") -> None:
        """Raise AlreadyRunning or AlreadyStarting if the process ended because of another `run`, else NotStarted if it
        has ended.
        """
        if self.process.poll() is None:
            return
        if self.process.returncode == exits.UNUSABLE:
            config = str(self.config.resolve())
            session.refuse_second(self.namespace, os.environ, config=config)
            refuse_starting(self.namespace, config, os.environ)
        ended = f"process {self.process.pid} ended with exit code {self.process.returncode}"
        raise NotStarted(f"{ended}: {why}" if why else ended, str(self.log))

    def place(self) -> session.MirrorPlace | None:
        """Find its mirror; None before it can be asked."""
        try:
            place = session.find(None, self.namespace, {**os.environ, "RAY_ADDRESS": ""})
        except session.NoMirror:
            return None
        return place if place.pid == self.process.pid else None


def _await_start(child: Child) -> None:
    """Wait until the mirror can be asked, and then, shorter, until it has begun: another mirror may own its flows, and
    then it ends by itself. Raises NotStarted, AlreadyRunning, AlreadyStarting.
    """
    ready_by = time.monotonic() + READY_S
    while (place := child.place()) is None:
        child.refuse_ended()
        if time.monotonic() > ready_by:
            raise NotStarted(f"process {child.process.pid} is not ready after {READY_S:.0f} s", str(child.log))
        time.sleep(POLL_S)
    begun_by = time.monotonic() + BEGUN_S
    refused = ""
    while time.monotonic() < begun_by:
        child.refuse_ended(refused)
        status = _status(place)
        if status is not None and has_begun(status):
            return
        refused = status.refused if status is not None and status.refused else refused
        time.sleep(POLL_S)


def has_begun(status: MirrorStatus) -> bool:
    """Whether some flow is known to be this mirror's: its topics were discovered. One that waits for a cluster may tell
    nothing for hours, and counts too.
    """
    if status.phase == "running":  # which says no more than that its copiers are ready
        return any(flow.topics or flow.is_lag_known for flow in status.flows)
    return status.phase == "waiting"


def _status(place: session.MirrorPlace) -> MirrorStatus | None:
    """Ask the mirror by its socket; None where it does not answer, or has none."""
    with suppress(MirrorError):
        return status_of(place)
    return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
