"""`raymirror failover FLOW`: stops a flow so that its consumers can move to the target; `--back` moves them back.

drain what can be drained (or stop at the point reached) -> pause -> hold the groups until equal -> stop, with an event
-> print what is left, partition by partition

If no mirror runs, `failover_alone` does it from what the target holds.
"""

import argparse
import asyncio
import os
import sys
from asyncio import to_thread
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import (
    add_place_arguments,
    add_url_arguments,
    mirror_on_ray,
    run_remotely,
    why_none,
)
from actors.cli.common.flags import add_needed_flow_argument
from actors.cli.common.questions import BadQuestion
from actors.cli.common.quiesce import comes_to_rest, until
from actors.cli.common.steps import StartSteps
from actors.cli.failover.draining import DrainBudget, drain, lanes_of
from actors.cli.failover.failover_alone import fail_over_alone, note_here
from actors.cli.failover.failover_outcome import Result, outcome_of, renames
from actors.cli.failover.failover_stored import Judged, judged_by_positions
from actors.cli.failover.failover_tables import (
    show_alone,
    show_back,
    show_fences,
    show_left_out,
    show_other_writers,
    show_outcome,
    show_stopped_before,
    show_tombstones,
    show_undiscovered,
    stopped_text,
)
from actors.cli.failover.open_operation import DESPITE, only_failover
from actors.cli.failover.owning import holder_of
from actors.cli.failover.step_times import WITH_MIRROR, FailoverStep, StepTimes, steps_text
from actors.local import session
from actors.model.run_kinds import RunKind
from actors.model.states import Command, Desired, UnknownFlow
from actors.ray.mirror import Mirror, MirrorLost
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drain import Ends, absent_lanes, judged, undrained
from engine.core.reports.progress import LaneProgress
from engine.core.reports.rpo import rpo_of
from engine.flow.groups.failback import FailbackRow, with_commits
from engine.flow.ownership.other_writers import OtherWriters
from engine.services.dr.failover import Failover
from policies.dr.advice import KEEP_TOMBSTONES, RESUME
from policies.model import TopicPartition

SETTLE_S = 25.0
"""Seconds for copiers to end, after `--timeout`."""
NEVER_FOUND = "the mirror has never found it on the source"
"""Why no copier copies a partition with a position, if topic discovery never succeeded."""
WAS_STOPPED = "the flow was stopped before"
"""Why no copier copies a partition with a position, if a request over HTTP has stopped the flow."""
KEPT_DAYS = 30.0
"""Days for which compacted copies keep tombstones after a failover, unless the command says otherwise."""
DAY_MS = 86_400_000
NOTED_S = 10.0
"""Seconds for `run` to notice that its mirror ends: it checks once a second."""


class NoConfig(MirrorError):
    """Neither a running mirror nor the arguments name a configuration."""

    def __str__(self) -> str:
        return "no running mirror names its configuration; give it: --config FILE"


class Unfinished(MirrorError):
    """A failover ended early and left its flow paused, or stopped as it was before."""

    exit_code = exits.FAILED

    def __init__(self, flow: str, why: str, state: str = Desired.PAUSED.value) -> None:
        super().__init__(flow, why, state)
        self.flow, self.why, self.state = flow, why, state

    def __str__(self) -> str:
        return (
            f"{self.why}; flow {self.flow} is {self.state}: run the failover again, or continue to copy with:"
            f" {RESUME.given(self.flow)}"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_needed_flow_argument(parser)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="CONFIG",
        help="default: that of the running mirror; without a mirror it names the target to read",
    )
    parser.add_argument("--now", action="store_true", help="stop at the point reached, without copying what is left")
    parser.add_argument("--no-commit", action="store_true", help="commit nothing for groups, only show their offsets")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long draining, the pause and holding the groups may take together (default: 60; of that, the last"
        " 20 s, at most half, are reserved for pause and groups); copiers then have 25 s to end",
    )
    parser.add_argument(
        "--keep-tombstones",
        type=float,
        default=KEPT_DAYS,
        metavar="DAYS",
        help="raise delete.retention.ms of compacted copies to this, so that a failback finds what was deleted"
        f" (default: {KEPT_DAYS:.0f}; 0: leave it)",
    )
    parser.add_argument(
        DESPITE, action="store_true", help="also while a switchover or failback of the flow or its reverse is open"
    )
    parser.add_argument("--back", action="store_true", help="translate progress on the target to source offsets")
    parser.add_argument("--apply", action="store_true", help="with --back: commit these offsets on the source")
    parser.add_argument("--backwards", action="store_true", help="with --apply: also if the source offset is higher")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_place_arguments(parser)
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 the flow is stopped, every partition is drained and every group is equal (with --back: every"
        " group is translated, and committed with --apply), 4 the flow is stopped, but some partition is not drained,"
        " or the target has refused records, or some group is not equal, or a fence is left on the target: the output"
        " says which and why; heartbeat topics do not count, 1 the flow did not stop in time, or is paused, or the"
        " failover did not finish, 2 bad input, or a mirror elsewhere owns the flow, or an operation of it is open"
        f" (without {DESPITE}), 3 no mirror runs, and no --config; with --config and no mirror the flow is failed over"
        " from what its target holds, whether the source answers or not"
    )


