"""The mirror under test: the real `raymirror run` in a separate process, and its actors by pid."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.errors import BenchError

NAME = "bench"
COPIERS = 2
COPIER, SUPERVISOR, METADATA = "ray::Copier", "ray::Supervisor", "ray::Metadata"
"""Prefixes of the titles of the actors' processes, in every release."""
_STOP_S = 60.0
_POLL_S = 0.1
_ROOT = Path(__file__).parents[2]


def write_config(file: Path, source: str, target: str, topics: str, more: Mapping[str, str]) -> None:
    """Write an `mm2.properties` of one flow; `more` wins."""
    properties = {
        "clusters": "source, target",
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "source->target.enabled": "true",
        "source->target.topics": topics,
        "source->target.raymirror.copiers": str(COPIERS),
        # Interval of discovery of new topics and partitions; ten minutes by default, as in MirrorMaker 2.
        "refresh.topics.interval.seconds": "1",
        "replication.factor": "3",
        "offset.storage.replication.factor": "3",
        "emit.heartbeats.enabled": "false",  # only the load is judged
        **more,
    }
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))


class MirrorRun:
    """One `raymirror run`, on the Ray cluster that `env` names, otherwise on local Ray. `name`: empty for the usual;
    `more`: other words of its command line.
    """

    def __init__(
        self,
        config: Path,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        name: str = NAME,
        more: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self.log_file, self._errors = folder / "run.jsonl", folder / "run.err"
        given = env or {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        self.env = {**given, "XDG_STATE_HOME": str(folder.parent / "state"), "PYTHONPATH": str(_ROOT)}
        named = ["--name", name] if name else []
        self._words = ["run", str(config), *named, *more, "--json"]
        self.process = self._start()

    def restart(self, code: Path = _ROOT) -> None:
        """Start the command again after it ended, also from another checkout; the output goes to the same file."""
        self.env["PYTHONPATH"] = str(code)
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log_file.open("ab") as out, self._errors.open("ab") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "actors", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.env,
                cwd=self._folder,
                start_new_session=True,
            )

    def require_running(self) -> None:
        """Raise BenchError with the command's output if it has ended."""
        if self.process.poll() is not None:
            raise BenchError("raymirror", f"`run` ended with {self.process.returncode}: {self.told()}")

    def told(self) -> str:
        """Return the end of its output, with its last events."""
        status = self.status()
        events = [f"{event['severity']}: {event['text']}" for event in status.get("events", [])[-12:]]
        return "\n".join([self._errors.read_text(errors="replace")[-1500:].strip(), *events])

    def status(self) -> dict[str, Any]:
        """Return the last status that it printed; empty before the first."""
        with self.log_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * 1024 * 1024))
            lines = file.read().split(b"\n")
        whole = [line for line in lines[:-1] if line.startswith(b"{")]
        return json.loads(whole[-1]) if whole else {}

    def events_since(self, since_ms: int) -> list[dict[str, Any]]:
        """Return every event since an instant from all statuses: groups cause many events, one status has few."""
        found: dict[tuple[int, str], dict[str, Any]] = {}
        with self.log_file.open("rb") as lines:
            for line in lines:
                if line.startswith(b"{") and line.endswith(b"\n"):
                    found |= {(one["at_ms"], one["text"]): one for one in json.loads(line)["events"]}
        return [one for (at_ms, _), one in found.items() if at_ms >= since_ms]

    def actors(self, title: str) -> list[psutil.Process]:
        """List its living actor processes of a title, oldest first; local Ray only."""
        found = [one for one in _tree(self.process.pid) if is_actor(one, title)]
        return sorted(found, key=lambda one: (one.create_time(), one.pid))

    def end(self) -> bool:
        """Ask it to drain and wait; kill its processes by pid if it does not end. Return whether it ended in order;
        true if it was killed before.
        """
        if self.process.returncode == -signal.SIGKILL:
            return True
        tree = _tree(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        give_up_at = time.monotonic() + _STOP_S
        while self.process.poll() is None and time.monotonic() < give_up_at:
            tree |= _tree(self.process.pid)
            time.sleep(_POLL_S)
        in_order = self.process.poll() == 0
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        _, left = psutil.wait_procs(tree, timeout=5.0)
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(left, timeout=5.0)
        return in_order


def is_actor(process: psutil.Process, title: str) -> bool:
    """Whether a living process has such a title: Ray names an actor's process `ray::CLASS`, followed by a method."""
    try:
        return "".join(process.cmdline()[:1]).startswith(title) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tree(pid: int) -> set[psutil.Process]:
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()
