"""Drills of a mirror, one after the other, while its latency is measured: each as the mirror's own schedule runs it."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.errors import BenchError

_ROOT = Path(__file__).parents[2]
_NICE = 19
_DONE = (0, 4)
_PATIENCE_S = "120"


class Drills:
    """A context in which drills of a flow run; `count`: how many have ended. Its exit waits for the last one."""

    def __init__(self, flow: str, config: Path, environment: Mapping[str, str]) -> None:
        self._words = ("dr", "drill", flow, "--config", str(config), "--timeout", _PATIENCE_S, "--json")
        self._folder = config.parent
        self._env = {**os.environ, **environment, "PYTHONPATH": str(_ROOT)}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._why = ""
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join()

    def require_done(self) -> None:
        """Raise BenchError if a drill did not come to its end, or none has ended."""
        if self._why or not self.count:
            raise BenchError("raymirror dr drill", self._why or "no drill has ended")

    def _run(self) -> None:
        while not self._ends.is_set() and not self._why:
            with (self._folder / "drill.out").open("wb") as out, (self._folder / "drill.err").open("wb") as err:
                process = subprocess.Popen(
                    [sys.executable, "-m", "actors", *self._words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env=self._env,
                    cwd=self._folder,
                )
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
                code = process.wait()
            if code in _DONE:
                self.count += 1
            else:
                said = (self._folder / "drill.err").read_text(errors="replace").strip()
                self._why = f"it ended with {code}: {said[-400:]}"
