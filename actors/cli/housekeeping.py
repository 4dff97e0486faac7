"""What a process that follows a mirror for months keeps small: its own output, and logs of Ray workers that ended."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from actors.cli.output_file import OutputFile
from actors.ray_logs import prune_ended
from engine.clock import now_s

PRUNE_S: Final = 600.0
"""Between two looks at Ray's logs."""


class Housekeeping:
    """Looked after once a second. `output`: the file that is printed into, `logs`: the folder of a Ray of our own."""

    def __init__(self, output: OutputFile | None, logs: Path | None, clock: Callable[[], float] = now_s) -> None:
        self._output, self._logs, self._clock = output, logs, clock
        self._prune_at_s = clock() + PRUNE_S
        self._said = ""

    def look(self) -> None:
        """Do what is due; a failure is said once and ends no mirror."""
        try:
            self._do_what_is_due()
        except OSError as error:
            if str(error) != self._said:
                self._said = str(error)
                print(f"warning: old logs are not cleared away: {error}", file=sys.stderr)

    def _do_what_is_due(self) -> None:
        if self._output is not None:
            self._output.turn()
        if self._logs is not None and self._clock() >= self._prune_at_s:
            self._prune_at_s = self._clock() + PRUNE_S
            prune_ended(self._logs)
