"""Prints rows with columns, such as the answer of a query: as a table for people, as JSON lines, as CSV."""

import csv
import datetime
import decimal
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec
from rich.table import Table
from rich.text import Text

from actors.api.commands.pages import SqlColumn, SqlPage
from actors.cli.common import exits
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from engine.base.errors import WrongQuestion
from policies.words import counted

MOST_PAGE: Final = 8 * 1024 * 1024
"""Bytes of the rows of a page."""


class Rows(Protocol):
    """Rows that come one after another; `columns` are their names."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def types(self) -> tuple[str, ...]: ...
    def rows(self) -> Iterator[tuple[Any, ...]]: ...


class FirstRows:
    """At most some rows of others; None: all."""

    def __init__(self, rows: Rows, most: int | None) -> None:
        self._rows, self._most = rows, most
        self.columns, self.types = rows.columns, rows.types

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows. Raises SqlFailed."""
        return islice(self._rows.rows(), self._most)


class RemoteRows:
    """The rows that a mirror behind `--url` has answered, with the values that they had there."""

    def __init__(self, page: SqlPage) -> None:
        self.columns = tuple(one.name for one in page.columns)
        self.types = tuple(one.type for one in page.columns)
        self.has_more, self.number = page.more, len(page.rows)
        self._page = page

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows; behind them an empty one if there are more: who reads so far knows it."""
        for row in self._page.rows:
            yield tuple(_value(kind, value) for kind, value in zip(self.types, row, strict=True))
        if self.has_more:
            yield ()


def _value(kind: str, value: Any) -> Any:
    """Return a value as DuckDB gives it, which JSON has as text."""
    wanted = next((one for begin, one in _IN_TEXT.items() if kind.startswith(begin)), None)
    if wanted is None or value is None or kind.endswith("]"):
        return value
    return msgspec.convert(value, wanted)


_IN_TEXT: Final[dict[str, Any]] = {
    "TIMESTAMP": datetime.datetime,
    "DATE": datetime.date,
    "TIME": datetime.time,
    "INTERVAL": datetime.timedelta,
    "DECIMAL": decimal.Decimal,
    "BLOB": bytes,
}
"""By the begin of the name of DuckDB's type; the first that fits."""


def print_page(answer: Rows, most_rows: int) -> None:
    """Print one JSON object with at most `most_rows` rows and MOST_PAGE bytes. Raises SqlFailed, RowTooLarge."""
    kept: list[msgspec.Raw] = []
    size, more = 0, False
    for row in answer.rows():
        data = _json(row).encode()
        if len(data) > MOST_PAGE:
            raise RowTooLarge(len(kept) + 1)
        size += len(data)
        if len(kept) == most_rows or size > MOST_PAGE:
            more = True
            break
        kept.append(msgspec.Raw(data))
    columns = [SqlColumn(name=name, type=kind) for name, kind in zip(answer.columns, answer.types, strict=True)]
    sys.stdout.write(_json({"columns": columns, "rows": kept, "more": more}) + "\n")


class RowTooLarge(WrongQuestion):
    """A row of an answer is too large for a page: its number."""

    exit_code = exits.UNUSABLE

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"row {self.number:,} has more than {MOST_PAGE // 2**20} MiB; select less of it"


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
