"""Which command of the command line a request starts: a failover, a move, a proof, a replay, and what follows them.

`RULES` is the only place that knows. The bodies name the flow once more, so that nobody acts on the wrong one. What
an operator chooses enters a command as `--name=value`, or behind `--`: so no value is ever read as an option.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta

from actors.api.entities import ApiStruct
from actors.api.view import CommandPlace
from actors.model.run_kinds import RunKind

Word = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
"""What may be a part of a word of a command: the system takes no NUL there. `$` alone would let a last newline pass."""
Group = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^(?!--$)[^\x00-\x1f\x7f]*$(?!\n)")]
"""A consumer group. A command takes `--` for the end of its options, also behind another one."""
FenceWord = Literal["", "acl", "command", "none"]
YesOrNo = Literal["", "yes", "no"]
ChoiceWord = Literal["", "keep", "append-to-target", "discard"]
Words = Annotated[tuple[Word, ...], Meta(max_length=100)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Days = Annotated[float, Meta(ge=0, le=3650)]


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
    fence: FenceWord = ""
    """Empty: the usual one."""
    principals: Words = ()
    own_principal: Word = ""
    everyone_allowed: YesOrNo = ""
    """Empty: as the brokers say."""


class SwitchoverOrder(FencedOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../switchover`."""

    ignore: Words = ()
    """Reasons of the check that are accepted, by their names."""
    timeout_seconds: Seconds = 300.0


