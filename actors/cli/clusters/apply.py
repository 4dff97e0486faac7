"""`raymirror apply CONFIG`: brings topics, configs and ACLs of the copies in step with the source, once."""

import argparse
import asyncio
from collections.abc import Iterable

import msgspec

from actors.cli.clusters.plan import add_scope_arguments, changes_table, list_lines, scope_of, show
from actors.cli.common import exits
from actors.cli.common.audited import who, write_audit
from actors.cli.common.connect_args import add_url_arguments, run_remotely
from actors.cli.common.questions import chosen_flows
from actors.model.run_kinds import RunKind
from actors.observability.colours import stdout_console
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.config_sync.audit import new_run, rows_of
from engine.flow.config_sync.planning import SyncPlan
from engine.flow.config_sync.sync import ChangeOutcome
from engine.services.config_service import config_sync
from policies.words import counted

CLIENT_ID = "raymirror-apply"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_scope_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 everything is in step, except conflicts; 1 some change failed, or a part could not be read;"
        " 2 bad input or a cluster that does not answer"
    )


def run(args: argparse.Namespace) -> int:
    """Compare, apply and print. Raises ConfigError, BadQuestion, BrokerUnreachable, ConnectionLost: exit code 2."""
    if (code := run_remotely(args, RunKind.APPLY)) is not None:
        return code
    config = load_config(args.config)
    flows = chosen_flows(config, args.flow)
    done, is_kept = asyncio.run(apply(config, flows))
    if args.json:
        rows = [
            {"flow": str(flow.name), "looked": msgspec.to_builtins(looked), "outcomes": msgspec.to_builtins(outcomes)}
            for flow, (looked, outcomes) in zip(flows, done, strict=True)
        ]
        print(msgspec.json.encode({"flows": rows}).decode())
    else:
        for flow, (looked, outcomes) in zip(flows, done, strict=True):
            show_done(flow, looked, outcomes)
    good = all(not looked.unread and not any(one.failure for one in outcomes) for looked, outcomes in done)
    return exits.OK if good and is_kept else exits.FAILED


async def apply(
    config: MirrorConfig, flows: Iterable[FlowConfig]
) -> tuple[list[tuple[SyncPlan, list[ChangeOutcome]]], bool]:
    """Bring each flow in step, one after the other; return also whether the audit trail has all of it."""
    done, is_kept = [], True
    for flow in flows:
        async with config_sync(config, flow, CLIENT_ID) as sync:
            looked = await sync.compare(scope_of(flow))
            outcomes = await sync.apply(looked.changes)
        done.append((looked, outcomes))
        rows = rows_of(new_run(flow.name, who("apply")), outcomes, looked.conflicts)
        is_kept = await write_audit(config, "apply", rows) and is_kept
    return done, is_kept


def show_done(flow: FlowConfig, looked: SyncPlan, outcomes: list[ChangeOutcome]) -> None:
    """Print the changes that were done and that failed, and what was left as it is."""
    failed = [one for one in outcomes if one.failure]
    show(flow, msgspec.structs.replace(looked, changes=()), stdout_console())
    print(f"{flow.name}: {counted(len(outcomes) - len(failed), 'change')} done, {len(failed):,} failed")
    if outcomes:
        stdout_console().print(changes_table(one.change for one in outcomes if not one.failure))
    list_lines("done in part", [one.lacks for one in outcomes if one.lacks])
    list_lines("failed", [one.failure for one in failed])
