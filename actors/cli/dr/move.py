"""`raymirror move GROUP`: moves one consumer group to the target for good: its consumers stop, and start there.

It serves migrations: groups move one by one, in any order, while the flow goes on copying.
"""

import argparse
import asyncio
import getpass
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from actors.cli.common import exits
from actors.cli.common.flags import add_flow_argument, add_json_argument
from actors.cli.common.questions import BadQuestion
from actors.cli.common.running_config import running_config
from actors.cli.dr.flow_choice import NoConfigNamed
from actors.cli.failover.translate import chosen_flow
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.tables import plain_table
from engine.base.errors import BrokerUnreachable
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.moving import GroupMover, MovedStanding, MoveOutcome, MoveWish
from policies.words import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the consumer group's id")
    parser.add_argument("--list", action="store_true", help="show the groups that were moved, as they stand now")
    add_flow_argument(parser, "required if there are several flows")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration (default: that of the mirror on this machine)"
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    parser.add_argument("--dry-run", action="store_true", help="only look, and say whether the group could be moved")
    parser.add_argument(
        "--leave-uncopied", action="store_true", help="move the group although it reads topics that are not copied"
    )
    parser.add_argument("--backwards", action="store_true", help="also if the group is further on the target")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long the copy may take to reach the group's offsets (default: 60)",
    )
    add_json_argument(parser)
    parser.epilog = (
        "exit codes: 0 the group is moved (with --dry-run: it could be), and no moved group consumes on the source"
        " (--list); 4 it is not moved, and the output says why by name (--list: some group consumes on the source"
        " again); 1 a cluster refused or failed half-way: run the move again; 2 bad input, or a cluster that does not"
        " answer; no mirror needs to run, but without one nothing new is copied"
    )


def run(args: argparse.Namespace) -> int:
    """Move or list. Raises ConfigError, BadQuestion, NoConfigNamed, GroupFailed, BrokerUnreachable, KafkaRefusal."""
    if args.list == (args.group is not None):
        raise BadQuestion("either a group or --list", "give GROUP to move it, or --list alone")
    path = args.config or running_config(args.mirror)
    if path is None:
        raise NoConfigNamed
    config = load_config(path)
    flow = chosen_flow(config, args.flow)
    if args.list:
        return _listed(args, asyncio.run(_list(config, flow)))
    outcome = asyncio.run(_move(config, flow, args))
    if args.json:
        print(msgspec.json.encode(outcome).decode())
    else:
        show(outcome, dry=args.dry_run)
    return exits.NOT_EQUAL if outcome.refused else exits.OK


async def _move(config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace) -> MoveOutcome:
    wish = MoveWish(commits=not args.dry_run, leaves_uncopied=args.leave_uncopied, within_s=args.timeout)
    async with GroupMover(config, flow, args.group, who=_who(), backwards=args.backwards) as mover:
        _need_source(flow, mover)
        return await mover.move(wish)


async def _list(config: MirrorConfig, flow: FlowConfig) -> tuple[MovedStanding, ...]:
    async with GroupMover(config, flow, "") as mover:
        _need_source(flow, mover)
        return await mover.moved()


def _need_source(flow: FlowConfig, mover: GroupMover) -> None:
    if mover.gone:
        right = "without the source nothing can be exact; if it is lost: raymirror failover"
        raise BrokerUnreachable(f"cluster {flow.name.source!r}", f"{mover.gone}; {right}")


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        user = "somebody"
    return f"{user} on {socket.gethostname()}"


# --- output ----------------------------------------------------------------------------------------------------------


def show(outcome: MoveOutcome, *, dry: bool) -> None:
    """Print what became of a group."""
    if outcome.offsets:
        stdout_console().print(offsets_table(outcome))
    for one in outcome.refused:
        print(f"group {outcome.group} is not moved ({one.name.value}): {one.why}")
    if outcome.refused:
        return
    if dry:
        print(f"group {outcome.group} could be moved now; nothing was changed")
        return
    print(f"group {outcome.group} is moved: start its consumers on the target, and not on the source again")


def offsets_table(outcome: MoveOutcome) -> Table:
    """Draw the offsets of a group on both sides."""
    table = plain_table(
        ["source partition", "target topic"], ["source offset", "target offset", "committed"], ["why not"]
    )
    for row in outcome.offsets:
        numbers = (row.source_offset, row.target_offset, row.stored)
        offsets = [str(one) if one >= 0 else "-" for one in numbers]
        table.add_row(f"{row.topic}-{row.partition}", row.target_topic or "-", *offsets, row.why_not)
    return table


def _listed(args: argparse.Namespace, moved: Sequence[MovedStanding]) -> int:
    back = [one for one in moved if one.source_moved or one.source_state == "active"]
    if args.json:
        print(msgspec.json.encode(moved).decode())
        return exits.NOT_EQUAL if back else exits.OK
    if not moved:
        print("no group was moved")
        return exits.OK
    table = plain_table(["group", "state", "moved by", "at"], ["partitions"], ["on the source", "on the target"])
    for one in moved:
        table.add_row(
            *(one.group, one.state, one.who, clock_text(one.at_ms), str(one.partitions)),
            *(one.source_state, one.target_state),
        )
    stdout_console().print(table)
    for one in back:
        what = f"has consumed {counted(one.source_moved, 'partition')}" if one.source_moved else "has members"
        print(f"group {one.group} {what} on the source since: stop its consumers there, and move it again")
    return exits.NOT_EQUAL if back else exits.OK
