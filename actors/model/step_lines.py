"""The lines in which a long command says which step it does: commands print them, the HTTP server reads them.

3.4 s  step 2 of 9, drain: copy what the source still has
3.5 s    1,204 records are left
"""

import re
from typing import Final

import msgspec

_STEP: Final = re.compile(r"step (\d{1,4}) of (\d{1,4}), (undo )?([a-z][a-z-]*): (.*)", re.DOTALL)
_LINE: Final = re.compile(r" *(\d{1,9}\.\d) s  (.*)")
TOLD: Final = "  "
"""Begins what a step tells about itself, after the time."""


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """A step that begins: its number from 1 on, of how many, its name, what it does, whether it is taken back."""

    number: int
    of: int
    name: str
    does: str
    is_undo: bool = False

    def __str__(self) -> str:
        undo = "undo " if self.is_undo else ""
        return f"step {self.number} of {self.of}, {undo}{self.name}: {self.does}"


class ShownLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a command has printed `since_s` seconds after its begin; `step`: the one that begins with it."""

    since_s: float
    text: str
    step: StepLine | None = None


def timed(since_s: float, text: str) -> str:
    """Return a line with the time at which it is printed."""
    return f"{since_s:5.1f} s  {text}"


def read_line(line: str) -> ShownLine | None:
    """Read a line of `timed`; None if it is another one, as a warning or an error."""
    found = _LINE.fullmatch(line.rstrip())
    if found is None:
        return None
    since_s, text = float(found[1]), found[2]
    step = _STEP.fullmatch(text)
    if step is None:
        return ShownLine(since_s=since_s, text=text.strip())
    number, of, undo, name, does = step.groups()
    read = StepLine(number=int(number), of=int(of), name=name, does=does, is_undo=undo is not None)
    return ShownLine(since_s=since_s, text=text, step=read)
