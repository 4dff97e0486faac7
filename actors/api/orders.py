"""Which command of the command line a request starts: a failover, a switchover, a failback, a drill, and what follows.

`words_of` is the only place that knows. The bodies name the flow once more, so that nobody acts on the wrong one. What
an operator chooses enters a command as `--name=value`, so no value is ever read as an option.
"""

import enum
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta

from actors.api.entities import ApiStruct
from actors.api.view import CommandPlace

Word = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
"""What may be a part of a word of a command: the system takes no NUL there. `$` alone would let a last newline pass."""
Words = Annotated[tuple[Word, ...], Meta(max_length=100)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Days = Annotated[float, Meta(ge=0, le=3650)]


class RunKind(enum.StrEnum):
    """The commands that a request may start."""

    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    FAILBACK = "failback"
    DRILL = "drill"
    RESUME = "resume"
    """Goes on with a switchover that has not ended."""
    ABORT = "abort"
    """Takes a switchover back."""


class FlowOrder(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every order has: the flow, as in its path."""

    flow: Word


class FailoverOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../failover`; its dry run is the preview."""

    now: bool = False
    """Stop at the point reached, without copying what is left."""
    commit: bool = True
    """Commit offsets for groups."""
    timeout_seconds: Seconds = 60.0
    keep_tombstones_days: Days = 30.0
    despite_operation: bool = False


class FencedOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How producers are kept from the source, as the command line's options of these names."""

    dry_run: bool = False
    fence: Word = ""
    """`acl`, `command` or `none`; empty: the usual one."""
    principals: Words = ()
    own_principal: Word = ""
    everyone_allowed: Word = ""
    """`yes` or `no`; empty: as the brokers say."""


class SwitchoverOrder(FencedOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../switchover`."""

    ignore: Words = ()
    """Reasons of the check that are accepted, by their names."""
    timeout_seconds: Seconds = 300.0


class FailbackOrder(FencedOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../failback`."""

    choice: Word = ""
    """What becomes of records that only the source has; empty: the usual one."""
    abort: bool = False
    """Take back a failback that has not copied anything yet."""


class RehearsalOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../drill`."""

    groups: Words = ()
    """Patterns of whole names; none: all groups."""
    sample: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    timeout_seconds: Seconds = 120.0


class ResumeOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../operation/resume`."""

    ignore: Words = ()


class AbortOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../operation/abort`; `why`: what the history says about it."""

    why: Word = "told to"


ORDERS: Final[dict[RunKind, type[FlowOrder]]] = {
    RunKind.FAILOVER: FailoverOrder,
    RunKind.SWITCHOVER: SwitchoverOrder,
    RunKind.FAILBACK: FailbackOrder,
    RunKind.DRILL: RehearsalOrder,
    RunKind.RESUME: ResumeOrder,
    RunKind.ABORT: AbortOrder,
}


def words_of(kind: RunKind, order: Any, config_path: str, place: CommandPlace) -> tuple[str, ...]:
    """Return the words of the command that carries an order out."""
    return (*_BEGINS[kind](order), "--config", config_path, *_find(kind, place), "--json")


def is_dry(order: Any) -> bool:
    """Whether an order changes nothing."""
    return isinstance(order, FencedOrder) and order.dry_run


def _find(kind: RunKind, place: CommandPlace) -> Iterator[str]:
    """Yield how the command finds the mirror; `dr drill` and `dr failback` take no address, because they need none."""
    if place.mirror:
        yield f"--mirror={place.mirror}"
    if place.address and kind not in (RunKind.DRILL, RunKind.FAILBACK):
        yield f"--address={place.address}"


def _failover(order: FailoverOrder) -> Iterator[str]:
    yield from ("failover", order.flow)
    yield f"--timeout={order.timeout_seconds}"
    yield f"--keep-tombstones={order.keep_tombstones_days}"
    yield from _flags({"--now": order.now, "--no-commit": not order.commit})
    yield from _flags({"--despite-operation": order.despite_operation})


def _switchover(order: SwitchoverOrder) -> Iterator[str]:
    yield from ("dr", "switchover", order.flow, "--dry-run" if order.dry_run else "--yes")
    yield f"--timeout={order.timeout_seconds}"
    yield from (f"--ignore={one}" for one in order.ignore)
    yield from _fence(order)


def _failback(order: FailbackOrder) -> Iterator[str]:
    yield from ("dr", "failback", order.flow)
    if order.abort:
        yield "--abort"
        return
    yield "--dry-run" if order.dry_run else "--yes"
    yield from _given({"--choice": order.choice})
    yield from _fence(order)


def _drill(order: RehearsalOrder) -> Iterator[str]:
    yield from ("dr", "drill", order.flow, f"--sample={order.sample}", f"--timeout={order.timeout_seconds}")
    yield from (f"--groups={one}" for one in order.groups)


def _resume(order: ResumeOrder) -> Iterator[str]:
    yield from ("dr", "resume", order.flow)
    yield from (f"--ignore={one}" for one in order.ignore)


def _abort(order: AbortOrder) -> Iterator[str]:
    yield from ("dr", "abort", order.flow, f"--why={order.why}")


def _fence(order: FencedOrder) -> Iterator[str]:
    yield from _given({"--fence": order.fence, "--own-principal": order.own_principal})
    yield from (f"--principal={one}" for one in order.principals)
    yield from _given({"--everyone-allowed": order.everyone_allowed})


def _given(values: dict[str, str]) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in values.items() if value)


def _flags(given: dict[str, bool]) -> Iterator[str]:
    yield from (name for name, is_set in given.items() if is_set)


_BEGINS: Final[dict[RunKind, Callable[[Any], Iterator[str]]]] = {
    RunKind.FAILOVER: _failover,
    RunKind.SWITCHOVER: _switchover,
    RunKind.FAILBACK: _failback,
    RunKind.DRILL: _drill,
    RunKind.RESUME: _resume,
    RunKind.ABORT: _abort,
}
