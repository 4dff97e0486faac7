"""`raymirror move --topics PATTERN --undo`: lets producers that have moved write to the source again."""

import argparse
import asyncio

import msgspec

from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion, confirm
from actors.cli.dr.driving import control_of, driven
from actors.cli.dr.operated_flow import OperatedFlow, operated_flow
from actors.cli.dr.operating import read, show_outcome
from actors.cli.dr.operation_tables import print_reasons, print_rules
from engine.services.dr.moves.back import MoveBackCheckStep, MoveBackChoices
from engine.services.dr.moves.steps import Reasons
from engine.services.dr.moves.survey import MoveSurvey
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.world import SwitchoverWorld
from engine.state.state import desired_of
from policies.dr.operation_steps import MOVE_BACK, OperationKind
from policies.dr.operations import DrOperation
from policies.patterns import PatternList
from policies.words import counted


class CheckedBack(msgspec.Struct, frozen=True, kw_only=True):
    """What a look has found. `reasons`: all that is in the way, also accepted; `left`: those that are not accepted."""

    choices: MoveBackChoices
    reasons: Reasons
    left: Reasons


def run_back(args: argparse.Namespace, patterns: PatternList) -> int:
    """Move producers back and print. Raises OperationRefused, StepFailed, OperationHeld, BadQuestion, NotBegun."""
    found = operated_flow(args)
    with control_of(args, found) as control:
        checked = asyncio.run(check_back(found, patterns, tuple(args.ignore)))
        if args.dry_run or checked.left:
            show_back(args, found, checked)
            return exits.NOT_EQUAL if checked.left else exits.OK
        ask_back(args, found, checked.choices.topics)
        outcome = asyncio.run(move_back(found, control, checked.choices))
    show_outcome(args, outcome)
    return exits.OK


async def check_back(found: OperatedFlow, patterns: PatternList, ignore: tuple[str, ...]) -> CheckedBack:
    """Look whether the producers may go back; change nothing. Raises BadQuestion, BrokerUnreachable."""
    async with SwitchoverWorld(found.config, found.flow, found.reverse) as world:
        survey = MoveSurvey(world)
        moved = {*(await survey.log.read()).topics, *desired_of(await world.state()).moved_topics}
        topics = tuple(sorted(name for name in moved if patterns.matches(name)))
        if not topics:
            right = "see those that have moved with: raymirror move --list"
            raise BadQuestion(f"no topic matches whose producers have moved from {found.flow.name.source}", right)
        choices = MoveBackChoices(fence="none", topics=topics, ignore=ignore)
        step = MoveBackCheckStep(survey, world.about(topics), None, choices)
        reasons = await step.look()
        return CheckedBack(choices=choices, reasons=reasons, left=step.refused(reasons))


async def move_back(
    found: OperatedFlow, control: FlowControl, choices: MoveBackChoices
) -> tuple[DrOperation, StoredOperations]:
    """Begin and drive the way back; a check that fails takes it back, so that nothing is left to be done."""
    async with driven(found, control) as drive:
        operation = await drive.begin(OperationKind.MOVE_BACK, choices)
    return operation, await read(found)


def ask_back(args: argparse.Namespace, found: OperatedFlow, topics: tuple[str, ...]) -> None:
    """Ask the operator. Raises BadQuestion without a terminal, and if the answer is not the flow's name."""
    if args.yes:
        return
    here, there = found.flow.name
    told = f"This lets producers of {', '.join(topics)} write to {here!r} again. They must have stopped on {there!r}."
    confirm(found.flow.name, "the way back", acts="this lets producers write to the source again", told=[told])


def show_back(args: argparse.Namespace, found: OperatedFlow, checked: CheckedBack) -> None:
    """Print what is in the way."""
    if args.json:
        print(msgspec.json.encode(checked).decode())
        return
    print_reasons(checked.reasons, checked.left)
    topics, here = counted(len(checked.choices.topics), "topic"), repr(found.flow.name.source)
    if checked.left:
        print(f"the producers of {topics} stay where they are; nothing was changed")
        return
    print_rules(MOVE_BACK)
    print(f"the producers of {topics} could write to {here} again; nothing was changed")
