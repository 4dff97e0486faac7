"""The order that a command sends to a mirror behind `--url`: the body of its route, made of the command's arguments.

In: the arguments as argparse has read them, and the flow. Out: the body that `actors/api/orders.py` declares, of which
the mirror makes the same command again. An option without a field is refused: nobody should believe that it counts.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from actors.api.orders import (
    AbortOrder,
    ApplyOrder,
    CommitOrder,
    DropOrder,
    FailbackOrder,
    FailoverOrder,
    FlowOrder,
    MoveOrder,
    MoveTopicsOrder,
    MoveUndoOrder,
    RehearsalOrder,
    ReplayOrder,
    ResumeOrder,
    SwitchoverOrder,
    VerifyOrder,
)
from actors.cli.common.questions import BadQuestion
from actors.model.run_kinds import RunKind
from engine.services.dr.moves.survey import WATCH_S


def order_of(kind: RunKind, args: argparse.Namespace, flow: str) -> FlowOrder:
    """Return the body of a command's order. Raises BadQuestion for an option that has no field in it."""
    rule = REMOTE_ORDERS[kind]
    refuse_given(args, rule.without)
    return rule.order(args, flow)


def refuse_given(args: argparse.Namespace, without: Mapping[str, object]) -> None:
    """Refuse options that no route takes; `without`: what each is if nobody gives it. Raises BadQuestion."""
    for name, usual in without.items():
        if getattr(args, name) != usual:
            option = f"--{name.replace('_', '-')}"
            raise BadQuestion(
                f"--url does not go together with {option}, which no route takes",
                f"leave {option} out, or type the command on a machine that reaches the clusters",
            )


def _failover(args: argparse.Namespace, flow: str) -> FailoverOrder:
    return FailoverOrder(
        flow=flow,
        now=args.now,
        commit=not args.no_commit,
        timeout_seconds=args.timeout,
        keep_tombstones_days=args.keep_tombstones,
        despite_operation=args.despite_operation,
    )


def _switchover(args: argparse.Namespace, flow: str) -> SwitchoverOrder:
    return SwitchoverOrder(
        flow=flow, dry_run=args.dry_run, ignore=tuple(args.ignore), timeout_seconds=args.timeout, **_fence(args)
    )


def _failback(args: argparse.Namespace, flow: str) -> FailbackOrder:
    return FailbackOrder(flow=flow, dry_run=args.dry_run, abort=args.abort, choice=args.choice or "", **_fence(args))


def _drill(args: argparse.Namespace, flow: str) -> RehearsalOrder:
    return RehearsalOrder(flow=flow, groups=tuple(args.groups), sample=args.sample, timeout_seconds=args.timeout)


def _resume(args: argparse.Namespace, flow: str) -> ResumeOrder:
    return ResumeOrder(flow=flow, ignore=tuple(args.ignore))


def _abort(args: argparse.Namespace, flow: str) -> AbortOrder:
    return AbortOrder(flow=flow, why=args.why)


def _verify(args: argparse.Namespace, flow: str) -> VerifyOrder:
    return VerifyOrder(
        flow=flow,
        topics=args.topics or "",
        since=args.since or "",
        until=args.until or "",
        again=args.again,
        spark=args.spark,
    )


def _apply(_args: argparse.Namespace, flow: str) -> ApplyOrder:
    return ApplyOrder(flow=flow)


def _replay(args: argparse.Namespace, flow: str) -> ReplayOrder:
    return ReplayOrder(flow=flow, unsure=args.unsure, **_records(args))


def _drop(args: argparse.Namespace, flow: str) -> DropOrder:
    return DropOrder(flow=flow, **_records(args))


def _commit(args: argparse.Namespace, flow: str) -> CommitOrder:
    return CommitOrder(flow=flow, group=args.group, backwards=args.backwards)


def _move(args: argparse.Namespace, flow: str) -> MoveOrder:
    return MoveOrder(
        flow=flow,
        group=args.group,
        dry_run=args.dry_run,
        timeout_seconds=args.timeout,
        leave_uncopied=args.leave_uncopied,
        backwards=args.backwards,
        accept_repeats=args.accept_repeats,
    )


def _move_undo(args: argparse.Namespace, flow: str) -> MoveUndoOrder:
    return MoveUndoOrder(flow=flow, group=args.group)


def _move_topics(args: argparse.Namespace, flow: str) -> MoveTopicsOrder:
    return MoveTopicsOrder(
        flow=flow,
        topics=args.topics,
        dry_run=args.dry_run,
        leave_groups=tuple(args.leave_group),
        ignore=tuple(args.ignore),
        timeout_seconds=args.timeout,
        **_fence(args),
    )


def _fence(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "fence": args.fence,
        "principals": tuple(args.principal),
        "own_principal": args.own_principal,
        "everyone_allowed": "" if args.everyone_allowed == "unknown" else args.everyone_allowed,
    }


def _records(args: argparse.Namespace) -> dict[str, Any]:
    return {"records": tuple(args.record or ()), "topics": tuple(args.topic or ()), "all": args.all}


class RemoteOrder(NamedTuple):
    """How an order is made of arguments. `without`: those that no field has, with what they are if nobody gives them.

    `--address`, `--mirror` and `--storage` are none of them: with `--url` no command takes them (`connect_args`).
    """

    order: Callable[[argparse.Namespace, str], FlowOrder]
    without: Mapping[str, object] = {}


_FILE: Final = {"config": None}
_MOVE: Final = {**_FILE, "watch": WATCH_S}
REMOTE_ORDERS: Final[Mapping[RunKind, RemoteOrder]] = {
    RunKind.FAILOVER: RemoteOrder(_failover, {**_FILE, "back": False, "apply": False, "backwards": False}),
    RunKind.SWITCHOVER: RemoteOrder(_switchover, {**_FILE, "reverse_config": None}),
    RunKind.FAILBACK: RemoteOrder(_failback, {**_FILE, "export": None, "make_anew": False, "release_source": False}),
    RunKind.DRILL: RemoteOrder(_drill, {**_FILE, "clean": False}),
    RunKind.RESUME: RemoteOrder(_resume, _FILE),
    RunKind.ABORT: RemoteOrder(_abort, _FILE),
    RunKind.VERIFY: RemoteOrder(_verify, {**_FILE, "cores": None}),
    RunKind.APPLY: RemoteOrder(_apply, _FILE),
    RunKind.REPLAY: RemoteOrder(_replay, _FILE),
    RunKind.DROP: RemoteOrder(_drop, _FILE),
    RunKind.TRANSLATE: RemoteOrder(_commit, {**_FILE, "hold_until_equal": False}),
    RunKind.MOVE: RemoteOrder(_move, _MOVE),
    RunKind.MOVE_UNDO: RemoteOrder(_move_undo, _MOVE),
    RunKind.MOVE_TOPICS: RemoteOrder(_move_topics, {**_MOVE, "undo": False}),
}
