"""Limits two things while a process follows a mirror for months: its output file, and the logs of ended Ray workers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from actors.cli.common.output_file import OutputFile
from actors.ray.ray_logs import prune_ended
from engine.base.clock import now_s

PRUNE_S: Final = 600.0
"""Seconds between two prunings of Ray's logs."""


class Housekeeping:
    """Runs once a second. `output`: the output file; `logs`: the log folder of a Ray that this process started."""

    def __init__(self, output: OutputFile | None, logs: Path | None, clock: Callable[[], float] = now_s) -> None:
        self._output, self._logs, self._clock = output, logs, clock
        self._prune_at_s = clock() + PRUNE_S
        self._said = ""

    def run_due(self) -> None:
        """Do what is due; a failure is printed once and does not end the mirror."""
        try:
            self._run_due()
        except OSError as error:
            if str(error) != self._said:
                self._said = str(error)
                print(f"warning: old logs cannot be removed: {error}", file=sys.stderr)

    def _run_due(self) -> None:
        if self._output is not None:
            self._output.rotate_if_full()
        if self._logs is not None and self._clock() >= self._prune_at_s:
            self._prune_at_s = self._clock() + PRUNE_S
            prune_ended(self._logs)
