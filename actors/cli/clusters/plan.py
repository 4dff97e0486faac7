"""`raymirror plan CONFIG`: shows what differs in topics, configs and ACLs, and the changes for it; changes nothing."""

import argparse
import asyncio
import sys
from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import add_config_place, add_flow_argument
from actors.cli.common.questions import chosen_flows
from actors.observability.colours import stdout_console
from actors.observability.tables import plain_table
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.config_sync.planning import Scope, SyncPlan
from engine.services.config_service import config_sync
from policies.sync.config_sync import Change, ConflictKind, CreateTopic, DropConfig, GrowTopic, SetConfig
from policies.words import counted

CLIENT_ID = "raymirror-plan"
SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    parser.epilog = (
        "exit codes: 0 nothing to do; 5 there are changes to apply; 1 a part could not be read; 2 bad input or a"
        " cluster that does not answer"
    )


def add_scope_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `plan` and `apply` share."""
    add_config_place(parser)
    add_flow_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Compare and print. Raises ConfigError, BadQuestion, BrokerUnreachable, ConnectionLost: exit code 2."""
    config = load_config(args.config)
    flows = chosen_flows(config, args.flow)
    found = asyncio.run(plan_all(config, flows))
    if args.json:
        rows = [{"flow": str(flow.name), **msgspec.to_builtins(one)} for flow, one in zip(flows, found, strict=True)]
        print(msgspec.json.encode({"flows": rows}).decode())
    else:
        for flow, one in zip(flows, found, strict=True):
            show(flow, one, stdout_console())
    if any(one.unread for one in found):
        return exits.FAILED
    return exits.CHANGES if any(one.changes for one in found) else exits.OK


def scope_of(flow: FlowConfig) -> Scope:
    """Return which of configs and ACLs the configuration keeps in step."""
    return Scope(configs=flow.config_sync.configs, acls=flow.config_sync.acls)


async def plan_all(config: MirrorConfig, flows: Iterable[FlowConfig]) -> list[SyncPlan]:
    found = []
    for flow in flows:
        async with config_sync(config, flow, CLIENT_ID) as sync:
            found.append(await sync.compare(msgspec.structs.replace(scope_of(flow), left=True)))
    return found


def show(flow: FlowConfig, found: SyncPlan, out: Console) -> None:
    """Print the plan of one flow, and the differences that it leaves as they are."""
    what = counted(len(found.changes), "change") if found.changes else "nothing to do"
    print(f"{flow.name}: {counted(found.topics, 'topic')} compared, {what}")
    if not scope_of(flow).configs:
        print("configs are not kept in step: sync.topic.configs.enabled = false")
    if not scope_of(flow).acls:
        print("ACLs are not kept in step: sync.topic.acls.enabled = false")
    if found.changes:
        out.print(changes_table(found.changes))
    # Only SHOWN lines are printed, so conflicts that the configuration itself asks for come last.
    conflicts = sorted(found.conflicts, key=lambda one: one.kind is ConflictKind.THINNER)
    list_lines("conflict, left as it is", [f"{one.target}: {one.what}" for one in conflicts])
    left = [f"{one.target}: {one.name}={one.value}" for one in found.left]
    list_lines("set on the copy only, left as it is", left)
    list_lines("left as it is, because its producers write to the copy since a move", list(found.handed_over))
    list_lines("no counterpart on the target", [f"{one.binding}: {one.why}" for one in found.left_acls])
    list_lines("could not be read", [f"{name}: {why}" for name, why in found.unread.items()])
    for cluster in found.no_authorizer:
        print(f"no ACLs: cluster {cluster!r} has no authorizer")


def list_lines(title: str, lines: list[str]) -> None:
    """Print the first lines, each behind the title, and how many more there are."""
    for line in lines[:SHOWN]:
        print(f"{title}: {line}")
    if len(lines) > SHOWN:
        print(f"{title}: and {len(lines) - SHOWN:,} more; --json prints all")


def changes_table(changes: Iterable[Change]) -> Table:
    table = plain_table(["", "on the target", "what", "now", "then"], whole=not sys.stdout.isatty())
    for change in changes:
        table.add_row(*row_of(change))
    return table


def row_of(change: Change) -> tuple[str, str, str, str, str]:
    """Return sign, name on the target, what changes, the value now and the value then."""
    match change:
        case CreateTopic():
            configs = "".join(f", {name}={value}" for name, value in sorted(change.configs.items()))
            factor = change.replication_factor
            replicas = "the broker's default number of replicas" if factor < 0 else counted(factor, "replica")
            made = f"{counted(change.partitions, 'partition')}, {replicas}{configs}"
            return "+", change.target, "topic", "-", made
        case GrowTopic():
            return "+", change.target, "partitions", str(change.before), str(change.partitions)
        case SetConfig():
            sign, now = ("~", change.before) if change.overrides else ("+", f"{change.before} (a default)")
            return sign, change.target, change.name, now, change.value
        case DropConfig():
            return "-", change.target, change.name, change.before, f"a default: {change.why}"
        case _:
            return "+", change.binding.name, "ACL", "-", str(change.binding)
