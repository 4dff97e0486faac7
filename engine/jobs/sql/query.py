"""Answers one query by DuckDB in this process, row by row: without files, network, extensions or changes.

    Arrow data sets --register--> DuckDB in memory --execute--> rows, some at a time

A query may read only what was registered. Memory is bounded: what does not fit goes to a folder that is deleted at the
end, up to half of the space that is free there.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine.base.errors import MirrorError, WrongQuestion

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
_RIGHT = "give one SELECT, DESCRIBE or EXPLAIN"
_RIGHT_ALONE = "give one SELECT"
_OF_A_PIVOT = "; DuckDB makes several of a PIVOT unless its values are named: PIVOT t ON column IN ('a', 'b') USING ..."
_ROWS_AT_ONCE = 1_000
_LOCKED = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",  # else a query could name Python variables of this process
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class SqlFailed(MirrorError):
    """A query has no answer: DuckDB's reason in one line, and what to do about it; empty: nothing is known."""

    def __init__(self, why: str, right: str = "") -> None:
        super().__init__(why, right)
        self.why, self.right = why, right

    def __str__(self) -> str:
        return f"{self.why}; {self.right}" if self.right else self.why


class SqlWrong(SqlFailed, WrongQuestion):
    """A query is wrong: it is not one SELECT, names what is not there, asks for what is forbidden, or for too much."""


class SqlAnswer:
    """The rows of a query, which can be read once; the names of `columns` are distinct. `types`: in DuckDB's words."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        described = connection.description or ()
        self.columns = _distinct(str(one[0]) for one in described)
        self.types = tuple(str(one[1]) for one in described)
        self._connection = connection

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows; memory holds a thousand. Raises SqlFailed, also after some rows."""
        while rows := self._some():
            yield from rows

    def _some(self) -> list[tuple[Any, ...]]:
        with _told_in_one_line():
            return self._connection.fetchmany(_ROWS_AT_ONCE)


class SqlSession:
    """DuckDB with some tables that can only be read."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._connection = connection

    def register(self, name: str, data: Any) -> None:
        """Give a table a name; `data`: a table, a data set or a reader of pyarrow."""
        self._connection.register(name, data)

    def define(self, name: str, select: str) -> None:
        """Name a query, so that others can read from it. Raises SqlFailed."""
        with _told_in_one_line():
            self._connection.execute(f'CREATE VIEW "{name}" AS {select}')

    def ask(self, query: str, *, explains: bool = True) -> SqlAnswer:
        """Begin one query that reads. Raises SqlFailed.

        `explains`: whether it may be an EXPLAIN. EXPLAIN ANALYZE runs what it explains, also what writes, and the
        folder of what does not fit in memory may be written to.
        """
        import duckdb

        with _told_in_one_line():
            statements = self._connection.extract_statements(query)
        fine = {duckdb.StatementType.SELECT, *((duckdb.StatementType.EXPLAIN,) if explains else ())}
        if len(statements) != 1 or statements[0].type not in fine:
            right = _RIGHT if explains else _RIGHT_ALONE
            raise SqlWrong("this is not one statement that reads", right + ("pivot" in query.lower()) * _OF_A_PIVOT)
        with _told_in_one_line():
            return SqlAnswer(self._connection.execute(statements[0]))


@contextmanager
def sql_session(settings: Mapping[str, str] | None = None) -> Iterator[SqlSession]:
    """Open DuckDB in memory; `settings` are further ones of DuckDB's."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="raymirror-sql-") as spilled:
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": MEMORY,
            "temp_directory": spilled,
            # Without a limit DuckDB fills nine tenths of the disk, on which the mirror may run.
            "max_temp_directory_size": f"{shutil.disk_usage(spilled).free // 2_000}KB",
            **(settings or {}),
        }
        with duckdb.connect(":memory:", config=config) as connection:
            for setting in _LOCKED:
                connection.execute(setting)
            yield SqlSession(connection)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Turn an error of DuckDB into one line. Raises SqlFailed; SqlWrong, unless DuckDB or a file is to blame."""
    import duckdb

    try:
        yield
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        raise SqlWrong(_reason(error), "raymirror sql lists the tables and columns") from None
    except (duckdb.IOException, duckdb.InternalException, duckdb.FatalException, duckdb.InterruptException) as error:
        raise SqlFailed(_reason(error)) from None
    except duckdb.Error as error:
        raise SqlWrong(_reason(error)) from None


def _reason(error: Exception) -> str:
    """Return the first paragraph as one line: the others repeat the query, or advise to install extensions."""
    return " ".join(str(error).strip().partition("\n\n")[0].split())


def _distinct(names: Iterator[str]) -> tuple[str, ...]:
    """Number the repetitions of a name: a, a_2, a_3."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(found)
