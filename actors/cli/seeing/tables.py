"""`raymirror tables`: lists the tables of results; `raymirror tables convert` adds what earlier versions stored."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table

from actors.api.commands.pages import PrintedTables, TablesPage
from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import add_json_argument
from actors.cli.common.questions import BadQuestion
from actors.cli.seeing.history import NoHistory, add_history_arguments, find_place
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.lagging import bytes_text
from actors.observability.tables import plain_table
from engine.config.storage import KEY as STORAGE_KEY
from engine.config.storage import Storage
from engine.jobs.tables.listing import TableLine, Unconverted
from policies.words import counted

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror
    from engine.jobs.upgrade.old_stores import Converted

_CONVERT = "convert"


class NoTables(NoHistory):
    """No storage is named, so there are no tables to show."""

    def __str__(self) -> str:
        return (
            f"no tables found ({self.looked}): raymirror keeps them in {STORAGE_KEY};"
            " name the place with --config FILE or --storage URI"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=[_CONVERT], help="convert: add what earlier versions stored; default: list"
    )
    add_json_argument(parser)
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_history_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 fine, also if there is nothing; 2 bad input, or a storage or an old file that cannot be used"
    )


def run(args: argparse.Namespace) -> int:
    """List or convert.

    Raises NoTables, BadStorage, ConfigError, TableError, NewerFormat; with `--url` BadQuestion, MirrorLost, and what
    `remote_mirror` raises.
    """
    remote = remote_mirror(args)
    if remote is not None:
        if args.action == _CONVERT:
            raise BadQuestion(f"{_CONVERT} reads old files of the mirror's machine", "run it there, without --url")
        return _tell(_behind(remote), as_json=args.json)
    storage = find_place(args, NoTables).storage
    if args.action == _CONVERT:
        return _convert(storage, as_json=args.json)
    return _tell(_listed(storage), as_json=args.json)


def _behind(mirror: "HttpMirror") -> PrintedTables:
    found = mirror.look("tables", TablesPage)
    if not found.kept:
        raise NoTables(f"the mirror at {mirror.namespace} keeps none")
    return PrintedTables(storage=found.kept, tables=found.tables, unconverted=found.unconverted)


def _listed(storage: Storage) -> PrintedTables:
    # Slow to import, and `tables --help` needs none of it.
    from engine.jobs.tables.errors import table_errors
    from engine.jobs.tables.overview import overview
    from engine.jobs.upgrade.old_stores import unconverted

    with table_errors(storage.uri):
        return PrintedTables(
            storage=storage.uri, tables=tuple(overview(storage)), unconverted=tuple(unconverted(storage))
        )


def _tell(found: PrintedTables, *, as_json: bool) -> int:
    if as_json:
        _print_json(found)
        return exits.OK
    if found.tables:
        stdout_console().print(drawn(found.tables))
    else:
        print(f"{found.storage} has no tables yet")
    for one in found.unconverted:
        print(_waits(one, found.storage))
    return exits.OK


def _waits(old: Unconverted, storage: str) -> str:
    return (
        f"{old.place}: {old.what} of an earlier version is in no table yet:"
        f" raymirror tables {_CONVERT} --storage {storage}"
    )


def drawn(lines: Sequence[TableLine]) -> Table:
    """Draw one row for each table."""
    found = plain_table(["table"], ["rows", "files", "size"], ["newest row"], whole=not sys.stdout.isatty())
    for line in lines:
        newest = "-" if line.newest_ms is None else clock_text(line.newest_ms)
        found.add_row(line.name, f"{line.rows:,}", f"{line.files:,}", bytes_text(line.bytes), newest)
    return found


def _convert(storage: Storage, *, as_json: bool) -> int:
    from engine.jobs.tables.errors import table_errors
    from engine.jobs.upgrade.old_stores import NotConverted, convert

    done, failed = [], []
    with table_errors(storage.uri):
        for one in convert(storage):
            if isinstance(one, NotConverted):
                failed.append(one)
                continue
            done.append(one)
            if not as_json:
                print(_converted(one))
    if as_json:
        _print_json({"storage": storage.uri, "converted": done, "failed": failed})
    elif not done and not failed:
        print(f"{storage.uri}: nothing to convert")
    for one in failed:
        print(f"raymirror tables: {one.place} is not converted: {one.why}", file=sys.stderr)
    return exits.UNUSABLE if failed else exits.OK


def _converted(one: "Converted") -> str:
    gone = f"; left out because they are gone: {counted(one.missing, 'file')}" if one.missing else ""
    return (
        f"{one.place}: {counted(one.rows, 'row')} added to table {one.table}{gone};"
        " this folder may be deleted once no mirror of the earlier version runs"
    )


def _print_json(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
