"""Prints rows with columns, such as the answer of a query: as a table for people, as JSON lines, as CSV."""

import csv
import datetime
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import msgspec
from rich.table import Table
from rich.text import Text

from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from policies.words import counted


class Rows(Protocol):
    """Rows that come one after another; `columns` are their names."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def rows(self) -> Iterator[tuple[Any, ...]]: ...


def print_table(answer: Rows, most_rows: int) -> None:
    """Print at most `most_rows` rows, and say if there are more. Raises SqlFailed."""
    rows = answer.rows()
    shown = list(islice(rows, most_rows))
    stdout_console().print(table(answer.columns, shown))
    if next(rows, None) is not None:
        print(f"there are more than {counted(most_rows, 'row')}: --rows N shows N, --json and --csv write all")
    elif not shown:
        print("no rows")


def print_json(answer: Rows) -> None:
    """Print one JSON object per row. Raises SqlFailed."""
    for row in answer.rows():
        sys.stdout.write(_json(dict(zip(answer.columns, row, strict=True))) + "\n")


def print_csv(answer: Rows) -> None:
    """Print a line of names and a line per row; NULL is an empty field. Raises SqlFailed."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_field(value) for value in row] for row in answer.rows())


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Draw rows; numbers are aligned to the right."""
    drawn = plain_table((), whole=not sys.stdout.isatty())
    for name, values in zip(columns, zip(*rows, strict=True) if rows else [()] * len(columns), strict=True):
        number = _are_numbers(values)
        drawn.add_column(Text(name), justify="right" if number else "left", no_wrap=number or not sys.stdout.isatty())
    for row in rows:
        drawn.add_row(*(Text(cell(value)) for value in row))
    return drawn


def cell(value: Any) -> str:
    """Return a value as people read it: NULL is `-`, times are UTC to the second, three digits of a fraction."""
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:.3f}".rstrip("0").rstrip(".")
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(" ", "seconds")
        case _:
            return _field(value)


def _are_numbers(values: Iterable[Any]) -> bool:
    kinds = {type(value) for value in values if value is not None}
    return bool(kinds) and all(issubclass(kind, int | float) and kind is not bool for kind in kinds)


def _field(value: Any) -> str:
    """Return a value as text: what is no single value is JSON."""
    match value:
        case None:
            return ""
        case list() | dict() | tuple() | bytes() | bool():
            return _json(value)
        case _:
            return str(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
