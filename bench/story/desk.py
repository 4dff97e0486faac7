"""The desk of a person on duty: types commands of raymirror and of Kafka, each in a process of its own, and notes them.

It knows no more than a person does: a mirror is waited for by `raymirror status`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.errors import BenchError
from deploy.local.tools import run_tool

DEADLINE_S = 900.0
"""Seconds for anything that a person waits for: the machine may be busy."""
_LOOK_S = 2.0
_STOP_S = 120.0
_TOLD = 600
_DONE = (0, 4)
_STARTS = 3
"""How often a mirror is started whose Ray has not come up in time, as on a machine at its limit."""
_NO_RAY = "a local Ray did not start"
_ROOT = Path(__file__).parents[2]


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person did: the line, its seconds, and how many times it was given (a look that is repeated)."""

    line: str
    seconds: float
    times: int = 1


class Desk:
    """Commands in `folder`, with a state folder of their own there. `typed`: everything that was done, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.typed: list[Typed] = []
        self._env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(_ROOT),
        }
        self._mirror: subprocess.Popen[bytes] | None = None
        self._config: Path | None = None
        self._starts = 0

    # --- commands --------------------------------------------------------------------------------------------------

    def raymirror(self, *words: str, codes: tuple[int, ...] = (0,)) -> tuple[int, dict[str, Any]]:
        """Type a command with `--json`; return its exit code and its answer, empty if it printed none.

        Raises BenchError for another code, and for a code 0 or 4 without an answer.
        """
        began_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "actors", *words, "--json"],
            env=self._env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        self.note(" ".join(("raymirror", *words)), began_s)
        if done.returncode not in codes or (not done.stdout and done.returncode in _DONE):
            told = (done.stderr + done.stdout)[-_TOLD:]
            raise BenchError("raymirror", f"{' '.join(words)} ended with {done.returncode}: {told}{self.told()}")
        return done.returncode, json.loads(done.stdout or "{}")

    def kafka(self, main_class: str, *words: str) -> str:
        """Type one of Kafka's own commands; return what it prints. Raises ClusterError."""
        began_s = time.monotonic()
        said = run_tool(main_class, *words)
        self.note(" ".join((main_class.rpartition(".")[2], *words)), began_s)
        return said

    def note(self, line: str, began_s: float) -> None:
        """Note something that was done by other means, as an application that was stopped, from `began_s` until now."""
        seconds = round(time.monotonic() - began_s, 2)
        last = self.typed[-1] if self.typed else None
        if last is not None and last.line == line:
            self.typed[-1] = Typed(line=line, seconds=round(last.seconds + seconds, 2), times=last.times + 1)
        else:
            self.typed.append(Typed(line=line, seconds=seconds))

    # --- a long-running command ------------------------------------------------------------------------------------

    def start(self, command: list[str], line: str) -> None:
        """Start a mirror; `line`: what a person types for it."""
        self.note(line, time.monotonic())
        with self._log.open("ab") as log:
            self._mirror = subprocess.Popen(
                command,
                env=self._env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_mirror(self, config: Path) -> None:
        """Type `raymirror run CONFIG`; `until` types it again if its Ray does not come up."""
        self._config, self._starts = config, self._starts + 1
        self.start([sys.executable, "-m", "actors", "run", str(config)], f"raymirror run {config.name}")

    def until(self, holds: Callable[[Mapping[str, Any]], bool], what: str) -> None:
        """Ask the running mirror for its status until that holds. Raises BenchError."""
        give_up_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < give_up_s:
            self._start_again()
            self.require_running()
            done = subprocess.run(
                [sys.executable, "-m", "actors", "status", "--json"],
                env=self._env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=DEADLINE_S,
                check=False,
            )
            if done.returncode == 0 and holds(json.loads(done.stdout)):
                self._starts = 0
                return
            time.sleep(_LOOK_S)
        raise BenchError("raymirror", f"not so within {DEADLINE_S:.0f} s: {what}{self.told()}")

    def _start_again(self) -> None:
        is_over = self._mirror is not None and self._mirror.poll() is not None
        if is_over and self._config is not None and _NO_RAY in self.told() and self._starts < _STARTS:
            self.start_mirror(self._config)

    def require_running(self) -> None:
        """Raise BenchError if the mirror has ended."""
        if self._mirror is None or self._mirror.poll() is not None:
            raise BenchError("mirror", f"it does not run{self.told()}")

    def wait_ended(self) -> None:
        """Wait until the mirror has ended by itself: its last flow is stopped. Raises BenchError."""
        if self._mirror is not None:
            try:
                self._mirror.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                raise BenchError("mirror", f"it has not ended{self.told()}") from None
            self._mirror = None

    def stop(self, line: str) -> None:
        """End the mirror in order; `line`: what a person types for it."""
        began_s = time.monotonic()
        self._signal_and_wait(signal.SIGTERM)
        self.note(line, began_s)

    def kill(self) -> None:
        """End the mirror with all its processes at once, as its machine would end."""
        if self._mirror is not None:
            doomed = psutil.Process(self._mirror.pid).children(recursive=True)
            self._mirror.kill()
            self._mirror.wait()
            _kill(doomed)
            self._mirror = None

    def close(self) -> None:
        """End what still runs."""
        self._signal_and_wait(signal.SIGTERM)

    def told(self) -> str:
        """Return the end of the mirror's output."""
        text = self._log.read_text(errors="replace")[-_TOLD:].strip() if self._log.exists() else ""
        return f"; the mirror printed: {text}" if text else ""

    @property
    def _log(self) -> Path:
        return self.folder / "mirror.log"

    def _signal_and_wait(self, number: signal.Signals) -> None:
        mirror, self._mirror = self._mirror, None
        if mirror is None or mirror.poll() is not None:
            return
        tree = psutil.Process(mirror.pid).children(recursive=True)
        mirror.send_signal(number)
        try:
            mirror.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            mirror.kill()
            mirror.wait()
        _, left = psutil.wait_procs(tree, timeout=_LOOK_S)
        _kill(left)


def _kill(processes: list[psutil.Process]) -> None:
    for one in processes:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=5.0)
