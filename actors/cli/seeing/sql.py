"""`raymirror sql QUERY`: asks raymirror's tables in SQL; without a query, lists tables and columns."""

import argparse
import sys
from collections.abc import Iterator

from rich.text import Text

from actors.api.commands.pages import SqlPage
from actors.api.queries import MOST
from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import count
from actors.cli.seeing.history import add_history_arguments, find_place
from actors.cli.seeing.sql_output import FirstRows, RemoteRows, Rows, print_csv, print_json, print_page, print_table
from actors.cli.seeing.tables import NoTables
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table

_ROWS = 100
PAGE_SETTINGS = {"memory_limit": "256MB", "max_temp_directory_size": "64MB", "threads": "2"}
"""Of a query that somebody asks over HTTP: it runs beside a mirror, and anybody with the role view may ask."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY", help="one SELECT (quote it); default: list the columns")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per row")
    form.add_argument("--csv", action="store_true", help="print comma-separated values, with a line of names")
    form.add_argument("--page", action="store_true", help="print one JSON object: columns with their types, and rows")
    parser.add_argument(
        "--rows",
        type=count,
        metavar="N",
        help=f"print N rows at most; 0: only the columns ({_ROWS}; with --json and --csv: all)",
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_history_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = "docs/tables.md has the meaning of every column, and queries; exit code 2: the query is wrong"


def run(args: argparse.Namespace) -> int:
    """Ask once and print.

    Raises NoTables, SqlFailed, TableError, BadStorage, ConfigError, SeveralMirrors; with `--url` MirrorLost, and what
    `remote_mirror` raises.
    """
    if args.query is None:
        _print(args, ColumnListing()) if args.json or args.csv or args.page else show_tables()
        return exits.OK
    remote = remote_mirror(args)
    if remote is not None:
        rows = min((_ROWS if _is_for_people(args) else MOST) if args.rows is None else args.rows, MOST)
        _print(args, RemoteRows(remote.look("sql", SqlPage, (("q", args.query), ("limit", str(rows))))))
        return exits.OK
    from engine.jobs.sql.query import sql_session  # DuckDB and pyarrow, which --help does not need
    from engine.jobs.sql.views import add_tables

    storage = find_place(args, NoTables).storage
    with sql_session(PAGE_SETTINGS if args.page else None) as session:
        if not add_tables(session, storage):
            raise NoTables(f"{storage.uri} has none")
        _print(args, session.ask(args.query, explains=not args.page))
    return exits.OK


def _print(args: argparse.Namespace, answer: Rows) -> None:
    most = answer.number if isinstance(answer, RemoteRows) else args.rows
    if args.page:
        print_page(answer, _ROWS if most is None else most)
    elif _is_for_people(args):
        print_table(answer, _ROWS if most is None else most)
    else:
        (print_json if args.json else print_csv)(FirstRows(answer, most))
        if isinstance(answer, RemoteRows) and answer.has_more and args.rows != most:
            print(f"raymirror sql: these are the first {most:,} rows; over HTTP there are no more", file=sys.stderr)
    sys.stdout.flush()


def _is_for_people(args: argparse.Namespace) -> bool:
    return not (args.json or args.csv or args.page)


class ColumnListing:
    """The columns of every table that raymirror may keep, as rows."""

    columns = ("table", "column", "type", "unit", "means")
    types = ("VARCHAR",) * len(columns)

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
