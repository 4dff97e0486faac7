"""`raymirror compare-ends CONFIG`: compares the end offsets of source and copy, and explains the difference."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import add_flow_argument, add_json_argument
from actors.cli.common.questions import BadQuestion, chosen_flows
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from engine.config.config import load_config
from engine.core.position.end_offsets import EndsRow, EndsVerdict
from engine.services.compare_ends import compare_ends_of
from policies.words import counted

_MOST_SHOWN = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG", help="mm2.properties or mirror.yaml")
    add_flow_argument(parser)
    parser.add_argument("--topic", action="append", metavar="TOPIC", help="a source topic; may be given several times")
    add_json_argument(parser)
    parser.epilog = (
        "exit codes: 0 equal, or every offset of the difference is explained; 1 some offset is not explained, or a"
        " partition has no offset map; 2 bad input, or clusters that do not answer; no mirror needs to run"
    )


def run(args: argparse.Namespace) -> int:
    """Compare and print. Raises ConfigError, BadQuestion, BrokerUnreachable, ConnectionLost, KafkaRefusal."""
    config = load_config(args.config)
    flows = chosen_flows(config, args.flow)
    topics = frozenset(args.topic or ())
    found = {str(flow.name): asyncio.run(compare_ends_of(config, flow, topics)) for flow in flows}
    missing = topics - {row.topic for rows in found.values() for row in rows}
    if missing:
        names = ", ".join(sorted(missing))
        raise BadQuestion(f"no chosen flow copies {names}", "use the names of topics on the source")
    if args.json:
        flows_said = [
            {"flow": name, "partitions": [{**msgspec.to_builtins(row), "fine": row.fine} for row in rows]}
            for name, rows in found.items()
        ]
        print(msgspec.json.encode({"flows": flows_said}).decode())
    else:
        for name, rows in found.items():
            print(f"{name}: {summary(rows)}")
            stdout_console().print(table(rows))
    return exits.OK if all(row.fine for rows in found.values() for row in rows) else exits.FAILED


def summary(rows: Sequence[EndsRow]) -> str:
    numbers = {verdict: sum(row.verdict is verdict for row in rows) for verdict in EndsVerdict}
    said = [f"{number} {verdict.value}" for verdict, number in numbers.items() if number]
    return f"{counted(len(rows), 'partition')}{': ' if said else ''}{', '.join(said)}"


def table(rows: Sequence[EndsRow]) -> Table:
    """Draw the partitions: first those with an unexplained difference."""
    numbers = ["source end", "target end", "copied", "markers", "waiting"]
    drawn = plain_table(["source partition", "target topic"], numbers, whole=True)
    drawn.add_column("verdict", no_wrap=True)
    drawn.add_column("difference")
    ordered = sorted(rows, key=lambda row: row.fine)
    for row in ordered[:_MOST_SHOWN]:
        drawn.add_row(
            f"{row.topic}-{row.partition}",
            row.target_topic,
            *(str(number) if number >= 0 else "-" for number in (row.source_end, row.target_end)),
            *(str(number) for number in (row.copied, row.markers, row.waiting)),
            row.verdict.value,
            row.why,
        )
    if len(rows) > _MOST_SHOWN:
        drawn.add_row(f"and {len(rows) - _MOST_SHOWN} more; --json prints all")
    return drawn
