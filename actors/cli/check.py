"""`raymirror check CONFIG`: what is wrong or missing, and what would be copied; changes nothing."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from actors.checks import prepare
from actors.cli import exits
from actors.cli.flags import add_json_argument, say_facts
from engine.file_kind import worded
from engine.preflight import FlowPreview
from policies.words import counted

HELP = "read a configuration and say what is wrong or missing; changes nothing"
TOPICS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="mm2.properties or mirror.yaml")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Check and tell. Raises ConfigError, BrokerUnreachable, KafkaRefusal, NotReady: exit code 2."""
    config, flows = prepare(args.config)
    for warning in config.warnings:
        print(f"warning: {args.config}: {worded(str(warning), args.config)}", file=sys.stderr)
    if args.json:
        say_facts(args, config=str(args.config), ready=True, warnings=config.warnings, notes=config.notes, flows=flows)
        return exits.OK
    for note in config.notes:
        print(f"note: {args.config}: {note}")
    for flow in flows:
        show(flow)
    print("ready: raymirror run", args.config)
    return exits.OK


def show(flow: FlowPreview) -> None:
    """Print what a flow would copy."""
    partitions = sum(topic.partitions for topic in flow.topics)
    topics, left_out = counted(len(flow.topics), "topic"), counted(flow.left_out, "topic")
    print(f"{flow.flow}: {topics}, {counted(partitions, 'partition')}; left out: {left_out}")
    if not flow.topics:
        print(
            f"note: {flow.flow}: no topic of {flow.flow.source!r} is wanted by `topics` yet; one that comes is copied"
        )
    if flow.polled:
        print(f"note: {flow.flow}: consumer groups will be polled, not looked at when they commit: {flow.polled}")
    table = Table("source topic", "target topic", "partitions", "target")
    for topic in flow.topics[:TOPICS_SHOWN]:
        table.add_row(topic.source, topic.target, str(topic.partitions), "there" if topic.exists else "will be created")
    if flow.topics:
        Console().print(table)
    if len(flow.topics) > TOPICS_SHOWN:
        print(f"and {len(flow.topics) - TOPICS_SHOWN} more")
