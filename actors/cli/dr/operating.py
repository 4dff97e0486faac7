"""`raymirror dr status | history | resume | abort`: what became of operations, and how they go on or back."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from actors.cli.common import exits
from actors.cli.common.connect_args import add_url_arguments, run_remotely
from actors.cli.dr.driving import control_of, driven, refuse_kind
from actors.cli.dr.failovers import FailoverRow, FoundFailovers, read_failovers, show_failovers
from actors.cli.dr.flow_choice import add_flow
from actors.cli.dr.move_tables import show_moved
from actors.cli.dr.operated_flow import OperatedFlow, operated_flow
from actors.cli.dr.operation_tables import as_json, show_history, show_operation
from actors.model.run_kinds import RunKind
from engine.services.dr.operation_service import OperationClusters, StoredOperations
from engine.services.dr.switchover.flow_control import FlowControl
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, OperationState, running

_DRIVES = (
    "exit codes: 0 it has ended: finished, or taken back; 1 a step has failed, and the output says which and what to"
    " do; 2 refused, or bad input, or no cluster answers, or another command drives it"
)


def add_operating(actions: Any) -> None:
    """Declare the actions."""
    status = actions.add_parser(
        "status", help="show the operation that runs, or the last one, and a failover that stands"
    )
    add_flow(status)
    status.epilog = "exit codes: 0 no operation runs; 1 one has not ended; 2 bad input, or no cluster answers"
    status.set_defaults(action=run_status)
    history = actions.add_parser("history", help="list the operations and failovers of a flow and of its reverse")
    add_flow(history)
    history.epilog = "exit codes: 0 they are listed; 2 bad input, or no cluster answers"
    history.set_defaults(action=run_history)
    resume = actions.add_parser("resume", help="go on with the operation that has not ended")
    _add_driving(resume)
    resume.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="NAME",
        help="accept a reason by its name from now on, as groups-not-equal; the operation keeps it (repeat it)",
    )
    resume.set_defaults(action=run_resume)
    abort = actions.add_parser("abort", help="take back the operation that has not ended")
    _add_driving(abort)
    abort.add_argument("--why", default="told to", metavar="TEXT", help="what the history says about it")
    abort.set_defaults(action=run_abort)


def _add_driving(parser: argparse.ArgumentParser) -> None:
    add_flow(parser)
    parser.add_argument(
        "--address", help="Ray cluster of the mirror, HOST:PORT (default: RAY_ADDRESS, else state file)"
    )
    add_url_arguments(parser)
    parser.epilog = _DRIVES


def run_status(args: argparse.Namespace) -> int:
    """Print the running or last operation. Raises what `operated_flow` raises, NoClusterAnswers."""
    stored, failovers = asyncio.run(_read_all(operated_flow(args)))
    current = running(stored.operations)
    shown = current or (stored.operations[-1] if stored.operations else None)
    if args.json:
        operation = None if shown is None else as_json(shown, stored)
        print(msgspec.json.encode({"operation": operation, **_as_json(stored, failovers)}).decode())
        return _code(current)
    if shown is None:
        show_failovers(failovers.rows)
        print(f"no operation of {args.flow} was ever begun")
    else:
        _show_newest_first(shown, stored, failovers.rows)
    _say_unknown(stored, failovers)
    return _code(current)


def _show_newest_first(shown: DrOperation, stored: StoredOperations, rows: Sequence[FailoverRow]) -> None:
    """Print an operation and the failovers that stand; what a later failover has overtaken leaves nothing to do."""
    at_ms = shown.ended_ms if shown.has_ended else shown.began_ms
    is_overtaken = any(row.at_ms > at_ms for row in rows)
    if is_overtaken:
        show_failovers(rows)
    show_operation(shown, stored)
    if not is_overtaken:
        if how := _left_to_start(shown):
            print(f"{shown.kind} left to the operator: {how}")
        show_failovers(rows)


def _code(current: DrOperation | None) -> int:
    return exits.OK if current is None else exits.FAILED


def run_history(args: argparse.Namespace) -> int:
    """Print all operations that are kept. Raises as `run_status` does."""
    stored, failovers = asyncio.run(_read_all(operated_flow(args)))
    if args.json:
        rows = [as_json(one, stored) for one in stored.operations]
        print(msgspec.json.encode({"operations": rows, **_as_json(stored, failovers)}).decode())
    else:
        show_history(stored.operations, failovers.rows)
        _say_unknown(stored, failovers)
    return exits.OK


async def read(found: OperatedFlow) -> StoredOperations:
    """Read what the clusters that answer have. Raises NoClusterAnswers."""
    async with OperationClusters(found.config, found.flow) as clusters:
        return await clusters.read()


async def _read_all(found: OperatedFlow) -> tuple[StoredOperations, FoundFailovers]:
    stored = await read(found)
    return stored, await read_failovers(found, stored.away)


def _as_json(stored: StoredOperations, failovers: FoundFailovers) -> dict[str, object]:
    away = {side.value: why for side, why in stored.away.items()}
    return {
        "failovers": msgspec.to_builtins(failovers.rows),
        "failovers_unread": failovers.unread,
        "reverse": failovers.reverse.value,
        "away": away,
    }


def _say_unknown(stored: StoredOperations, failovers: FoundFailovers) -> None:
    for side, why in stored.away.items():
        print(f"the {side.value} does not answer, so it may know more: {why}")
    for flow, why in failovers.unread.items():
        print(f"whether {flow} was failed over is not known: {why}")


def run_resume(args: argparse.Namespace) -> int:
    """Resume and print. Raises OperationRefused, StepFailed, OperationHeld, OperationTaken."""
    if (code := run_remotely(args, RunKind.RESUME)) is not None:
        return code
    return _run(args, abort=None, ignore=tuple(args.ignore))


def run_abort(args: argparse.Namespace) -> int:
    """Abort and print. Raises as `run_resume` does."""
    if (code := run_remotely(args, RunKind.ABORT)) is not None:
        return code
    return _run(args, abort=args.why)


def _run(args: argparse.Namespace, abort: str | None, ignore: tuple[str, ...] = ()) -> int:
    found = operated_flow(args)
    with control_of(args, found) as control:
        operation = asyncio.run(_driven(found, control, abort, ignore))
    show_outcome(args, operation)
    return exits.OK


async def _driven(
    found: OperatedFlow, control: FlowControl, abort: str | None, ignore: tuple[str, ...]
) -> tuple[DrOperation, StoredOperations]:
    async with driven(found, control) as drive:
        refuse_kind(drive.store.current)
        operation = await (drive.resume(ignore) if abort is None else drive.abort(abort))
    return operation, await read(found)


def _left_to_start(operation: DrOperation) -> str:
    """Return how an operator starts the reverse flow, if the operation could not."""
    start = operation.step("reverse")
    return str(start.facts.get("reverse_start", "")) if start is not None else ""


def show_outcome(args: argparse.Namespace, outcome: tuple[DrOperation, StoredOperations]) -> None:
    """Print an operation that has ended."""
    operation, stored = outcome
    if args.json:
        print(msgspec.json.encode(as_json(operation, stored)).decode())
        return
    show_operation(operation, stored)
    if operation.kind in (OperationKind.MOVE.value, OperationKind.MOVE_BACK.value):
        show_moved(operation)
    elif operation.state is OperationState.FINISHED:
        how = _left_to_start(operation)
        runs = f"does not run yet: {how}" if how else "runs"
        print(f"cluster {operation.target!r} serves now; the flow {operation.target}->{operation.source} {runs}")
