"""`raymirror audit CONFIG [TOPIC]`: shows what was changed on the copies, by whom, when and why."""

import argparse
import sys

import msgspec
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import add_config_place, add_flow_argument
from actors.cli.common.questions import BadQuestion, chosen_flows
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text, instant_ms
from actors.observability.tables import plain_table
from engine.base.clock import wall_ms
from engine.config.config import load_config
from engine.config.storage import Storage
from engine.flow.config_sync.audit import DONE, AuditRow
from engine.jobs.audit.store import audit_store
from policies.words import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_place(parser, "mm2.properties")
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="name on source or target; default: everything")
    parser.add_argument("--since", metavar="TIME", help="30s, 10m, 2h, 1d ago, or an instant; default: the whole trail")
    add_flow_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.epilog = "exit codes: 0 fine, also if nothing was changed; 2 bad input, or a storage that cannot be read"


def run(args: argparse.Namespace) -> int:
    """Read and print. Raises ConfigError, BadQuestion, BadInstant, AuditFailed, TableError: exit code 2."""
    since_ms = instant_ms(args.since, wall_ms()) if args.since else 0
    config = load_config(args.config)
    store = audit_store(config)
    if config.storage is None or store is None:
        raise BadQuestion(f"{args.config}: raymirror.storage is not set", "without it no audit trail is kept")
    chosen_flows(config, args.flow)
    tell_unconverted(config.storage)
    rows = store.read(since_ms=since_ms, about=args.topic, flow=args.flow)
    if args.json:
        for row in rows:
            sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
    elif rows:
        stdout_console().print(table(rows))
    else:
        print("nothing was changed")
    return exits.OK


def tell_unconverted(storage: Storage) -> None:
    """Print on standard error that the trail of an earlier version is not in the table. Raises TableError."""
    from engine.jobs.tables.errors import table_errors  # pyarrow, which --help does not need
    from engine.jobs.upgrade.old_audit import OldAudit

    with table_errors(storage.uri):
        for place in OldAudit().places(storage):
            print(f"{place} is in no table yet: raymirror tables convert --storage {storage.uri}", file=sys.stderr)


def table(rows: list[AuditRow]) -> Table:
    columns = ["when", "flow", "on the target", "what", "outcome", "why", "by"]
    drawn = plain_table(columns, whole=not sys.stdout.isatty())
    for row in rows:
        outcome = row.outcome if row.outcome == DONE else f"{row.outcome}: {row.detail}"
        place = row.target or row.topic
        drawn.add_row(clock_text(row.at_ms), row.flow, place, what_of(row), outcome, row.why, row.who)
    return drawn


def what_of(row: AuditRow) -> str:
    match row.change:
        case "create_topic":
            return f"topic created: {_made(row.name, row.after)}"
        case "grow_topic":
            return f"{row.name} {row.before} -> {row.after}"
        case "set_config":
            return f"{row.name} {row.before} -> {row.after}"
        case "drop_config":
            return f"{row.name} {row.before} -> the default"
        case "add_acl":
            return f"ACL added: {row.after}"
        case "conflict":
            return f"conflict: {row.name}"
        case _:
            return row.change.replace("_", " ")


def _made(what: str, value: str) -> str:
    """Discovery records the number of partitions of a new topic, `apply` a whole sentence."""
    if what == "partitions" and value.isdecimal():
        return counted(int(value), "partition")
    return f"{value} {what}".rstrip()
