"""`raymirror dr failback FLOW`: gives the old source what only the target has, after a failover.

count what each side has alone -> copy late what only the source has -> copy to the source what only the target has
"""

import argparse
import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, run_remotely
from actors.cli.common.questions import confirm
from actors.cli.dr.driving import ShownProgress, ended_by_its_check, waited_for
from actors.cli.dr.failback_tables import show_failback, show_look
from actors.cli.dr.fence_choice import add_fence_arguments, fence_choices
from actors.cli.dr.flow_choice import add_flow
from actors.cli.dr.operated_flow import OperatedFlow, new_operation, operated_flow, who_operates
from actors.cli.failover.owning import holder_of, known_dead
from actors.local import session
from actors.model.run_kinds import RunKind
from actors.observability.instants import clock_text
from actors.ray.launch import usual_name
from engine.base.errors import MirrorError
from engine.flow.failback.counting import Counted, FailbackWish
from engine.flow.failback.errors import NOT_FAILED_OVER, FailbackReason
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS, LANES, UNREAD, LaneRow, UnreadGroup
from engine.flow.failback.source_alone import undo_steps
from engine.flow.failback.steps import failback_steps
from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.errors import OperationRefused
from engine.flow.operations.fencing import Fence
from engine.flow.operations.store import OperationStore, Row
from engine.kafka.admin.settings import KafkaSettings
from engine.services.dr.failback import NO_FENCE, FailbackService, StoredGuard, owned
from engine.services.dr.operation_service import OperationClusters, StoredOperations
from engine.services.dr.other_fences import NoFence
from engine.services.dr.switchover.build import (
    NoWayToFence,
    SwitchoverChoices,
    choices_of,
    fence_of,
    settled_choices,
)
from policies.dr import advice
from policies.dr.failback import FailbackChoice
from policies.dr.fence import FENCE_STEP
from policies.dr.operation_commands import takes_back
from policies.dr.operation_steps import CHOICE, EXPORT, FAILBACK, FAILBACKS, MAKE_ANEW, FlowSide, OperationKind
from policies.dr.operations import DrOperation, Fact, OperationState, StepState, running
from policies.model import FlowName

COMMAND = OperationKind.FAILBACK.value
FAILED_BACK = "failback"
"""What stops a flow that was failed back, in its wanted state."""
GO_ON = "leave out --release-source, and the failback goes on"


class OtherOperation(MirrorError):
    """Another operation of the flow has not ended: its kind, flow."""

    def __init__(self, kind: str, flow: str) -> None:
        super().__init__(kind, flow)
        self.kind, self.flow = kind, flow

    def __str__(self) -> str:
        return f"a {self.kind} of {self.flow} has not ended; see: {advice.DR_STATUS.given(self.flow)}"


class FailbackResult(msgspec.Struct, frozen=True, kw_only=True):
    """A failback as it is stored, with its partitions and groups.

    `was_finished`: it had finished before the command was given, which has changed nothing.
    """

    operation: DrOperation
    was_finished: bool = False
    partitions: tuple[LaneRow, ...] = ()
    groups: tuple[MovedPartition, ...] = ()
    unread: tuple[UnreadGroup, ...] = ()

    @property
    def is_released(self) -> bool:
        """Whether its source serves meanwhile: its fence is taken away, and it goes on later."""
        fence = self.operation.step(FENCE_STEP)
        is_open = fence is not None and fence.state is StepState.UNDONE
        return is_open and self.operation.state is OperationState.RUNNING

    @property
    def exit_code(self) -> int:
        """The exit code, for scripts."""
        if self.operation.state is not OperationState.FINISHED:
            return exits.OK if self.operation.state is OperationState.ABORTED or self.is_released else exits.FAILED
        is_equal = not self.unread and all(one.is_equal for one in self.groups)
        return exits.OK if is_equal else exits.NOT_EQUAL