def run(args: argparse.Namespace) -> int:
    """Fail over and print. Raises NoMirror, UnknownFlow, ConfigError, NoConfig, BrokerUnreachable, MirrorLost."""
    if (code := run_remotely(args, RunKind.FAILOVER)) is not None:
        return code
    if args.back:
        return back(args)
    result = with_mirror(args)
    if args.json:
        print(msgspec.json.encode(result.as_json()).decode())
    else:
        if result.without_mirror:
            show_alone(result)
        elif result.undiscovered:
            show_undiscovered(result)
        elif result.was_stopped:
            show_stopped_before(result)
        is_alone = bool(result.without_mirror)
        are_listed = is_alone or result.undiscovered or result.was_stopped
        show_outcome(result.rpo, result.partitions, result.standing, gone=result.source, are_listed=are_listed)
        show_left_out(result.left_out)
        show_tombstones(result.tombstones)
        show_fences(result.fences)
        print(steps_text(result.steps))
        if result.stopped:
            print(stopped_text(result.flow, mirror_goes_on=result.mirror_goes_on, renamed=result.renamed))
    if not result.stopped:
        print(f"raymirror failover: {args.flow} is still stopping; see: raymirror status", file=sys.stderr)
    if result.unremembered:
        print(
            f"raymirror failover: the stop of {args.flow} is not remembered yet: the target could not be written to; a"
            " mirror that restarts before that may copy again",
            file=sys.stderr,
        )
    return result.exit_code


def with_mirror(args: argparse.Namespace) -> Result:
    """Fail over a flow of the running mirror; with `--config` and no mirror of the flow, from what the target holds."""
    with ExitStack() as stack:
        mirror, why = None, ""
        try:
            mirror, place = stack.enter_context(mirror_on_ray(args))
        except session.NoMirror as none:
            why = why_none(args, none)
        if mirror is None:
            return alone(args, why)
        status = mirror.status()
        names = tuple(flow.flow for flow in status.flows)
        if args.flow not in names:
            if args.config is None:
                raise UnknownFlow(args.flow, names)
            return alone(args, f"the mirror on this machine copies {' and '.join(names)}")
        config = load_config(args.config or Path(status.config_path))
        result = asyncio.run(fail_over(mirror, place, config, chosen(config, args.flow), args))
        goes_on = mirror_goes_on(mirror, place)
        if result.stopped and place.pid and not goes_on and not is_noted(place):
            until(NOTED_S, lambda: is_noted(place))  # so that the next command can say at once that it ends
        return msgspec.structs.replace(result, mirror_goes_on=goes_on)


def alone(args: argparse.Namespace, why: str) -> Result:
    """Fail over without a mirror; `why`: the reason. Raises what `fail_over_alone` raises, UnknownFlow."""
    config = load_config(args.config)
    flow = chosen(config, args.flow)
    commit = not args.no_commit
    print(f"raymirror failover: no mirror of {flow.name} runs ({why}); reading its target", file=sys.stderr)
    result = asyncio.run(
        fail_over_alone(
            config,
            flow,
            why=why,
            mirror=args.mirror,
            timeout_s=args.timeout,
            commit=commit,
            tombstones_ms=tombstones_ms(args),
            despite_operation=args.despite_operation,
        )
    )
    note_here(args.config, str(flow.name))
    return result


