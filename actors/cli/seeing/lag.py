"""`raymirror lag`: shows how far behind every partition is, and why it makes no progress; `--history`: the past lag."""

import argparse
import sys
from collections.abc import Iterable, Mapping

import msgspec
from rich.console import RenderableType

from actors.cli.common import exits
from actors.cli.common.connect_args import add_place_arguments, add_url_arguments, remote_mirror, status_or_why
from actors.cli.common.flags import add_flow_argument, count
from actors.cli.seeing.history import add_history_arguments, find_place, read_summary, remote_summary
from actors.cli.seeing.history_tables import history_tables
from actors.model.states import UnknownFlow
from actors.model.status import MirrorStatus
from actors.observability.colours import state_text, stdout_console
from actors.observability.instants import instant_ms
from actors.observability.lagging import (
    NO_DISCOVERY,
    LagRow,
    bytes_text,
    flows_unknown,
    lag_rows,
    records_text,
    seconds_text,
)
from actors.observability.shared_reasons import SharedReasons
from actors.observability.tables import plain_table
from engine.base.clock import wall_ms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_flow_argument(parser)
    parser.add_argument(
        "--topic", "--topics", nargs="+", default=(), metavar="TOPIC", help="source topics; default: all"
    )
    parser.add_argument(
        "--behind", action="store_true", help="only partitions that are behind, make no progress, or have unknown lag"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--history", action="store_true", help="show past lag, from the history that Spark keeps")
    parser.add_argument(
        "--since", default="1h", metavar="TIME", help="start of the history: 30m, 24h ago, or an instant (1h)"
    )
    parser.add_argument(
        "--most-topics",
        type=count,
        metavar="N",
        help="only the N topics of each flow that were furthest behind in the history (default: all)",
    )
    add_history_arguments(parser)
    add_place_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = (
        "if no mirror runs, --config FILE shows how far each partition is copied by its last position, and asks the"
        " source where it ends; exit code 3; topics of --topic that are not copied are named on stderr; exit code 2"
        " if none of them is copied"
    )


def run(args: argparse.Namespace) -> int:
    """Ask once and print. Raises NoConfigGiven, UnknownFlow, ConfigError; with `--history`, what `history` raises."""
    if args.history:
        return history(args)
    status = status_or_why(args, lanes=True)
    if isinstance(status, str):
        from actors.cli.seeing.alone import lag_alone  # imports Kafka's clients, slow and needed here only

        return lag_alone(args, status)
    names = tuple(flow.flow for flow in status.flows)
    if args.flow is not None and args.flow not in names:
        raise UnknownFlow(args.flow, names)
    rows = lag_rows(status, args.flow, args.topic)
    missing = [topic for topic in dict.fromkeys(args.topic) if all(row.topic != topic for row in rows)]
    are_none_known = bool(missing) and not rows
    if args.behind:
        rows = [row for row in rows if row.why or row.lag_records != 0]
    unknown = flows_unknown(status, args.flow)
    if args.json:
        answer = {"at_ms": status.at_ms, "partitions": rows, "flows_unknown": unknown}
        print(msgspec.json.encode(answer).decode())
    elif unknown or not are_none_known:
        show(rows, unknown, behind=args.behind)
    is_known = say_missing(status, args.flow, missing)
    return exits.UNUSABLE if are_none_known and is_known else exits.OK


def say_missing(status: MirrorStatus, flow: str | None, topics: Iterable[str]) -> bool:
    """Print on stderr that topics of `--topic` are not copied, or not known; return whether all flows are known."""
    asked = [one for one in status.flows if flow in (None, one.flow)]
    waiting = {one.flow: one.waiting_for or NO_DISCOVERY for one in asked if not one.discovered}
    names, whys = ", ".join(waiting), "; ".join(f"{name} waits for {why}" for name, why in waiting.items())
    for topic in topics:
        what = f"{', '.join(one.flow for one in asked)} copies no topic {topic!r}; see: raymirror lag"
        if waiting:
            what = f"whether {names} copies topic {topic!r} is not known yet: {whys}"
        print(f"raymirror lag: {what}", file=sys.stderr)
    return not waiting


def show(rows: list[LagRow], unknown: Mapping[str, str], *, behind: bool) -> None:
    """Print partitions, and flows without known partitions; `behind`: `rows` has only partitions that are behind."""
    if rows or not (behind or unknown):
        stdout_console().print(table(rows))
    for flow, why in unknown.items():
        print(f"{flow}: which partitions it copies, and how far behind they are, is not known yet: it waits for {why}")
    if behind and not rows and not unknown:
        print("no partition is behind")


def history(args: argparse.Namespace) -> int:
    """Print the history, read here or asked of the mirror behind `--url`.

    Raises NoHistory, BadInstant, ConfigError; with `--url` MirrorLost, and what `remote_mirror` raises.
    """
    now_ms = wall_ms()
    since_ms, remote = instant_ms(args.since, now_ms), remote_mirror(args)
    if remote is not None:
        summary = remote_summary(remote, args.flow, since_ms, args.most_topics)
    else:
        summary = read_summary(find_place(args), since_ms, now_ms, args.flow, most_topics=args.most_topics)
    if args.topic:
        wanted = tuple(point for point in summary.topics if point.topic in args.topic)
        summary = msgspec.structs.replace(summary, topics=wanted)
    if args.json:
        print(msgspec.json.encode(summary).decode())
    else:
        for drawn in history_tables(summary, behind=args.behind):
            stdout_console().print(drawn)
    return exits.OK


def table(rows: list[LagRow]) -> RenderableType:
    whys = SharedReasons(row.why for row in rows)
    is_proven = any(row.proven_to is not None for row in rows)
    numbers = ["records", "bytes", "behind", *(["proven to"] if is_proven else [])]
    drawn = plain_table(["flow", "partition"], numbers, ["state", "owner", "why it waits or is slow"], whole=True)
    for row in rows:
        drawn.add_row(
            row.flow,
            f"{row.topic}-{row.partition}",
            records_text(row),
            bytes_text(row.lag_bytes),
            seconds_text(row.lag_seconds),
            *(("-" if row.proven_to is None else f"{row.proven_to:,}",) if is_proven else ()),
            state_text(row.state),
            row.owner or "-",
            whys.cell(row.why),
        )
    return whys.with_legend(drawn)
