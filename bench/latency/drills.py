"""Drills of a mirror, one after the other, while its latency is measured: each as the mirror's own schedule runs it."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.dr.commands import WatchedCommand
from bench.errors import BenchError

_NICE = 19
_DONE = (0, 4)
_PATIENCE_S = "120"


class Drills:
    """A context in which drills of a flow run; `count`: how many have ended. Its exit waits for the last one."""

    def __init__(self, flow: str, config: Path, environment: Mapping[str, str]) -> None:
        self._words = ("dr", "drill", flow, "--config", str(config), "--timeout", _PATIENCE_S, "--json")
        self._folder = config.parent
        self._env = {**os.environ, **environment}
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
            try:
                outcome = WatchedCommand(self._words, self._folder, self._env, nice=_NICE).wait()
            except BenchError as error:
                self._why = str(error)
                return
            if outcome.code in _DONE:
                self.count += 1
            else:
                self._why = outcome.told
