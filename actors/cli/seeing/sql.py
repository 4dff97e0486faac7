"""`raymirror sql QUERY`: asks raymirror's tables in SQL; without a query, lists tables and columns."""

import argparse
import sys
from collections.abc import Iterator

from rich.text import Text

from actors.cli.common import exits
from actors.cli.seeing.history import add_history_arguments, find_place
from actors.cli.seeing.sql_output import Rows, print_csv, print_json, print_table
from actors.cli.seeing.tables import NoTables
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table

_ROWS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY", help="one SELECT (quote it); default: list the columns")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per row")
    form.add_argument("--csv", action="store_true", help="print comma-separated values, with a line of names")
    form.add_argument("--rows", type=_count, default=_ROWS, metavar="N", help=f"print N rows at most ({_ROWS})")
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_history_arguments(parser)
    parser.epilog = "docs/tables.md has the meaning of every column, and queries; exit code 2: the query is wrong"


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoTables, SqlFailed, TableError, BadStorage, ConfigError, SeveralMirrors."""
    if args.query is None:
        _print(args, ColumnListing()) if args.json or args.csv else show_tables()
        return exits.OK
    from engine.jobs.sql.query import sql_session  # DuckDB and pyarrow, which --help does not need
    from engine.jobs.sql.views import add_tables

    storage = find_place(args, NoTables).storage
    with sql_session() as session:
        if not add_tables(session, storage):
            raise NoTables(f"{storage.uri} has none")
        _print(args, session.ask(args.query))
    return exits.OK


def _print(args: argparse.Namespace, answer: Rows) -> None:
    if args.json:
        print_json(answer)
    elif args.csv:
        print_csv(answer)
    else:
        print_table(answer, args.rows)
    sys.stdout.flush()


class ColumnListing:
    """The columns of every table that raymirror may keep, as rows."""

    columns = ("table", "column", "type", "unit", "means")

    def rows(self) -> Iterator[tuple[str, ...]]:
        from engine.jobs.tables.catalog import TABLES

        for spec in TABLES:
            for one in spec.columns:
                yield spec.name, one.name, one.kind, one.unit, one.meaning


def show_tables() -> None:
    """Print every table that raymirror may keep, with its columns and their units."""
    from engine.jobs.tables.catalog import TABLES

    for spec in TABLES:
        print(f"\n{spec.name}: {spec.meaning}")
        drawn = plain_table(["  column", "type", "unit", "means"])
        for one in spec.columns:
            drawn.add_row(*(Text(cell) for cell in (f"  {one.name}", one.kind, one.unit, one.meaning)))
        stdout_console().print(drawn)
    sys.stdout.flush()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
