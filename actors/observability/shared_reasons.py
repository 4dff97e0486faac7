"""Prints a long reason that many rows of a table share once, below the table; rows refer to it by number."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_SHORT = 24
"""Characters up to which a reason stays in every row."""


class SharedReasons:
    """The reasons of one table."""

    def __init__(self, reasons: Iterable[str]) -> None:
        counts = Counter(reasons)
        shared = [reason for reason, rows in counts.items() if rows > 1 and len(reason) > _SHORT]
        self._numbers = {reason: f"({number})" for number, reason in enumerate(shared, 1)}

    def cell(self, reason: str) -> str:
        """Return the number of a reason that several rows share, else the reason itself."""
        return self._numbers.get(reason, reason)

    def with_legend(self, table: Table) -> RenderableType:
        """Return the table with the numbered reasons below it, one per line."""
        return Group(table, *(Text(f"{number} {reason}") for reason, number in self._numbers.items()))
