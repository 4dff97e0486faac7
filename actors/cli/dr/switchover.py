"""`raymirror dr switchover FLOW`: moves applications to the target without loss, and copies back from there."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, run_remotely
from actors.cli.common.questions import BadQuestion, confirm
from actors.cli.dr.driving import control_of, driven
from actors.cli.dr.fence_choice import add_fence_arguments, fence_choices
from actors.cli.dr.flow_choice import add_flow
from actors.cli.dr.operated_flow import OperatedFlow, operated_flow
from actors.cli.dr.operating import read, show_outcome
from actors.cli.dr.operation_tables import print_reasons, print_rules
from actors.model.run_kinds import RunKind
from engine.config.config import read_properties
from engine.config.file.reversed_flow import reversed_settings, reversed_text
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.build import SwitchoverChoices, fence_of, settled_choices
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.steps import CheckStep
from engine.services.dr.switchover.world import SwitchoverWorld
from policies.dr.operation_steps import SWITCHOVER, OperationKind
from policies.dr.operations import DrOperation
from policies.model import FlowName


def add_switchover(actions: Any) -> None:
    """Declare the action."""
    parser = actions.add_parser(
        "switchover", help="move applications to the target without loss, and copy back from it"
    )
    add_flow(parser)
    parser.add_argument(
        "--address", help="Ray cluster of the mirror, HOST:PORT (default: RAY_ADDRESS, else state file)"
    )
    add_url_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="only check, and show what would be done")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_fence_arguments(parser)
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="NAME",
        help="accept a reason of the check by its name (repeat it)",
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="how long the drain may take (default: 300)"
    )
    parser.add_argument(
        "--reverse-config", type=Path, metavar="FILE", help="write the configuration with the directions turned to FILE"
    )
    parser.epilog = (
        "exit codes: 0 the target serves now (with --dry-run: nothing is in the way); 1 a step has failed, and the"
        " output says which and what to do, or the check says why it may not begin; 2 refused, or bad input, or a"
        " cluster that does not answer; steps: " + ", ".join(rule.name for rule in SWITCHOVER)
    )
    parser.set_defaults(action=run_switchover)


def run_switchover(args: argparse.Namespace) -> int:
    """Switch over and print. Raises OperationRefused, StepFailed, OperationHeld, BadQuestion, NoWayToFence."""
    if (code := run_remotely(args, RunKind.SWITCHOVER, lambda flow: ask(args, flow))) is not None:
        return code
    found = operated_flow(args)
    text = None if args.reverse_config is None else reversed_for(found, args.reverse_config)
    wanted = choices_from(args)
    with control_of(args, found) as control:
        if args.dry_run:
            code = asyncio.run(dry_run(args, found, control, wanted))
            if text is not None and code == exits.OK:
                write_reversed(found, args.reverse_config, text)
            return code
        ask(args, found.flow.name)
        if text is not None:
            write_reversed(found, args.reverse_config, text)
        outcome = asyncio.run(switch_over(found, control, wanted))
    show_outcome(args, outcome)
    return exits.OK


def choices_from(args: argparse.Namespace) -> SwitchoverChoices:
    """Return what the operator has chosen."""
    return msgspec.structs.replace(fence_choices(args), ignore=tuple(args.ignore), timeout_s=args.timeout)


def ask(args: argparse.Namespace, flow: FlowName) -> None:
    """Ask the operator. Raises BadQuestion without a terminal, and if the answer is not the flow's name."""
    if args.yes:
        return
    here, there = flow
    told = f"This keeps producers from cluster {here!r}, and makes {there!r} the cluster that they write to."
    confirm(flow, "the switchover", acts="a switchover stops producers on the source", told=[told])


async def switch_over(
    found: OperatedFlow, control: FlowControl, wanted: SwitchoverChoices
) -> tuple[DrOperation, StoredOperations]:
    """Begin and drive a switchover; a check that fails takes it back, so that nothing is left to be done."""
    async with driven(found, control) as drive:
        choices = await settled_choices(wanted, drive.source, found.config.fence_command, found.reverse)
        operation = await drive.begin(OperationKind.SWITCHOVER, choices)
    return operation, await read(found)


async def dry_run(
    args: argparse.Namespace, found: OperatedFlow, control: FlowControl, wanted: SwitchoverChoices
) -> int:
    """Check only, and print; nothing is stored. Raises FenceRefused, NoWayToFence, BrokerUnreachable."""
    async with SwitchoverWorld(found.config, found.flow, found.reverse) as world:
        command = found.config.fence_command
        choices = await settled_choices(wanted, world.source_client, command, found.reverse)
        fence = fence_of(choices, world.source_client, command, str(found.flow.name))
        reasons, facts = await CheckStep(world, fence, control, frozenset(choices.ignore)).look()
    left = [one for one in reasons if one[0] not in choices.ignore]
    if args.json:
        steps = [{"name": rule.name, "does": rule.does, "no_return": rule.ends_return} for rule in SWITCHOVER]
        answer = {"flow": args.flow, "reasons": reasons, "facts": facts, "choices": msgspec.to_builtins(choices)}
        print(msgspec.json.encode({**answer, "steps": steps}).decode())
    else:
        print_reasons(reasons, left)
        print(", ".join(f"{key} {value}" for key, value in facts.items() if value != ""))
        print_rules(SWITCHOVER)
        print("something is in the way" if left else "nothing is in the way; nothing was changed")
    return exits.FAILED if left else exits.OK


def reversed_for(found: OperatedFlow, path: Path) -> str:
    """Return the configuration with the directions turned. Raises BadQuestion if `path` has something else."""
    changes = reversed_settings(read_properties(found.path), found.flow.name)
    text = reversed_text(found.path.read_text(encoding="iso-8859-1"), changes)
    if path.exists() and not _has(path, text):
        raise BadQuestion(f"{path} exists, and has something else", "name a new file: --reverse-config FILE")
    return text


def _has(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="iso-8859-1") == text


def write_reversed(found: OperatedFlow, path: Path, text: str) -> None:
    """Write the configuration with the directions turned, unless it is there already, as from an earlier call.

    Raises BadQuestion if that is not possible.
    """
    if _has(path, text):
        return
    try:
        with path.open("x", encoding="iso-8859-1") as file:
            file.write(text)
        path.chmod(found.path.stat().st_mode & 0o777)
    except OSError as error:
        raise BadQuestion(
            f"{path} cannot be written: {error.strerror}", "name a new file: --reverse-config FILE"
        ) from error
