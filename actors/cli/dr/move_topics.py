"""`raymirror move --topics PATTERN`: moves all producers of topics to the target, after their consumers."""

import argparse
import asyncio
import sys

import msgspec

from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion, confirm
from actors.cli.dr.driving import control_of, driven
from actors.cli.dr.fence_choice import fence_choices
from actors.cli.dr.move_back import run_back
from actors.cli.dr.move_tables import show_moved
from actors.cli.dr.operated_flow import OperatedFlow, operated_flow
from actors.cli.dr.operating import read
from actors.cli.dr.operation_tables import as_json, print_reasons, print_rules, show_operation
from engine.services.dr.moves.hook import MoveHook, MovePhase
from engine.services.dr.moves.steps import MoveCheckStep, MoveChoices, Reasons
from engine.services.dr.moves.survey import MoveSurvey
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.build import fence_of, settled_choices
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.world import SwitchoverWorld
from policies.dr import advice
from policies.dr.operation_steps import MOVE, OperationKind
from policies.dr.operations import DrOperation
from policies.model import FlowName
from policies.patterns import BadPattern, PatternList
from policies.words import counted, named


class CheckedMove(msgspec.Struct, frozen=True, kw_only=True):
    """What a look has found. `choices`: complete, with the topics. `reasons`: all that is in the way, also accepted.

    `left`: those that are not accepted. `moved`: topics whose producers have moved already.
    """

    choices: MoveChoices
    reasons: Reasons
    left: Reasons
    moved: tuple[str, ...]


def run_topics(args: argparse.Namespace) -> int:
    """Move and print. Raises OperationRefused, StepFailed, OperationHeld, BadQuestion, NoWayToFence, HookFailed."""
    patterns = _patterns(args.topics)
    if args.undo:
        return run_back(args, patterns)
    found = operated_flow(args)
    with control_of(args, found) as control:
        if not args.dry_run:
            hook = MoveHook(found.config, found.flow)
            topics = asyncio.run(_matching(found, patterns))[0]
            if topics:
                ask(args, found.flow.name, named(topics))
                asyncio.run(hook.call(MovePhase.BEFORE, topics))
        checked = asyncio.run(check(found, control, patterns, choices_from(args), args.watch))
        if not checked.choices.topics:
            return _all_moved(args, checked)
        if args.dry_run or checked.left:
            show_check(args, checked)
            return exits.NOT_EQUAL if checked.left else exits.OK
        outcome = asyncio.run(move_topics(found, control, checked.choices))
    operation, stored = outcome
    if args.json:
        print(msgspec.json.encode(as_json(operation, stored)).decode())
    else:
        show_operation(operation, stored)
        show_moved(operation)
    return exits.OK


def _patterns(text: str) -> PatternList:
    try:
        return PatternList([part.strip() for part in text.split(",") if part.strip()])
    except BadPattern as bad:
        raise BadQuestion(f"{advice.TOPICS}: {bad}", "write names or Java patterns, separated by commas") from bad


def choices_from(args: argparse.Namespace) -> MoveChoices:
    """Return what the operator has chosen, without the topics."""
    fence = {name: getattr(fence_choices(args), name) for name in ("fence", "principals", "own_principal", "everyone")}
    return MoveChoices(
        **fence, ignore=tuple(args.ignore), left=tuple(args.leave_group), timeout_s=max(args.timeout, 1.0)
    )


def ask(args: argparse.Namespace, flow: FlowName, topics: str) -> None:
    """Ask the operator. Raises BadQuestion without a terminal, and if the answer is not the flow's name."""
    if args.yes:
        return
    here, there = flow
    told = f"This keeps producers of {topics} from cluster {here!r}: they will write to {there!r}."
    confirm(flow, "the move", acts="this stops producers on the source", told=[told])


async def _matching(found: OperatedFlow, patterns: PatternList) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the topics of the flow that match: those to move, and those that have moved. Raises BadQuestion."""
    async with SwitchoverWorld(found.config, found.flow, found.reverse) as world:
        return await _split(world, patterns)


async def _split(world: SwitchoverWorld, patterns: PatternList) -> tuple[tuple[str, ...], tuple[str, ...]]:
    wanted = [name for name in await world.fenced_topics() if patterns.matches(name)]
    if not wanted:
        raise BadQuestion(
            f"no topic that {world.flow.name} copies matches", f"see the names with: {advice.MOVE_LIST.given()}"
        )
    moved = (await MoveSurvey(world).log.read()).topics
    return tuple(name for name in wanted if name not in moved), tuple(name for name in wanted if name in moved)


async def check(
    found: OperatedFlow, control: FlowControl, patterns: PatternList, wanted: MoveChoices, watch_s: float
) -> CheckedMove:
    """Look whether the producers may move; change nothing. Raises FenceRefused, NoWayToFence, BrokerUnreachable."""
    async with SwitchoverWorld(found.config, found.flow, found.reverse) as world:
        topics, moved = await _split(world, patterns)
        command = found.config.fence_command
        settled = await settled_choices(wanted, world.source_client, command, found.reverse)
        choices = msgspec.structs.replace(settled, topics=topics)
        if not topics:
            return CheckedMove(choices=choices, reasons=(), left=(), moved=moved)
        fence = fence_of(choices, world.source_client, command, str(found.flow.name))
        step = MoveCheckStep(MoveSurvey(world), world.about(topics), fence, control, choices)
        reasons, _ = await step.look(watch_s)
        return CheckedMove(choices=choices, reasons=reasons, left=step.refused(reasons), moved=moved)


async def move_topics(
    found: OperatedFlow, control: FlowControl, choices: MoveChoices
) -> tuple[DrOperation, StoredOperations]:
    """Begin and drive the move; a check that fails takes it back, so that nothing is left to be done."""
    async with driven(found, control) as drive:
        operation = await drive.begin(OperationKind.MOVE, choices)
    return operation, await read(found)


def _all_moved(args: argparse.Namespace, checked: CheckedMove) -> int:
    if args.json:
        print(msgspec.json.encode(checked).decode())
    else:
        print(f"the producers of {counted(len(checked.moved), 'topic')} have moved already; nothing was changed")
    return exits.OK


def show_check(args: argparse.Namespace, checked: CheckedMove) -> None:
    """Print what is in the way of a move."""
    if args.json:
        print(msgspec.json.encode(checked).decode())
        for name, why in checked.left:
            print(f"raymirror move: {name}: {why}", file=sys.stderr)
        return
    print_reasons(checked.reasons, checked.left)
    topics = counted(len(checked.choices.topics), "topic")
    if checked.left:
        accepting = f"a reason that you accept: {advice.IGNORE.given('NAME')}"
        print(f"the producers of {topics} are not moved; nothing was changed ({accepting})")
        return
    print_rules(MOVE)
    print(f"the producers of {topics} could move now; nothing was changed")
