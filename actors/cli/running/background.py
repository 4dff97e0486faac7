"""Starts `raymirror run` in the background: its own process and its own process session, without a terminal."""

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
"""Seconds until the mirror must answer."""
BEGUN_S = 30.0
"""Seconds that a mirror that answers may take until it copies, waits or ends; a slower mirror counts as running."""
POLL_S = 0.2


class NotStarted(MirrorError):
    """The background process has ended, or did not become ready in time."""

    exit_code = 1

    def __init__(self, what: str, log: str) -> None:
        super().__init__(what, log)
        self.what, self.log = what, log

    def __str__(self) -> str:
        return f"the mirror did not start in the background: {self.what}; see {self.log}"


def run_in_background(config: Path, namespace: str, log_file: Path | None = None) -> str:
    """Start `raymirror run` without this terminal, wait until its mirror has begun, and return a text about it.

    Raises NotStarted, AlreadyRunning, AlreadyStarting.
    """
    name = session.short_name(namespace)
    log = log_file.absolute() if log_file else session.folder(os.environ) / f"{namespace}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=_private) as out:  # for output before the process opens the file itself
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "actors",
                "run",
                str(session.absolute(config)),
                "--name",
                name,
                "--log-file",
                str(log),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _await_start(Child(child, config, namespace, log))
    return (
        f"mirror {name} runs in process {child.pid}; its output goes to {log}\n"
        f"show it: raymirror status --mirror {name}; stop it: raymirror stop --mirror {name}"
    )


class Child(NamedTuple):
    """A `raymirror run` process in the background."""

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
            config = str(session.absolute(self.config))
            session.refuse_second(self.namespace, os.environ, config=config)
            refuse_starting(self.namespace, config, os.environ)
        ended = f"process {self.process.pid} ended with exit code {self.process.returncode}"
        raise NotStarted(f"{ended}: {why}" if why else ended, str(self.log))

    def place(self) -> session.MirrorPlace | None:
        """Find the mirror of this process; None while it does not answer commands yet."""
        try:
            place = session.find(None, self.namespace, {**os.environ, "RAY_ADDRESS": ""})
        except session.NoMirror:
            return None
        return place if place.pid == self.process.pid else None


def _await_start(child: Child) -> None:
    """Wait until the mirror answers, then up to BEGUN_S until it has begun: if another mirror owns its flows, it ends
    by itself. Raises NotStarted, AlreadyRunning, AlreadyStarting.
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
    """Whether this mirror is known to own some flow, because it discovered topics. A mirror that waits for a cluster
    may have discovered nothing for hours, and counts too.
    """
    if status.phase == "running":  # this phase alone only says that its copiers are ready
        return any(flow.topics or flow.is_lag_known for flow in status.flows)
    return status.phase == "waiting"


def _status(place: session.MirrorPlace) -> MirrorStatus | None:
    """Ask the mirror over its socket; None if it does not answer or has no socket."""
    with suppress(MirrorError):
        return status_of(place)
    return None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
