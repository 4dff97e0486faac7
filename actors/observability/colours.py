"""Colours of a terminal, each with one meaning: green works, yellow waits for something, red does not work.

A colour never adds to the words that it colours. Rich drops colours for `NO_COLOR`, and in a pipe.
"""

import sys
from typing import Final

from rich.console import Console
from rich.text import Text

SEVERITY: Final = {"info": "dim", "warning": "yellow", "error": "bold red"}
STATE: Final = {
    # of a mirror
    "starting": "yellow",
    "draining": "yellow",
    # of a flow, a partition
    "running": "green",
    "copying": "green",
    "watching": "green",
    "paused": "yellow",
    "unowned": "yellow",
    "troubled": "yellow",
    "waiting": "yellow",
    "settling": "yellow",
    "silent": "red",
    "stopped": "red",
    "refused": "bold red",
    "failed": "bold red",
}
"""Other words have no colour: a state that lasts only a moment needs no action."""
_WIDE: Final = 400


def state_text(state: str, shown: str = "") -> Text:
    """Return a state in its colour; `shown`: the text to show instead of its name."""
    return Text(shown or state, style=STATE.get(state, ""))


def count_text(count: int, style: str) -> Text:
    """Return a number that should be 0, coloured if it is not."""
    return Text(f"{count:,}", style=style if count else "")


def stdout_console() -> Console:
    """Return the console for tables: standard output; if that is no terminal, long lines are not cut off.

    Text is printed unchanged: a name or an error may have brackets or colons that rich would interpret.
    """
    width = None if sys.stdout.isatty() else _WIDE
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_severity(severity: str, line: str) -> None:
    """Print a line on standard output in the colour of its severity, as one line, however long."""
    stdout_console().print(Text(line, style=SEVERITY.get(severity, "")), soft_wrap=True)
