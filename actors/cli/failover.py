"""`raymirror failover FLOW`: end the copying of a flow so that its consumers can move to the target; the way back.

drain (or stop at the point reached) -> pause -> hold the groups until equal -> stop, with an event -> say what is left
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from actors import session
from actors.cli import exits
from actors.cli.asking import add_place_arguments, running_mirror
from actors.cli.failover_tables import show_back, show_outcome
from actors.cli.stillness import comes_to_rest, until
from actors.events import Outcome
from actors.mirror import Mirror, MirrorLost
from actors.states import Command
from actors.supervisor import UnknownFlow
from engine.clock import wall_ms
from engine.config import load_config
from engine.core.progress import LaneProgress
from engine.core.rpo import TopicRpo, has_come_to, rpo_of
from engine.errors import MirrorError
from engine.failover import Ends, Failover
from engine.flow.standing import Standing
from engine.flow.way_back import BackRow
from engine.settings import FlowConfig, MirrorConfig
from policies.model import TopicPartition

HELP = "end the copying of a flow, its consumer groups standing on the target where they stood on the source"
SETTLE_S = 25.0
"""For what is in flight when the flow is paused, and for copiers to end."""


class NoConfig(MirrorError):
    """The way back was asked for, and neither a running mirror nor the arguments name a configuration."""

    def __str__(self) -> str:
        return "no running mirror that names its configuration; give it: --config FILE"


class Unfinished(MirrorError):
    """A failover that ended with its flow paused: which, and why."""

    exit_code = exits.FAILED

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return (
            f"{self.why}; flow {self.flow} is paused: ask for the failover again, or go on copying with:"
            f" raymirror resume '{self.flow}'"
        )


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a failover found and left."""

    flow: str
    drained: bool
    source: str
    rpo: tuple[TopicRpo, ...]
    standing: Standing
    stopped: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("flow", metavar="FLOW", help="SOURCE->TARGET (quote it)")
    parser.add_argument("--config", type=Path, metavar="CONFIG", help="default: the running mirror's")
    parser.add_argument("--now", action="store_true", help="stop at the point reached, without copying what is left")
    parser.add_argument("--no-commit", action="store_true", help="commit nothing for groups, only say how they stand")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to copy what is left, and again how long to hold the groups (default: 60)",
    )
    parser.add_argument("--back", action="store_true", help="translate progress made on the target to the source")
    parser.add_argument("--apply", action="store_true", help="with --back: commit it on the source")
    parser.add_argument("--backwards", action="store_true", help="with --apply: also where the source is further on")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_place_arguments(parser)
    parser.epilog = (
        "exit codes: 0 the flow is stopped and every group is equal (with --back: translated, and committed where"
        " asked), 4 some group is not, 1 the flow did not stop in time, 2 bad input, 3 no mirror running"
    )


def run(args: argparse.Namespace) -> int:
    """Do it and tell. Raises NoMirror, UnknownFlow, ConfigError, NoConfig, BrokerUnreachable, MirrorLost."""
    if args.back:
        return back(args)
    with running_mirror(args) as (mirror, _):
        status = mirror.status()
        names = tuple(flow.flow for flow in status.flows)
        if args.flow not in names:
            raise UnknownFlow(args.flow, names)
        config = load_config(args.config or Path(status.config_path))
        result = fail_over(mirror, config, chosen(config, args.flow), args)
    if args.json:
        print(msgspec.json.encode({**msgspec.to_builtins(result), "equal": result.standing.equal}).decode())
    else:
        show_outcome(result.rpo, result.standing, gone=result.source, drained=result.drained, now=args.now)
    if not result.stopped:
        print(f"raymirror failover: {args.flow} still stops; see: raymirror status", file=sys.stderr)
        return exits.FAILED
    return exits.OK if result.standing.equal else exits.NOT_EQUAL


def chosen(config: MirrorConfig, name: str) -> FlowConfig:
    """Return the flow of a name. Raises UnknownFlow."""
    for flow in config.flows:
        if str(flow.name) == name:
            return flow
    raise UnknownFlow(name, tuple(str(flow.name) for flow in config.flows))