def tombstones_ms(args: argparse.Namespace) -> int:
    """Return for how many ms compacted copies are to keep tombstones, 0: as before. Raises BadQuestion."""
    if args.keep_tombstones < 0:
        raise BadQuestion(f"{KEEP_TOMBSTONES} is negative", "give days, or 0 to change nothing")
    return int(args.keep_tombstones * DAY_MS)


def chosen(config: MirrorConfig, name: str) -> FlowConfig:
    """Return the flow with this name. Raises UnknownFlow."""
    for flow in config.flows:
        if str(flow.name) == name:
            return flow
    raise UnknownFlow(name, tuple(str(flow.name) for flow in config.flows))


async def fail_over(
    mirror: Mirror, place: session.MirrorPlace, config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace
) -> Result:
    """Drain (not with `--now`), pause, hold the groups, stop.

    Raises OperationOpen, OperationHeld, OperationTaken, MirrorLost, BrokerUnreachable, Unfinished.

    A flow that was stopped before is not started again for it: nothing is drained, and its positions are judged. Long
    waits for the mirror have a thread of their own: the lease of this command is renewed meanwhile.
    """
    name, budget, least_ms = str(flow.name), DrainBudget(args.timeout), tombstones_ms(args)
    times = StepTimes(WITH_MIRROR, StartSteps(quiet=False, out=sys.stderr))
    was_stopped = any(one.flow == name and one.desired is Desired.STOPPED for one in mirror.status().flows)
    state = Desired.STOPPED if was_stopped else Desired.PAUSED
    async with AsyncExitStack() as stack:
        with times.of(FailoverStep.CONNECT):
            asked = await stack.enter_async_context(Failover(config, flow))
            holder = holder_of(config, mirror.namespace, "failover")
            await stack.enter_async_context(only_failover(asked, name, holder, despite=args.despite_operation))
        with times.of(FailoverStep.DRAIN):
            waited_for = Ends() if args.now or was_stopped else await drain(mirror, flow, asked, budget.drain_until_s)
        before = {lane.lane: lane for lane in lanes_of(mirror, flow)}
        if not was_stopped:
            mirror.command(Command.PAUSE, name)
        try:
            with times.of(FailoverStep.PAUSE):
                rest_s = budget.left_s / 2
                if was_stopped:  # its last copiers may still drain
                    await to_thread(
                        until, rest_s, lambda: all(copier.flow != name for copier in mirror.status().copiers)
                    )
                else:
                    await to_thread(comes_to_rest, mirror, name, (), rest_s)
            with times.of(FailoverStep.JUDGE):
                if was_stopped:
                    found = await judged_by_positions(asked, flow, await asked.stored(), WAS_STOPPED)
                else:
                    found = await judged_at_rest(mirror, flow, asked, before, waited_for)
            with times.of(FailoverStep.GROUPS):
                standing = await asked.hold(
                    budget.left_s,
                    commit=not args.no_commit,
                    undrained=undrained(found.partitions),
                    gone=found.ends.gone,
                    say=times.say,
                )
            with times.of(FailoverStep.TOMBSTONES):
                left_out = await asked.known_left_out()
                raised = await asked.keep_tombstones(found.copies, least_ms)
                lifted = await asked.lift_fences()
        except MirrorError as failure:
            raise Unfinished(name, str(failure), state.value) from failure
        except (KeyboardInterrupt, asyncio.CancelledError):
            print(Unfinished(name, "interrupted", state.value), file=sys.stderr)
            raise
        ending = Ending(mirror, place, name)
        with times.of(FailoverStep.STOP):
            outcome = outcome_of(
                found.partitions,
                standing,
                raised,
                is_whole=found.is_whole,
                renamed=renames(flow),
                left_out=left_out.records,
            )
            mirror.fail_over(name, outcome)
            stopped = await to_thread(until, SETTLE_S, ending.is_over)
    return Result(
        flow=name,
        source=found.ends.gone,
        partitions=found.partitions,
        rpo=rpo_of(found.lanes, found.ends.ends, wall_ms()),
        standing=standing,
        stopped=stopped,
        unremembered=ending.unremembered,
        unread=found.unread,
        undiscovered=found.by_positions and not was_stopped,
        was_stopped=was_stopped,
        tombstones=raised,
        fences=lifted,
        left_out=left_out,
        renamed=renames(flow),
        steps=times.done,
    )


