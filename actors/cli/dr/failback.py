"""`raymirror dr failback FLOW`: gives the old source what only the target has, after a failover.

count what each side has alone -> copy late what only the source has -> copy to the source what only the target has
"""

import argparse
import asyncio
import getpass
import os
import socket
import sys
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion
from actors.cli.dr.failback_tables import show_failback, show_look
from actors.cli.failover.owning import holder_of, known_dead
from actors.local import session
from actors.ray.launch import usual_name
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.config import read_properties, reread_config
from engine.config.file.reversed_flow import reversed_properties
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.failback.counting import Counted
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS, LANES, LaneRow
from engine.flow.failback.steps import CHOICE, EXPORT, FENCED, failback_steps
from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.store import OperationStore
from engine.services.dr.failback import FailbackService, StoredGuard, owned
from engine.services.dr.operation_service import OperationClusters
from engine.services.dr.switchover.world import ReverseConfig
from policies.dr.failback import FailbackChoice
from policies.dr.operations import DrOperation, MoveKind, NextMove, OperationState
from policies.model import FlowName

COMMAND = "failback"


class OtherOperation(MirrorError):
    """Another operation of the flow has not ended: its kind, flow."""

    def __init__(self, kind: str, flow: str) -> None:
        super().__init__(kind, flow)
        self.kind, self.flow = kind, flow

    def __str__(self) -> str:
        return f"a {self.kind} of {self.flow} has not ended; see: raymirror dr status '{self.flow}'"