def add_failback(actions: Any) -> None:
    """Declare the action."""
    parser = actions.add_parser("failback", help="give the old source what only the target has, after a failover")
    add_flow(parser)
    parser.add_argument(
        "--choice",
        choices=[one.value for one in FailbackChoice],
        help="what becomes of records that only the source has (default: keep: both clusters get them)",
    )
    add_fence_arguments(parser)
    parser.add_argument(
        "--fenced-by-hand",
        dest="fence",
        action="store_const",
        const="none",
        help="the same as --fence none: you confirm that no producer writes to the source",
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write what only the source has to a new folder in this one"
    )
    parser.add_argument(
        "--make-anew",
        action="store_true",
        help="confirm that topics of the source may be deleted, created again and copied whole, if the choice needs it",
    )
    parser.add_argument("--dry-run", action="store_true", help="count and judge by the last positions; change nothing")
    parser.add_argument("--abort", action="store_true", help="take back a failback that has not copied anything yet")
    parser.add_argument(
        "--release-source",
        action="store_true",
        help="while the target is dead and nothing was copied back yet: let the source serve; the same command without"
        " this word goes on later",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_url_arguments(parser)
    parser.epilog = (
        "exit codes: 0 done, and every group is exactly where it was (with --dry-run: nothing is in the way); 4 done,"
        " but some group reads records again, or has no place (with --dry-run: it would be refused); 1 a step failed"
        " or was refused: give the same command again, it goes on where it was, and of one that has finished it says"
        " again how it ended; 2 bad input, a mirror runs the flow or"
        " its reverse, or a cluster does not answer; steps: "
        + ", ".join(rule.name for rule in FAILBACKS[FailbackChoice.APPEND])
    )
    parser.set_defaults(action=run_failback)


def run_failback(args: argparse.Namespace) -> int:
    """Fail back and print. Raises what `FailbackService` raises, FlowHeld, OperationHeld, StepFailed, BadQuestion."""
    if (code := run_remotely(args, RunKind.FAILBACK, lambda flow: _ask_once(args, flow))) is not None:
        return code
    found = operated_flow(args)
    if args.dry_run:
        seen = asyncio.run(look(found, args))
        return _show_result(seen, args, found.flow.name) if isinstance(seen, FailbackResult) else _show_look(seen, args)
    _ask_once(args, found.flow.name)
    return _show_result(asyncio.run(fail_back(found, args)), args, found.flow.name)


def _show_look(counted: Counted, args: argparse.Namespace) -> int:
    if args.json:
        print(msgspec.json.encode(_as_json(counted)).decode())
    else:
        show_look(counted)
    return exits.NOT_EQUAL if counted.reasons else exits.OK


def _show_result(result: FailbackResult, args: argparse.Namespace, flow: FlowName) -> int:
    if args.json:
        print(msgspec.json.encode(result).decode())
        return result.exit_code
    if result.was_finished:
        one = result.operation
        when = clock_text(one.ended_ms)
        print(f"failback {one.id} of {one.flow} had finished at {when}; this command has changed nothing")
    show_failback(result.operation, result.partitions, result.groups, result.unread)
    if result.is_released:
        source, target = flow
        print(f"{source} serves its applications again; when {target} is back, stop them and give the command again")
    return result.exit_code


def _as_json(counted: Counted) -> dict[str, object]:
    reasons = [msgspec.to_builtins(one) for one in counted.reasons]
    left = [str(one) for one in counted.left]
    partitions = msgspec.to_builtins(counted.rows)
    return {"partitions": partitions, "refused": reasons, "left": left, "made_anew": counted.anew}


def _ask_once(args: argparse.Namespace, flow: FlowName) -> None:
    """Ask the operator, unless what they want writes to no cluster, or they have said yes. Raises as `ask` does."""
    if not (args.yes or args.abort or args.release_source):
        ask(flow, deletes=args.make_anew)


def ask(flow: FlowName, *, deletes: bool) -> None:
    """Ask the operator. Raises BadQuestion without a terminal, and if the answer is not the flow's name."""
    source, target = flow
    told = [f"This writes to {source} what only {target} has, and to {target} what only {source} has."]
    if deletes:
        told.append(f"Topics of {source} that the choice makes anew are deleted: all their offsets begin again.")
    confirm(flow, "the failback", acts="a failback writes to both clusters", told=told)


def _service(found: OperatedFlow) -> FailbackService:
    deployment = found.config.deployment_id or session.deployment_id(os.environ)
    return FailbackService(found.config, found.flow, found.reverse, deployment)


async def look(found: OperatedFlow, args: argparse.Namespace) -> Counted | FailbackResult:
    """Judge as the steps do, and count; nothing is changed. Of one that has finished: how, as the command says it.

    Raises what `FailbackService` raises.
    """
    counted = await _judged(found, args)
    if any(one.name == NOT_FAILED_OVER for one in counted.reasons):
        async with OperationClusters(found.config, found.flow) as clusters:
            if (done := await finished_already(clusters, await clusters.read())) is not None:
                return done
    return counted


async def _judged(found: OperatedFlow, args: argparse.Namespace) -> Counted:
    async with _service(found) as service:
        command, name = found.config.fence_command, str(found.flow.name)
        try:
            choices = await settled_choices(fence_choices(args), service.source_client, command, found.reverse)
        except NoWayToFence as none:
            counted = await service.look(_asked(args), NoFence())
            reason = FailbackReason(NO_FENCE, none.cluster, str(none))
            return msgspec.structs.replace(counted, reasons=(reason, *counted.reasons))
        fence = fence_of(choices, service.source_client, command, name)
        return await service.look(_asked(args), fence)


async def fail_back(found: OperatedFlow, args: argparse.Namespace) -> FailbackResult:
    """Start a failback, go on with one, or take it back. Raises as `run_failback` does."""
    config, flow = found.config, found.flow
    mirror = session.namespace_of(args.mirror or usual_name(config))
    holder, dead = holder_of(config, mirror, COMMAND), known_dead(mirror)
    async with AsyncExitStack() as stack:
        clusters = await stack.enter_async_context(OperationClusters(config, flow))
        if args.abort and FlowSide.TARGET in clusters.away:
            store = await stack.enter_async_context(clusters.driving(holder))
            return FailbackResult(operation=await alone(store, found, clusters, releases=False))
        if args.release_source:
            if FlowSide.TARGET not in clusters.away:
                raise OperationRefused("target-answers", f"cluster {flow.name.target!r} answers: {GO_ON}")
            store = await stack.enter_async_context(clusters.driving(holder))
            return FailbackResult(operation=await alone(store, found, clusters, releases=True))
        stored = await clusters.read()
        if not args.abort and (done := await finished_already(clusters, stored)) is not None:
            return done
        service = await stack.enter_async_context(_service(found))
        for text in waited_for(stored):
            ShownProgress().told(text)
        guard = await stack.enter_async_context(owned(config, flow, found.reverse, holder, dead, service.moves_back))
        await service.prepare()
        store = await stack.enter_async_context(clusters.driving(holder))
        operation = await _drive(store, found, service, guard, args, clusters.away)
        return FailbackResult(
            operation=operation,
            partitions=store.notes(operation, LANES, LaneRow) or (),
            groups=store.notes(operation, GROUPS, MovedPartition) or (),
            unread=store.notes(operation, UNREAD, UnreadGroup) or (),
        )


async def finished_already(clusters: OperationClusters, stored: StoredOperations) -> FailbackResult | None:
    """Return the last failback of the flow if its end still holds: both directions are as it has left them.

    None if an operation has not ended, or the flow or its reverse was failed over or switched over since. Raises
    ClusterUnread, NewerFormat, StateUnreadable.
    """
    if stored.away or running(stored.operations) is not None:
        return None
    name = str(clusters.flow.name)
    last = next((one for one in reversed(stored.operations) if _has_failed_back(one, name)), None)
    if last is None or (await clusters.wanted(FlowSide.TARGET)).stop != FAILED_BACK:
        return None
    if (await clusters.wanted(FlowSide.SOURCE)).failed_over:
        return None
    return FailbackResult(
        operation=last,
        was_finished=True,
        partitions=_rows(stored, last, LANES, LaneRow),
        groups=_rows(stored, last, GROUPS, MovedPartition),
        unread=_rows(stored, last, UNREAD, UnreadGroup),
    )


def _has_failed_back(operation: DrOperation, flow: str) -> bool:
    is_failback = operation.kind == COMMAND and operation.flow == flow
    return is_failback and operation.state is OperationState.FINISHED


def _rows(stored: StoredOperations, operation: DrOperation, name: str, kind: type[Row]) -> tuple[Row, ...]:
    return tuple(msgspec.json.decode(row, type=kind) for row in stored.notes(operation, name))


async def alone(
    store: OperationStore, found: OperatedFlow, clusters: OperationClusters, *, releases: bool
) -> DrOperation:
    """Take a failback back while the target is dead, or release its source.

    Raises OtherOperation, OperationRefused, StepFailed.
    """
    name, current, source = str(found.flow.name), store.current, clusters.client(FlowSide.SOURCE)
    if current is not None and current.kind != COMMAND:
        raise OtherOperation(current.kind, current.flow)
    fence: Fence = NoFence()
    if current is not None:
        fence = fence_of(choices_of(current.choices), source, found.config.fence_command, name)
    steps = undo_steps(KafkaSettings(source), fence)
    driver = OperationDriver(store, name, steps, ShownProgress(), clusters.away)
    if releases:
        return await driver.release(who_operates(), "the source serves meanwhile")
    return await driver.abort(who_operates(), "asked for")


async def _drive(
    store: OperationStore,
    found: OperatedFlow,
    service: FailbackService,
    guard: StoredGuard,
    args: argparse.Namespace,
    away: Mapping[FlowSide, str],
) -> DrOperation:
    """Drive. `away`: clusters that did not answer in time to be driven on, also if they answer by now.

    Raises what `OperationDriver` raises, OtherOperation, and NotBegun for a check that fails: it ends the failback.
    """
    name, current, command = str(found.flow.name), store.current, found.config.fence_command
    if current is not None and current.kind != COMMAND:
        raise OtherOperation(current.kind, current.flow)
    if current is not None:
        if not args.abort:
            refuse_other_choices(current, args)
        choices = choices_of(current.choices)
    else:
        choices = await settled_choices(fence_choices(args), service.source_client, command, found.reverse)
    fence = fence_of(choices, service.source_client, command, name)
    choice = FailbackChoice(str(current.choices[CHOICE])) if current is not None else _choice(args)
    steps = dict(failback_steps(service.world(guard, fence), choice))
    driver = OperationDriver(store, name, steps, ShownProgress(), away)
    if args.abort:
        return await driver.abort(who_operates(), "asked for")
    async with ended_by_its_check(FAILBACK[0].name, partial(driver.abort, who_operates())):
        if current is not None:
            return await driver.resume(who_operates(), _added(current, args))
        return await driver.start(_new(found, choices, args))


def _added(operation: DrOperation, args: argparse.Namespace) -> dict[str, Fact]:
    """Return what the operator adds to a failback: a confirmation, or a folder where none was needed before."""
    added: dict[str, Fact] = {MAKE_ANEW: True} if args.make_anew else {}
    return added | ({EXPORT: _folder(args)} if args.export is not None and not operation.choices.get(EXPORT) else {})


def refuse_other_choices(operation: DrOperation, args: argparse.Namespace) -> None:
    """Refuse words that a failback was not begun with: what is stored holds. Raises OperationRefused."""
    given: dict[str, tuple[object, object, object]] = {
        str(advice.CHOICE): (args.choice, None, operation.choices.get(CHOICE)),
        str(advice.EXPORT): (_folder(args), "", operation.choices.get(EXPORT) or _folder(args)),
    }
    wanted, stored = fence_choices(args), choices_of(operation.choices)
    usual = SwitchoverChoices()
    given |= {
        str(advice.FENCE): (wanted.fence, usual.fence, stored.fence),
        str(advice.PRINCIPAL): (wanted.principals, usual.principals, stored.principals),
        str(advice.OWN_PRINCIPAL): (wanted.own_principal, usual.own_principal, stored.own_principal),
        str(advice.EVERYONE_ALLOWED): (wanted.everyone, usual.everyone, stored.everyone),
    }
    other = [word for word, (now, default, before) in given.items() if now not in (default, before)]
    if other:
        name = f"{operation.kind} {operation.id}"
        raise OperationRefused(
            "other-choices",
            f"{name} goes on with what it was begun with, which is not this {' and '.join(other)}: leave it out, or"
            f" take the failback back ({takes_back(operation.kind, operation.flow)}) and begin a new one",
        )


def _folder(args: argparse.Namespace) -> str:
    return str(args.export.resolve()) if args.export is not None else ""


def _choice(args: argparse.Namespace) -> FailbackChoice:
    return FailbackChoice(args.choice or FailbackChoice.KEEP.value)


def _asked(args: argparse.Namespace) -> FailbackWish:
    return FailbackWish(choice=_choice(args), exports=args.export is not None, confirms=args.make_anew)


def _new(found: OperatedFlow, choices: SwitchoverChoices, args: argparse.Namespace) -> DrOperation:
    return new_operation(
        found.flow.name,
        OperationKind.FAILBACK,
        {**choices.facts(), CHOICE: _choice(args).value, EXPORT: _folder(args), MAKE_ANEW: args.make_anew},
    )
