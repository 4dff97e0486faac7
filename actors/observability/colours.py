"""Colours of a terminal, each with one meaning: green works, yellow waits for somebody, red does not work.

They say nothing that the words beside them do not. `NO_COLOR` takes them away (rich looks at it), a pipe has none.
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
"""Words that are not here have no colour: what begins or ends in a moment needs nobody."""
_WIDE: Final = 400


def state_text(state: str, shown: str = "") -> Text:
    """Say a state in its colour; `shown`: in other words."""
    return Text(shown or state, style=STATE.get(state, ""))


def count_text(count: int, style: str) -> Text:
    """Say a number that should be 0, in a colour where it is not."""
    return Text(f"{count:,}", style=style if count else "")


def stdout_console() -> Console:
    """Return where tables are printed: standard output, which cuts nothing off where it is no terminal.

    What is printed stands there as it is: a name or an error may hold brackets or colons that rich would read.
    """
    width = None if sys.stdout.isatty() else _WIDE
    return Console(width=width, highlight=False, markup=False, emoji=False)


def print_severity(severity: str, line: str) -> None:
    """Print a line on standard output in the colour of its severity, as one line, however long."""
    stdout_console().print(Text(line, style=SEVERITY.get(severity, "")), soft_wrap=True)
