"""Reads a table by deltalake alone, without pyarrow, as a process of little memory must.

It reads columns of all rows that a condition of SQL chooses, some thousand at a time. Of several rows of one thing it
returns each.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from engine.jobs.runtime.storage_access import access_of
from engine.jobs.runtime.storage_check import error_line
from engine.jobs.runtime.storage_files import delta_uri
from engine.jobs.tables.columns import TableSpec
from engine.jobs.tables.errors import TableDamaged, TableMissing, TableUnreachable, table_errors
from engine.jobs.tables.log import opened

_NAME = "rows_of_table"


def exists(uri: str) -> bool:
    """Whether there is a table. Raises TableUnreachable."""
    try:
        with table_errors(uri):
            DeltaTable(delta_uri(uri), storage_options=access_of(uri))
    except TableMissing:
        return False
    return True


def scan(uri: str, spec: TableSpec, columns: Sequence[str], where: str) -> Iterator[tuple[Any, ...]]:
    """Yield the chosen rows in any order; NULL for a column that an older table lacks. Raises TableError, NewerFormat.

    `where`: a condition; `quoted` makes a text of one.
    """
    with _reading(uri):
        handle = opened(uri, spec)
        there = {field.name for field in handle.schema().fields}
        asked = ", ".join(f'"{name}"' if name in there else f'NULL AS "{name}"' for name in columns)
        yield from _asked(handle, f"SELECT {asked} FROM {_NAME} WHERE {where}", len(columns))


def latest(uri: str, spec: TableSpec, where: str) -> int | None:
    """Return the latest `span` of the chosen rows; None if there are none. Raises TableError, NewerFormat."""
    with _reading(uri):
        query = f'SELECT max("{spec.span}") FROM {_NAME} WHERE {where}'
        ((found,),) = _asked(opened(uri, spec), query, 1)
        return None if found is None else int(found)


@contextmanager
def _reading(uri: str) -> Iterator[None]:
    """Raise what a reader raises as a TableError: its errors about files have no class of their own."""
    with table_errors(uri):
        try:
            yield
        except Exception as error:
            if type(error) is not Exception:
                raise
            kind = TableUnreachable if "Object Store error" in str(error) else TableDamaged
            raise kind(uri, error_line(error)) from None


def _asked(handle: DeltaTable, query: str, width: int) -> Iterator[tuple[Any, ...]]:
    for batch in QueryBuilder().register(_NAME, handle).execute(query):
        yield from zip(*(batch.column(place).to_pylist() for place in range(width)), strict=True)


def quoted(text: str) -> str:
    """Make a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
