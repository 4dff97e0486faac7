"""The command line in separate processes, with a separate state folder."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.local import session
from actors.local_socket.client import status_of
from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import MirrorError

ROOT = Path(__file__).parents[2]
DEADLINE_S = 180.0


class Shell:
    """Runs raymirror commands in processes of their own, with a state folder of their own; `env` says which Ray they
    use, without it `run` starts one.
    """

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.started: subprocess.Popen[bytes] | None = None
        self.env = {
            **(env or {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
        }

    def __call__(self, *words: str, deadline_s: float = DEADLINE_S) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "actors", *words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=deadline_s,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command, its output going to a file."""
        with (self.folder / "run.log").open("ab") as log:
            self.started = subprocess.Popen(
                [sys.executable, "-m", "actors", *words], env=self.env, cwd=self.folder, stdout=log, stderr=log
            )
        return self.started

    def status(self) -> dict[str, Any]:
        """Ask the running mirror; empty while there is none."""
        done = self("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def until(self, condition: Callable[[dict[str, Any]], bool], deadline_s: float = DEADLINE_S) -> dict[str, Any]:
        """Ask until the answer of the command is right."""
        deadline = time.monotonic() + deadline_s
        status: dict[str, Any] = {}
        while time.monotonic() < deadline and (self.started is None or self.started.poll() is None):
            glance = self._glance()
            status = self.status() if glance is None or (glance and condition(glance)) else glance
            if status and condition(status):
                return status
            time.sleep(0.2)
        run_log = self.folder / "run.log"
        log = run_log.read_text()[-3000:] if run_log.exists() else "(it was not started from here)"
        pytest.fail(f"not so within {deadline_s:.0f} s; last status {status}; the mirror printed:\n{log}")

    def _glance(self) -> dict[str, Any] | None:
        """Ask the mirror's socket from this process: the answer of the command, which takes a process each time.

        Empty without a mirror; None if only the command can say, through Ray or with an error.
        """
        try:
            found = status_of(session.find(None, None, self.env), lanes=True)
        except session.NoMirror:
            return {}
        except MirrorError:
            return None
        return None if found is None else json.loads(msgspec.json.encode(found))


def copied(records: int) -> Callable[[dict[str, Any]], bool]:
    """Whether every partition of the one flow is at its end, and so many records behind it."""

    def check(status: dict[str, Any]) -> bool:
        flow = status["flows"][0]
        at = sum(max(0, lane["source_next"]) for lane in status["lanes"])
        return bool(flow["unknown_lanes"] == 0 and flow["lag_records"] == 0 and at == records)

    return check


def write_config(
    folder: Path,
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    topics: str,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write an `mm2.properties` of one flow, source->target, with further settings."""
    path = folder / "mm2.properties"
    more = "".join(f"{key} = {value}\n" for key, value in (settings or {}).items())
    path.write_text(
        "clusters = source, target\n"
        f"source.bootstrap.servers = {source.bootstrap_servers}\n"
        f"target.bootstrap.servers = {target.bootstrap_servers}\n"
        "source->target.enabled = true\n"
        f"source->target.topics = {topics}\n"
        "replication.factor = 1\n"
        "offset.storage.replication.factor = 1\n"
        "emit.heartbeats.enabled = false\n"
        "heartbeats.replication.enabled = false\n"  # others of the shared clusters have theirs
        "refresh.topics.interval.seconds = 1\n"
        f"{more}"
    )
    return path