class FailbackResult(msgspec.Struct, frozen=True, kw_only=True):
    """A failback as it is stored, with its partitions and groups."""

    operation: DrOperation
    partitions: tuple[LaneRow, ...] = ()
    groups: tuple[MovedPartition, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code, for scripts."""
        if self.operation.state is not OperationState.FINISHED:
            return exits.OK if self.operation.state is OperationState.ABORTED else exits.FAILED
        return exits.OK if all(one.is_equal for one in self.groups) else exits.NOT_EQUAL


def add_failback_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the action takes, except the flow and the configuration."""
    parser.add_argument(
        "--choice",
        choices=[one.value for one in FailbackChoice],
        default=FailbackChoice.KEEP.value,
        help="what becomes of records that only the source has (default: keep: both clusters get them)",
    )
    parser.add_argument(
        "--fenced-by-hand",
        action="store_true",
        help="confirm that no producer writes to the source: they are stopped, or denied Write",
    )
    parser.add_argument(
        "--export", type=Path, metavar="DIR", help="write what only the source has to a new folder in this one"
    )
    parser.add_argument("--dry-run", action="store_true", help="count and judge by the last positions; change nothing")
    parser.add_argument("--abort", action="store_true", help="take back a failback that has not copied anything yet")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.epilog = (
        "exit codes: 0 done, every group is exactly where it was; 4 done, but some group reads records again, or has no"
        " place; with --dry-run: it would be refused; also: it is refused; 1 a step failed: give the same command"
        " again, it goes on where it was; 2 bad input, a mirror runs the flow or its reverse, or a cluster does not"
        " answer"
    )


def run_failback(args: argparse.Namespace, config: MirrorConfig, flow: FlowConfig) -> int:
    """Fail back and print. Raises what `FailbackService` raises, FlowHeld, OperationHeld, StepFailed, BadQuestion."""
    reverse = reverse_of(config, flow)
    if args.dry_run:
        counted = asyncio.run(look(config, flow, reverse, args))
        if args.json:
            print(msgspec.json.encode(_as_json(counted)).decode())
        else:
            show_look(counted)
        return exits.NOT_EQUAL if counted.reasons else exits.OK
    if not (args.yes or args.abort) and not _agrees(flow):
        return exits.FAILED
    result = asyncio.run(fail_back(config, flow, reverse, args))
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        show_failback(result.operation, result.partitions, result.groups)
    return result.exit_code


def _as_json(counted: Counted) -> dict[str, object]:
    reasons = [msgspec.to_builtins(one) for one in counted.reasons]
    left = [str(one) for one in counted.left]
    return {"partitions": msgspec.to_builtins(counted.rows), "refused": reasons, "left": left}


def _agrees(flow: FlowConfig) -> bool:
    source, target = flow.name
    if not sys.stdin.isatty():
        raise BadQuestion("a failback writes to both clusters", "confirm it: --yes")
    print(f"This writes to {source} what only {target} has, and to {target} what only {source} has.")
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def reverse_of(config: MirrorConfig, flow: FlowConfig) -> ReverseConfig:
    """Return the reverse flow as the file has it, or as it follows from the flow. Raises ConfigError."""
    back = FlowName(flow.name.target, flow.name.source)
    reversed_config = reread_config(reversed_properties(read_properties(Path(config.file)), flow.name))
    is_enabled = any(one.name == back for one in config.flows)
    return ReverseConfig(config=reversed_config, flow=reversed_config.flow(back), is_enabled=is_enabled)


def _deployment(config: MirrorConfig) -> str:
    return config.deployment_id or session.deployment_id(os.environ)


async def look(config: MirrorConfig, flow: FlowConfig, reverse: ReverseConfig, args: argparse.Namespace) -> Counted:
    """Count and judge, changing nothing. Raises what `FailbackService` raises."""
    async with FailbackService(config, flow, reverse, _deployment(config)) as service:
        return await service.look(FailbackChoice(args.choice), exports=args.export is not None)


async def fail_back(
    config: MirrorConfig, flow: FlowConfig, reverse: ReverseConfig, args: argparse.Namespace
) -> FailbackResult:
    """Start a failback, go on with one, or take it back. Raises as `run_failback` does."""
    mirror = session.namespace_of(args.mirror or usual_name(config))
    holder, dead = holder_of(config, mirror, COMMAND), known_dead(mirror)
    async with AsyncExitStack() as stack:
        clusters = await stack.enter_async_context(OperationClusters(config, flow))
        service = await stack.enter_async_context(FailbackService(config, flow, reverse, _deployment(config)))
        guard = await stack.enter_async_context(owned(config, flow, reverse, holder, dead))
        await service.prepare()
        store = await stack.enter_async_context(clusters.driving(holder))
        operation = await _drive(store, flow, service, guard, args)
        return FailbackResult(
            operation=operation,
            partitions=store.notes(operation, LANES, LaneRow) or (),
            groups=store.notes(operation, GROUPS, MovedPartition) or (),
        )


async def _drive(
    store: OperationStore, flow: FlowConfig, service: FailbackService, guard: StoredGuard, args: argparse.Namespace
) -> DrOperation:
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    driver = OperationDriver(store, str(flow.name), failback_steps(service.world(guard)), Said(), {})
    current = store.current
    if current is not None and current.kind != COMMAND:
        raise OtherOperation(current.kind, current.flow)
    if args.abort:
        return await driver.abort(who, "asked for")
    return await driver.resume(who) if current is not None else await driver.start(_new(flow, who, args))


def _new(flow: FlowConfig, who: str, args: argparse.Namespace) -> DrOperation:
    choices = {
        CHOICE: args.choice,
        FENCED: bool(args.fenced_by_hand),
        EXPORT: str(args.export.resolve()) if args.export is not None else "",
    }
    return DrOperation(
        id=uuid.uuid4().hex[:12],
        kind=COMMAND,
        source=flow.name.source,
        target=flow.name.target,
        who=who,
        began_ms=wall_ms(),
        choices=choices,
    )


class Said:
    """Prints the progress of an operation on stderr."""

    def moved(self, operation: DrOperation, move: NextMove) -> None:  # noqa: ARG002
        """See OperationWatcher."""
        if move.step is not None:
            done = "taking back" if move.move is MoveKind.UNDO else "step"
            print(f"raymirror dr failback: {done} {move.step.name}: {move.step.does}", file=sys.stderr)

    def told(self, text: str) -> None:
        """See OperationWatcher."""
        print(f"raymirror dr failback: {text}", file=sys.stderr)
