"""`raymirror drift`: shows which configs of copies somebody changed, what they should be, and if they were set right.

It reads the tables of the history of configs, and needs neither a mirror that runs nor Ray or Spark.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from rich.table import Table

from actors.api.commands.pages import DriftLine, DriftPage, PrintedDrift
from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import add_flow_argument
from actors.cli.common.questions import BadQuestion
from actors.cli.seeing.history import NoHistory, add_history_arguments, find_place
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text, instant_ms
from actors.observability.tables import plain_table
from engine.base.clock import wall_ms
from engine.config.storage import KEY as STORAGE_KEY
from policies.patterns import BadPattern, PatternList
from policies.words import counted

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror
    from engine.jobs.sql.query import SqlSession

_SINCE = "7d"
_NOT_SET = "(not set)"
_ENDED = {
    "set_right": "set right",
    "equal_again": "ended: equal again",
    "changed_again": "ended: changed again",
    "topic_gone": "ended: topic gone",
}


class NoConfigHistory(NoHistory):
    """There are no tables of configs: the error says where the command searched, and how they come to be."""

    def __str__(self) -> str:
        return (
            f"no history of configs found ({self.looked}): a running mirror keeps it in {STORAGE_KEY}, unless"
            " raymirror.config.history = off; name the place with --config FILE or --storage URI"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    parser.add_argument(
        "--since",
        default=_SINCE,
        metavar="TIME",
        help=f"30s, 10m, 2h, 7d ago, or an instant; what still stands is always shown ({_SINCE})",
    )
    parser.add_argument(
        "--topic",
        metavar="PATTERNS",
        help="names of topics or of copies: patterns as in `topics` of the file, separated by commas",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object per line")
    form.add_argument("--page", action="store_true", help="print one JSON object, with when flows were compared last")
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    add_history_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 nothing was changed on the copies, or nothing of it stands any more; 1 some config of a copy"
        " still is not what it should be; 2 bad input, no history of configs, or a storage that cannot be read"
    )


def run(args: argparse.Namespace) -> int:
    """Read and print.

    Raises NoConfigHistory, BadQuestion, BadInstant, TableError, BadStorage, ConfigError, SeveralMirrors; with `--url`
    MirrorLost, and what `remote_mirror` raises.
    """
    since_ms, wanted = instant_ms(args.since, wall_ms()), _patterns(args.topic)
    remote = remote_mirror(args)
    if remote is not None:
        return _of_remote(args, remote, since_ms)
    storage = find_place(args, NoConfigHistory).storage
    from engine.jobs.sql.query import sql_session  # DuckDB and pyarrow, which --help does not need
    from engine.jobs.sql.views import add_table
    from engine.jobs.tables.catalog import CONFIGS, DRIFT

    with sql_session() as session:
        if not add_table(session, storage, CONFIGS):
            raise NoConfigHistory(f"{storage.uri} has none")
        add_table(session, storage, DRIFT)
        compared = compared_until(session)
        if args.flow is not None and args.flow not in compared:
            known = ", ".join(compared) or "no flow"
            raise NoConfigHistory(f"{storage.uri} has none of {args.flow!r}; it has {known}")
        lines = [
            line
            for line in drift_of(session, since_ms)
            if args.flow in (None, line.flow)
            and (wanted is None or wanted.matches(line.topic) or wanted.matches(line.target))
        ]
    return tell(args, lines, {flow: at_ms for flow, at_ms in compared.items() if args.flow in (None, flow)})


def _of_remote(args: argparse.Namespace, mirror: "HttpMirror", since_ms: int) -> int:
    query = (("since", str(since_ms)), ("flow", args.flow or ""), ("topic", args.topic or ""))
    pages = mirror.pages("drift", DriftPage, query)
    if not pages[0].kept:
        raise NoConfigHistory(f"the mirror at {mirror.namespace} keeps none")
    return tell(args, [line for page in pages for line in page.lines], pages[0].compared)


def tell(args: argparse.Namespace, lines: Sequence[DriftLine], compared: dict[str, int]) -> int:
    """Print in the form that is asked for, and return the exit code."""
    if args.page:
        sys.stdout.write(msgspec.json.encode(PrintedDrift(compared=compared, lines=tuple(lines))).decode() + "\n")
    elif args.json:
        for line in lines:
            sys.stdout.write(msgspec.json.encode({**msgspec.to_builtins(line), "stands": line.stands}).decode() + "\n")
    else:
        show(lines, compared)
    return exits.FAILED if any(line.stands for line in lines) else exits.OK


def _patterns(text: str | None) -> PatternList | None:
    if text is None:
        return None
    try:
        return PatternList([part.strip() for part in text.split(",") if part.strip()])
    except BadPattern as bad:
        raise BadQuestion(f"--topic: {bad}", "patterns are as in `topics` of the configuration") from None


def compared_until(session: "SqlSession") -> dict[str, int]:
    """Return up to when each flow was compared, at least: Unix ms."""
    answer = session.ask("SELECT flow, max(at_ms) FROM configs GROUP BY flow ORDER BY flow")
    return {str(flow): int(at_ms) for flow, at_ms in answer.rows()}


def drift_of(session: "SqlSession", since_ms: int) -> list[DriftLine]:
    """Return what was seen since a time, and what still stands, in order of time."""
    names = [name for name in DriftLine.__struct_fields__ if name != "who"]
    answer = session.ask(
        f"SELECT {', '.join(names)} FROM drift WHERE seen_ms >= {since_ms} OR settled_ms IS NULL"
        " ORDER BY seen_ms, flow, topic, key"
    )
    return [msgspec.convert(dict(zip(names, row, strict=True)), DriftLine) for row in answer.rows()]


def show(lines: Sequence[DriftLine], compared: dict[str, int]) -> None:
    """Print a row per drift, then how many still stand, and up to when the flows were compared."""
    if lines:
        stdout_console().print(table(lines))
    standing = sum(line.stands for line in lines)
    said = f"{counted(len(lines), 'changed config')} of copies, {standing} not set right" if lines else "no drift"
    until = ", ".join(f"{flow} at {clock_text(at_ms)} or later" for flow, at_ms in compared.items())
    print(f"{said}; last compared: {until}" if until else said)


def table(lines: Sequence[DriftLine]) -> Table:
    columns = ["when", "flow", "topic", "config", "expected", "found", "by", "set right"]
    drawn = plain_table(columns, whole=not sys.stdout.isatty())
    for line in lines:
        drawn.add_row(
            clock_text(line.seen_ms),
            line.flow,
            line.target or line.topic,
            line.key,
            _value(line.expected),
            _value(line.found),
            line.who,
            ended(line),
        )
    return drawn


def ended(line: DriftLine) -> str:
    """Say when a drift was set right or ended, or why it stands."""
    if line.settled_ms is None:
        return f"no, {line.outcome}: {line.why}"
    return f"{_ENDED.get(line.outcome, line.outcome)} {clock_text(line.settled_ms)}"


def _value(value: Any) -> str:
    return _NOT_SET if value is None else str(value)