async def judged_at_rest(
    mirror: Mirror, flow: FlowConfig, asked: Failover, before: Mapping[TopicPartition, LaneProgress], waited_for: Ends
) -> Judged:
    """Judge the partitions of a paused flow; by the target's positions if its mirror has never discovered any.

    No copier reports partitions then, which does not mean that nothing is left. Raises what `Failover.stored` raises.
    """
    if any(one.flow == str(flow.name) and one.is_undiscovered for one in mirror.status().flows):
        return await judged_by_positions(asked, flow, await asked.stored(), NEVER_FOUND)
    lanes, ends = lanes_of(mirror, flow), await asked.ends(before.keys())
    lanes += absent_lanes(lanes, ends)
    partitions = judged(lanes, before, waited_for, ends, flow.naming.is_heartbeats_topic)
    return Judged(lanes=lanes, ends=ends, partitions=partitions)


class Ending:
    """The end of a flow that was failed over, as its mirror reports it."""

    def __init__(self, mirror: Mirror, place: session.MirrorPlace, flow: str) -> None:
        self._mirror, self._place, self._flow = mirror, place, flow
        self.unremembered = False
        """Whether by the last status the target had not stored yet that the flow is stopped."""

    def is_over(self) -> bool:
        """Whether no copier of the flow is left. A mirror that has ended with its last flow has no copiers.

        A mirror that only does not answer may still have all of them.
        """
        try:
            status = self._mirror.status()
        except MirrorLost as lost:
            return lost.has_ended or (bool(self._place.pid) and is_noted(self._place))
        self.unremembered = self._flow in status.unremembered
        return status.phase == "stopped" or all(copier.flow != self._flow for copier in status.copiers)


def mirror_goes_on(mirror: Mirror, place: session.MirrorPlace) -> bool | None:
    """Whether the mirror continues: it ends with its last flow. None if it does not answer, so that it is not known."""
    try:
        status = mirror.status()
    except MirrorLost as lost:
        return False if lost.has_ended or (place.pid and is_noted(place)) else None
    is_left = any(flow.desired is not Desired.STOPPED or flow.may_return for flow in status.flows)
    return is_left and status.phase not in session.ENDING_PHASES


def is_noted(place: session.MirrorPlace) -> bool:
    """Whether the `run` process of the mirror has noted its end on this machine."""
    try:
        session.refuse_ended(place, wall_ms(), os.environ)
    except session.NoMirror:
        return True
    return False


# --- the way back --------------------------------------------------------------------------------------------


def back(args: argparse.Namespace) -> int:
    """Translate, commit with `--apply`, print. Raises ConfigError, NoConfig, UnknownFlow, BrokerUnreachable."""
    config = load_config(args.config or named_config(args))
    rows, failed, others = asyncio.run(go_back(config, chosen(config, args.flow), args))
    if args.json:
        found = [{**msgspec.to_builtins(row), "settled": row.settled} for row in rows]
        answer = {
            "flow": args.flow,
            "partitions": found,
            "failed": failed,
            "other_writers": msgspec.to_builtins(others),
        }
        if args.apply:
            answer["committed"] = sum(row.committed >= 0 for row in rows)
        print(msgspec.json.encode(answer).decode())
    else:
        show_back(rows, failed, applied=args.apply)
        show_other_writers(others)
    answered = all(row.source_offset >= 0 for row in rows)
    done = all(row.settled for row in rows) if args.apply else True
    return exits.OK if answered and done and not failed else exits.NOT_EQUAL


def named_config(args: argparse.Namespace) -> Path:
    """Return the configuration of the running mirror. Raises NoConfig."""
    try:
        with mirror_on_ray(args) as (mirror, _):
            return Path(mirror.status().config_path)
    except session.NoMirror as none:
        raise NoConfig from none


async def go_back(
    config: MirrorConfig, flow: FlowConfig, args: argparse.Namespace
) -> tuple[list[FailbackRow], dict[str, str], OtherWriters]:
    """Search for other writers and translate the groups; with `--apply` commit and translate again."""
    async with Failover(config, flow) as asked:
        way = await asked.way_back(backwards=args.backwards)
        others = await asked.other_writers()
        rows, failed = await way.read()
        if args.apply:
            committed, refused = await way.apply(rows)
            seen, failed = await way.read()
            rows, failed = with_commits(seen, committed), failed | refused
        return rows, failed, others
