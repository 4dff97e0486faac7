"""`raymirror move`: moves consumer groups, and then the producers of topics, to the target for good.

It serves migrations: groups move one by one, in any order, while the flow goes on copying. All producers of a topic
move together after its consumers. Without a group it shows what has moved, and what is left.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, remote_mirror
from actors.cli.common.flags import add_flow_argument, add_json_argument
from actors.cli.common.questions import BadQuestion
from actors.cli.common.remote_flows import one_flow_behind
from actors.cli.common.running_config import running_config
from actors.cli.dr.fence_choice import add_fence_arguments
from actors.cli.dr.flow_choice import NoConfigNamed
from actors.cli.dr.move_tables import show_group, show_progress
from actors.cli.dr.move_topics import ask as ask_topics
from actors.cli.dr.move_topics import run_topics
from actors.cli.dr.operated_flow import who_operates
from actors.cli.failover.translate import chosen_flow
from actors.model.run_kinds import RunKind
from engine.base.errors import BrokerUnreachable
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.move_progress import MoveProgress
from engine.services.dr.moves.survey import WATCH_S, MoveSurvey
from engine.services.dr.moving import GroupMover, MoveOutcome, MoveWish
from engine.services.dr.switchover.world import DrainWorld

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the consumer group's id; without it: the list")
    parser.add_argument(
        "--topics",
        metavar="PATTERN",
        help="move all producers of these topics instead, after their consumers (names or Java patterns, with commas)",
    )
    parser.add_argument(
        "--list", "--status", dest="list", action="store_true", help="show what has moved, and what is left"
    )
    parser.add_argument(
        "--undo", action="store_true", help="take the move of GROUP, or of the producers of --topics, back"
    )
    add_flow_argument(parser, "required if there are several flows")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration (default: that of the mirror on this machine)"
    )
    parser.add_argument(
        "--mirror", "--name", dest="mirror", metavar="NAME", help="name of the mirror, if several are running"
    )
    parser.add_argument("--dry-run", action="store_true", help="only look, and say whether the move could be made")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long the copy may take to reach the group's offsets, or the end of the topics (default: 60)",
    )
    parser.add_argument(
        "--watch",
        type=float,
        default=WATCH_S,
        metavar="SECONDS",
        help="time between two looks at commits, to notice consumers with assign() (default: 6)",
    )
    add_url_arguments(parser)
    _add_group_arguments(parser)
    _add_topic_arguments(parser)
    add_json_argument(parser)
    parser.epilog = (
        "exit codes: 0 it is moved, or taken back (with --dry-run: it could be); for the list: no moved group consumes"
        " on the source, and no moved topic is written to there; 4 it is not, and the output says why by name; 1 a"
        " cluster, a step or the command of raymirror.move.command failed half-way: run the move again, or with"
        " --topics: raymirror dr resume, or dr abort; 2 bad input, or a cluster that does not answer; a group needs no"
        " running mirror, but without one nothing new is copied"
    )


def _add_group_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for a group")
    group.add_argument(
        "--leave-uncopied", action="store_true", help="move the group although it reads topics that are not copied"
    )
    group.add_argument("--backwards", action="store_true", help="also if the group is further on the target")
    group.add_argument(
        "--accept-repeats",
        action="store_true",
        help="also if only an offset before the exact one is known, from MM2's syncs: it reads some records again",
    )


def _add_topic_arguments(parser: argparse.ArgumentParser) -> None:
    topics = parser.add_argument_group("for --topics")
    topics.add_argument(
        "--leave-group",
        action="append",
        default=[],
        metavar="GROUP",
        help="do not wait for this group: nobody needs it on the target (repeat it)",
    )
    topics.add_argument(
        "--ignore", action="append", default=[], metavar="NAME", help="accept a reason by its name (repeat it)"
    )
    topics.add_argument("--yes", action="store_true", help="do not ask")
    topics.add_argument(
        "--address", help="Ray cluster of the mirror, HOST:PORT (default: RAY_ADDRESS, else state file)"
    )
    add_fence_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Move or list. Raises ConfigError, BadQuestion, NoConfigNamed, GroupFailed, BrokerUnreachable, KafkaRefusal."""
    _settle(args)
    remote = remote_mirror(args)
    if remote is not None:
        return _behind(args, remote)
    path = args.config or running_config(args.mirror)
    if path is None:
        raise NoConfigNamed
    config = load_config(path)
    flow = chosen_flow(config, args.flow)
    args.config, args.flow = path, str(flow.name)
    if args.topics is not None:
        return run_topics(args)
    if args.group is None:
        return _listed(args, asyncio.run(_list(config, flow, args.watch)))
    outcome = asyncio.run(_move(config, flow, args))
    if args.json:
        print(msgspec.json.encode(outcome).decode())
        for one in outcome.refused:
            print(f"raymirror move: group {outcome.group}: {one.name.value}: {one.why}", file=sys.stderr)
    else:
        show_group(outcome, dry=args.dry_run)
    return exits.NOT_EQUAL if outcome.refused else exits.OK


def _behind(args: argparse.Namespace, mirror: "HttpMirror") -> int:
    from actors.api.commands.pages import MovesPage  # slow to import, and needed here only
    from actors.cli.common.remote_orders import refuse_given
    from actors.cli.common.remote_runs import run_behind

    if args.topics is not None:
        return run_behind(mirror, args, RunKind.MOVE_TOPICS, lambda flow: ask_topics(args, flow, args.topics))
    if args.group is not None:
        return run_behind(mirror, args, RunKind.MOVE_UNDO if args.undo else RunKind.MOVE)
    refuse_given(args, {"config": None, "watch": WATCH_S})
    flow = one_flow_behind(mirror, args.flow)
    return _listed(args, mirror.look("moves", MovesPage, flow=flow).progress)


def _settle(args: argparse.Namespace) -> None:
    """Refuse what does not go together; a lone A->B is the flow, no group. Raises BadQuestion."""
    if args.group is not None and "->" in args.group and args.flow is None and not args.undo:
        args.group, args.flow = None, args.group
    asked = [args.list, args.topics is not None, args.group is not None]
    if sum(asked) > 1:
        right = "give GROUP, or --topics PATTERN, or --list, or nothing: then it is the list"
        raise BadQuestion("only one of GROUP, --topics and --list is possible", right)
    if args.undo and args.topics is None and (args.group is None or args.dry_run):
        right = "give GROUP, without --dry-run, or --topics PATTERN"
        raise BadQuestion("--undo takes the move of one group back, or that of producers", right)


async def _move(config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace) -> MoveOutcome:
    wish = MoveWish(
        commits=not args.dry_run,
        leaves_uncopied=args.leave_uncopied,
        repeats=args.accept_repeats,
        within_s=args.timeout,
        watch_s=args.watch,
    )
    async with GroupMover(config, flow, args.group, who=who_operates(), backwards=args.backwards) as mover:
        _need_source(flow, mover)
        return await (mover.undo() if args.undo else mover.move(wish))


async def _list(config: MirrorConfig, flow: FlowConfig, watch_s: float) -> MoveProgress:
    async with DrainWorld(config, flow) as world:
        return await MoveSurvey(world).progress(watch_s)


def _listed(args: argparse.Namespace, found: MoveProgress) -> int:
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        show_progress(found)
    return exits.NOT_EQUAL if found.went_back or found.written_since else exits.OK


def _need_source(flow: FlowConfig, mover: GroupMover) -> None:
    if mover.gone:
        right = "without the source nothing can be exact; if it is lost: raymirror failover"
        raise BrokerUnreachable(f"cluster {flow.name.source!r}", f"{mover.gone}; {right}")
