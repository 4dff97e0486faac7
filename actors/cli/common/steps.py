"""Prints the steps of a start as each one begins: the last line says what the command waits for, and since when."""

import sys
from typing import Final, TextIO

from actors.local.ending import FULL, LOST
from actors.model.step_lines import timed
from engine.base.clock import now_s

_UNSEEN: Final = (*FULL, *LOST)
"""Errors of a print that only lose the line, and the start continues; the view handles lost output later."""


class StartSteps:
    """Prints one line per step, with the seconds since the command began; nothing if `quiet`, as for JSON output."""

    def __init__(self, *, quiet: bool, out: TextIO | None = None) -> None:
        self._quiet, self._out = quiet, out
        self._began_s = now_s()

    def say(self, text: str) -> None:
        if self._quiet:
            return
        stream = self._out or sys.stdout
        line = timed(now_s() - self._began_s, text)
        try:
            if stream.isatty():
                _print_rich(stream, line.removesuffix(text), text)
            else:
                print(line, file=stream, flush=True)
        except OSError as error:
            if error.errno not in _UNSEEN:
                raise


def _print_rich(stream: TextIO, since: str, text: str) -> None:
    from rich.console import Console  # a log needs no rich
    from rich.text import Text

    Console(file=stream).print(Text.assemble((since, "dim"), text), soft_wrap=True)