def fail_over(mirror: Mirror, config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace) -> Result:
    """Drain or not, pause, hold the groups, stop. Raises MirrorLost, BrokerUnreachable (the target), Unfinished."""
    name = str(flow.name)
    lanes = [lane.lane for lane in lanes_of(mirror, flow)]
    found = asyncio.run(ask_ends(config, flow, lanes))
    drained = False
    if not found.gone and not args.now:
        drained = until(args.timeout, lambda: has_come_to(lanes_of(mirror, flow), found.ends))
    mirror.command(Command.PAUSE, name)
    try:
        comes_to_rest(mirror, name, (), SETTLE_S)
        ends, standing = asyncio.run(hold(config, flow, lanes, args))
    except MirrorError as failure:
        raise Unfinished(name, str(failure)) from failure
    except KeyboardInterrupt:
        print(Unfinished(name, "interrupted"), file=sys.stderr)
        raise
    rpo = rpo_of(lanes_of(mirror, flow), ends.ends, wall_ms())
    mirror.fail_over(name, outcome_of(rpo, standing))
    stopped = until(SETTLE_S, lambda: has_stopped(mirror, name))
    return Result(flow=name, drained=drained, source=ends.gone, rpo=rpo, standing=standing, stopped=stopped)


def lanes_of(mirror: Mirror, flow: FlowConfig) -> list[LaneProgress]:
    """Ask for the lanes of one flow. Raises MirrorLost."""
    return [lane for lane in mirror.status(lanes=True).lanes if lane.set_id.startswith(f"{flow.name}/")]


def has_stopped(mirror: Mirror, name: str) -> bool:
    """Whether no copier of the flow is left; a mirror that has ended with its last flow has none."""
    try:
        status = mirror.status()
    except MirrorLost:
        return True
    return status.phase == "stopped" or all(copier.flow != name for copier in status.copiers)


async def ask_ends(config: MirrorConfig, flow: FlowConfig, lanes: Sequence[TopicPartition]) -> Ends:
    """Ask where the source ends. Raises BrokerUnreachable (the target), KafkaRefusal."""
    async with Failover(config, flow) as asked:
        return await asked.ends(lanes)


async def hold(
    config: MirrorConfig, flow: FlowConfig, lanes: Sequence[TopicPartition], args: argparse.Namespace
) -> tuple[Ends, Standing]:
    """Ask where the source ends now, and hold the groups until equal."""
    async with Failover(config, flow) as held:
        return await held.ends(lanes), await held.hold(args.timeout, commit=not args.no_commit)


def outcome_of(rpo: Sequence[TopicRpo], standing: Standing) -> Outcome:
    """Sum up for the event."""
    known = all(topic.known and topic.records >= 0 for topic in rpo)
    return Outcome(
        records=sum(topic.records for topic in rpo) if known else -1,
        groups=standing.groups,
        unequal=len({stand.group for stand in standing.unequal} | standing.failed.keys()),
    )


# --- the way back --------------------------------------------------------------------------------------------


def back(args: argparse.Namespace) -> int:
    """Translate, commit where asked, tell. Raises ConfigError, NoConfig, UnknownFlow, BrokerUnreachable."""
    config = load_config(args.config or named_config(args))
    rows, failed = asyncio.run(go_back(config, chosen(config, args.flow), args))
    if args.json:
        found = [{**msgspec.to_builtins(row), "settled": row.settled} for row in rows]
        print(msgspec.json.encode({"flow": args.flow, "partitions": found, "failed": failed}).decode())
    else:
        show_back(rows, failed)
    answered = all(row.source_offset >= 0 for row in rows)
    done = all(row.settled for row in rows) if args.apply else True
    return exits.OK if answered and done and not failed else exits.NOT_EQUAL


def named_config(args: argparse.Namespace) -> Path:
    """Return the configuration of the running mirror. Raises NoConfig."""
    try:
        with running_mirror(args) as (mirror, _):
            return Path(mirror.status().config_path)
    except session.NoMirror as none:
        raise NoConfig from none


async def go_back(
    config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace
) -> tuple[list[BackRow], dict[str, str]]:
    """Translate the groups; with `--apply` commit, and look again."""
    async with Failover(config, flow) as asked:
        way = await asked.way_back(backwards=args.backwards)
        rows, failed = await way.look()
        if args.apply:
            refused = await way.apply(rows)
            rows, failed = await way.look()
            failed |= refused
        return rows, failed