class FailbackOrder(FencedOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../failback`."""

    choice: ChoiceWord = ""
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


class VerifyOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../verify`."""

    topics: Word = ""
    """Patterns of source topics, separated by commas; empty: all."""
    since: Word = ""
    until: Word = ""
    again: bool = False
    """Also read what was proven before."""
    spark: Literal["auto", "always", "never"] = "auto"


class ApplyOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../apply`."""


class RecordsOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which refused records: some by their names, those of some topics, or all of the flow."""

    records: Words = ()
    topics: Words = ()
    all: bool = False


class ReplayOrder(RecordsOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../quarantine/replay`."""

    unsure: bool = False
    """Also records of which the offset map says nothing."""


class DropOrder(RecordsOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../quarantine/drop`."""


class GroupOrder(FlowOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What orders about one consumer group have."""

    group: Group


class CommitOrder(GroupOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../translation`."""

    backwards: bool = False
    """Also if the offset on the target is higher."""


class MoveOrder(GroupOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../moves/group`."""

    dry_run: bool = False
    timeout_seconds: Seconds = 60.0
    leave_uncopied: bool = False
    backwards: bool = False
    accept_repeats: bool = False


class MoveUndoOrder(GroupOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../moves/undo`."""


class MoveTopicsOrder(FencedOrder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST .../moves/topics`."""

    topics: Annotated[Word, Meta(min_length=1)]
    """Names or Java patterns, separated by commas."""
    leave_groups: Words = ()
    """Groups that nobody needs on the target."""
    ignore: Words = ()
    timeout_seconds: Seconds = 60.0


def words_of(
    kind: RunKind, order: Any, config_path: str, place: CommandPlace, *, as_text: bool = False
) -> tuple[str, ...]:
    """Return the words of the command that carries an order out; `as_text`: it prints for people, not JSON."""
    rule, group = RULES[kind], (order.group,) if isinstance(order, GroupOrder) else ()
    form = () if as_text else ("--json",)
    if rule.has_file_behind:
        return (*rule.begin(order), f"--flow={order.flow}", *form, "--", *group, config_path)
    behind = ("--", *group) if group else ()
    return (*rule.begin(order), "--config", config_path, *_find(rule, place), *form, *behind)


def is_dry(order: Any) -> bool:
    """Whether an order changes nothing."""
    return isinstance(order, FencedOrder | MoveOrder) and order.dry_run


def _find(rule: "RunRule", place: CommandPlace) -> Iterator[str]:
    """Yield how the command finds the mirror."""
    if place.mirror:
        yield f"--mirror={place.mirror}"
    if place.address and rule.takes_address:
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


def _verify(order: VerifyOrder) -> Iterator[str]:
    yield "verify"
    yield from _given({"--topics": order.topics, "--from": order.since, "--to": order.until})
    yield from _flags({"--again": order.again})
    yield f"--spark={order.spark}"


def _apply(_order: ApplyOrder) -> Iterator[str]:
    yield "apply"


def _replay(order: ReplayOrder) -> Iterator[str]:
    yield from ("quarantine", "replay", *_flags({"--unsure": order.unsure}), *_records(order))


def _drop(order: DropOrder) -> Iterator[str]:
    yield from ("quarantine", "drop", *_records(order))


def _records(order: RecordsOrder) -> Iterator[str]:
    yield from _flags({"--all": order.all})
    yield from (f"--record={one}" for one in order.records)
    yield from (f"--topic={one}" for one in order.topics)


def _commit(order: CommitOrder) -> Iterator[str]:
    yield from ("translate", "--apply", *_flags({"--backwards": order.backwards}))


def _move(order: MoveOrder) -> Iterator[str]:
    yield from ("move", f"--flow={order.flow}", f"--timeout={order.timeout_seconds}")
    yield from _flags({"--dry-run": order.dry_run, "--leave-uncopied": order.leave_uncopied})
    yield from _flags({"--backwards": order.backwards, "--accept-repeats": order.accept_repeats})


def _move_undo(order: MoveUndoOrder) -> Iterator[str]:
    yield from ("move", "--undo", f"--flow={order.flow}")


def _move_topics(order: MoveTopicsOrder) -> Iterator[str]:
    yield from ("move", f"--topics={order.topics}", f"--flow={order.flow}", "--dry-run" if order.dry_run else "--yes")
    yield f"--timeout={order.timeout_seconds}"
    yield from (f"--leave-group={one}" for one in order.leave_groups)
    yield from (f"--ignore={one}" for one in order.ignore)
    yield from _fence(order)


def _fence(order: FencedOrder) -> Iterator[str]:
    yield from _given({"--fence": order.fence, "--own-principal": order.own_principal})
    yield from (f"--principal={one}" for one in order.principals)
    yield from _given({"--everyone-allowed": order.everyone_allowed})


def _given(values: dict[str, str]) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in values.items() if value)


def _flags(given: dict[str, bool]) -> Iterator[str]:
    yield from (name for name, is_set in given.items() if is_set)


class RunRule(NamedTuple):
    """What is known of the runs of one kind: the path and body of their order, their command, what its end means.

    `path`: behind that of the flow. `has_file_behind`: it takes the file without `--config`, and finds the mirror by
    it, or needs none. `takes_address`: it may be told the mirror's address. `has_steps`: it says how far it is; whether
    one without that has changed anything before it failed is in its result, or not known. `only_reads`: it changes
    nothing on the clusters, so no other command waits for it, and it leaves one place free. `has_result`: its exit code
    1, like that of a dry run, says that something in the printed result is not as it should be. `moves`: its exit code
    4 says that nothing was moved, and what is in the way.
    """

    path: str
    order: type[FlowOrder]
    begin: Callable[[Any], Iterator[str]]
    has_file_behind: bool = False
    takes_address: bool = True
    has_steps: bool = True
    only_reads: bool = False
    has_result: bool = False
    moves: bool = False


_ONCE: Final = {"has_file_behind": True, "has_steps": False, "has_result": True}
RULES: Final[dict[str, RunRule]] = {
    RunKind.FAILOVER: RunRule("failover", FailoverOrder, _failover),
    RunKind.SWITCHOVER: RunRule("switchover", SwitchoverOrder, _switchover),
    RunKind.FAILBACK: RunRule("failback", FailbackOrder, _failback, takes_address=False),
    RunKind.DRILL: RunRule("drill", RehearsalOrder, _drill, takes_address=False),
    RunKind.RESUME: RunRule("operation/resume", ResumeOrder, _resume),
    RunKind.ABORT: RunRule("operation/abort", AbortOrder, _abort),
    RunKind.VERIFY: RunRule("verify", VerifyOrder, _verify, only_reads=True, **_ONCE),
    RunKind.APPLY: RunRule("apply", ApplyOrder, _apply, **_ONCE),
    RunKind.REPLAY: RunRule("quarantine/replay", ReplayOrder, _replay, **_ONCE),
    RunKind.DROP: RunRule("quarantine/drop", DropOrder, _drop, **_ONCE),
    RunKind.TRANSLATE: RunRule("translation", CommitOrder, _commit, **_ONCE),
    RunKind.MOVE: RunRule("moves/group", MoveOrder, _move, has_steps=False, moves=True),
    RunKind.MOVE_UNDO: RunRule("moves/undo", MoveUndoOrder, _move_undo, has_steps=False, moves=True),
    RunKind.MOVE_TOPICS: RunRule("moves/topics", MoveTopicsOrder, _move_topics, moves=True),
}
"""By kind; also for the kinds that runs have stored."""
_OF_ANOTHER_VERSION: Final = RunRule("", FlowOrder, lambda _order: iter(()))


def rule_of(kind: str) -> RunRule:
    """Return the rule of a stored run; another version may have begun it, with a kind that this one does not know."""
    return RULES.get(kind, _OF_ANOTHER_VERSION)
