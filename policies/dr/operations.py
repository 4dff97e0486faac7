"""The state machine of an operation: what is stored of it, what comes next, and what is refused.

               done            done                 done
    RUNNING: step 1 -> step 2 -> ... -> step n  ->  FINISHED
       | abort, before the point of no return has begun
    ABORTING: undo the begun steps, the last one first  ->  ABORTED

A step is stored as begun before its first effect and as done after its last one. So whoever reads the record knows
which effects may exist. Times are wall clocks of drivers, for people; nothing is decided by them.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

import msgspec

from policies.dr.fence import FENCE_STEP
from policies.dr.lent_config import LENT_STEP
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operation_steps import FlowSide, OperationKind, StepRule, steps_of

Fact = int | float | str | bool


class OperationState(Enum):
    """Where an operation stands; the names are stable."""

    RUNNING = "running"
    ABORTING = "aborting"
    ABORTED = "aborted"
    FINISHED = "finished"


class StepState(Enum):
    """Where a step stands; a step without a record has not begun. The names are stable."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"


class OperationRefusal(Enum):
    """Why something is refused; the names are stable."""

    OTHER_RUNS = "another-operation-runs"
    NO_OPERATION = "no-operation-runs"
    NO_RETURN = "point-of-no-return-passed"
    CAN_RETURN = "can-be-taken-back"
    ABORTING = "being-aborted"
    ENDED = "operation-ended"
    UNKNOWN_STEPS = "unknown-steps"
    CLUSTER_AWAY = "cluster-does-not-answer"
    OTHER_FLOW = "operation-of-the-reverse-flow"


class RefusedOperation(msgspec.Struct, frozen=True):
    """A refusal and its sentence."""

    name: OperationRefusal
    why: str


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of one step. `began_ms`: its first begin; `ended_ms`: its end, -1 before that (Unix ms).

    `tries`: how often it was begun. `why`: why it failed, the last time. `facts`: its result, for people and `--json`.
    """

    name: str
    state: StepState
    began_ms: int
    ended_ms: int = -1
    tries: int = 1
    why: str = ""
    facts: dict[str, Fact] = {}

    @property
    def seconds(self) -> float:
        """From its first begin to its end, with all waits between; 0 if it has not ended."""
        return max(0, self.ended_ms - self.began_ms) / 1000 if self.ended_ms >= 0 else 0.0


class NotesPlace(msgspec.Struct, frozen=True):
    """Where the rows of a note are: the version that is in force, and how many entries hold it."""

    version: int
    parts: int


class DrOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of one flow, as it is stored on both clusters.

    `term` grows with every driver and `number` with every write, so of two copies the one that is behind shows it.
    `choices`: what the operator has chosen, by name; a resume keeps it. `notes`: rows that are stored beside it.
    `kind` is text, so that an operation of a later version can be shown.
    """

    id: str
    kind: str
    source: str
    target: str
    who: str
    began_ms: int
    state: OperationState = OperationState.RUNNING
    term: int = 0
    number: int = 0
    ended_ms: int = -1
    why: str = ""
    choices: dict[str, Fact] = {}
    steps: tuple[StepRecord, ...] = ()
    notes: dict[str, NotesPlace] = {}

    @property
    def flow(self) -> str:
        """The flow that it is about."""
        return f"{self.source}->{self.target}"

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.state in (OperationState.ABORTED, OperationState.FINISHED)

    @property
    def rules(self) -> tuple[StepRule, ...]:
        """Its table; empty if this version does not know its kind."""
        return steps_of(self.kind, self.choices)

    @property
    def is_known(self) -> bool:
        """Whether this version knows its kind, and its steps in their order."""
        return (
            bool(self.rules) and [one.name for one in self.steps] == [one.name for one in self.rules][: len(self.steps)]
        )

    @property
    def can_return(self) -> bool:
        """Whether the point of no return has not begun."""
        begun = {step.name for step in self.steps}
        return not any(rule.ends_return and rule.name in begun for rule in self.rules)

    @property
    def order(self) -> tuple[int, int]:
        """Of two copies of one operation the one with the higher order is in force."""
        return self.term, self.number

    def step(self, name: str) -> StepRecord | None:
        """Return the record of a step, None if it has not begun."""
        return next((one for one in self.steps if one.name == name), None)

    @property
    def last(self) -> StepRecord | None:
        """The last step that has begun."""
        return self.steps[-1] if self.steps else None

    @property
    def seconds(self) -> float:
        """How long it took; 0 if it has not ended."""
        return max(0, self.ended_ms - self.began_ms) / 1000 if self.ended_ms >= 0 else 0.0


# --- what comes next -------------------------------------------------------------------------------------------------


class MoveKind(Enum):
    """What a driver does next."""

    DO = "do"
    UNDO = "undo"
    FINISH = "finish"
    END_ABORT = "end the abort"
    NOTHING = "nothing"


class NextMove(msgspec.Struct, frozen=True):
    """A move, and the step that it is about: None unless it is DO or UNDO."""

    move: MoveKind
    step: StepRule | None = None

    @property
    def needs(self) -> tuple[FlowSide, ...]:
        """The clusters that must answer."""
        if self.step is None:
            return ()
        return self.step.undo_needs if self.move is MoveKind.UNDO else self.step.needs


def next_move(operation: DrOperation, away: Collection[FlowSide] = ()) -> NextMove:
    """Return what a driver does next; whoever continues after a kill gets the same answer.

    `away`: clusters that do not answer. An abort first undoes the steps that need none of them: above all, a fence on a
    source that answers is taken away while the target is dead.
    """
    if operation.has_ended or not operation.is_known:
        return NextMove(MoveKind.NOTHING)
    if operation.state is OperationState.RUNNING:
        return _forward(operation)
    left = [rule for rule in reversed(operation.rules) if rule.undo and _is_left(operation.step(rule.name))]
    now = [rule for rule in left if not set(rule.undo_needs) & set(away)]
    return next((NextMove(MoveKind.UNDO, rule) for rule in (*now, *left)), NextMove(MoveKind.END_ABORT))


def _forward(operation: DrOperation) -> NextMove:
    for rule in operation.rules:
        record = operation.step(rule.name)
        if record is None or record.state is not StepState.DONE:
            return NextMove(MoveKind.DO, rule)
    return NextMove(MoveKind.FINISH)


def _is_left(record: StepRecord | None) -> bool:
    return record is not None and record.state is not StepState.UNDONE


# --- transitions -----------------------------------------------------------------------------------------------------


def begun(operation: DrOperation, name: str, now_ms: int) -> DrOperation:
    """Store that a step begins; before its first effect."""
    before = operation.step(name)
    if before is None:
        return _with(operation, StepRecord(name=name, state=StepState.BEGUN, began_ms=now_ms))
    return _with(
        operation, msgspec.structs.replace(before, state=StepState.BEGUN, tries=before.tries + 1, ended_ms=-1, why="")
    )


def done(operation: DrOperation, name: str, now_ms: int, facts: Mapping[str, Fact]) -> DrOperation:
    """Store that a step is done; after its last effect."""
    return _ended(operation, name, now_ms, StepState.DONE, facts=dict(facts))


def failed(operation: DrOperation, name: str, now_ms: int, why: str) -> DrOperation:
    """Store that a step, or its undo, has failed; some of its effects may exist. It is run again, or undone."""
    return _ended(operation, name, now_ms, StepState.FAILED, why=why)


def undoing(operation: DrOperation, name: str) -> DrOperation:
    """Store that a step is being undone; before the first effect of that."""
    return _with(operation, msgspec.structs.replace(_record(operation, name), state=StepState.UNDOING))


def undone(operation: DrOperation, name: str, now_ms: int, facts: Mapping[str, Fact]) -> DrOperation:
    """Store that a step is undone; after the last effect of that."""
    known = _record(operation, name).facts
    return _ended(operation, name, now_ms, StepState.UNDONE, facts={**known, **facts})


def aborting(operation: DrOperation, why: str) -> DrOperation:
    """Store that the operation goes back; `refused_abort` must not refuse it."""
    return msgspec.structs.replace(operation, state=OperationState.ABORTING, why=why)


def finished(operation: DrOperation, now_ms: int) -> DrOperation:
    """Store that nothing is left to do, in either direction."""
    state = OperationState.FINISHED if operation.state is OperationState.RUNNING else OperationState.ABORTED
    return msgspec.structs.replace(operation, state=state, ended_ms=now_ms)


def driven_by(operation: DrOperation, term: int, who: str) -> DrOperation:
    """Return the operation as its next driver stores it first; what older drivers store later is behind it."""
    return msgspec.structs.replace(operation, term=term, who=who)


def released(operation: DrOperation, why: str) -> DrOperation:
    """Store that the source is given back to its applications meanwhile; `refused_release` must not refuse it.

    What was counted stays. The steps from the point of no return on run again, and take up what the source gets.
    """
    begun_steps = [step.name for step in operation.steps]
    final = next(rule.name for rule in operation.rules if rule.ends_return)
    again = set(begun_steps[begun_steps.index(final) :])
    steps = [
        msgspec.structs.replace(step, state=StepState.FAILED, why=why) if step.name in again else step
        for step in operation.steps
    ]
    return msgspec.structs.replace(operation, steps=tuple(steps), why=why)


def _record(operation: DrOperation, name: str) -> StepRecord:
    record = operation.step(name)
    if record is None:
        raise ValueError(f"step {name} has not begun")
    return record


def _ended(operation: DrOperation, name: str, now_ms: int, state: StepState, **changes: object) -> DrOperation:
    return _with(operation, msgspec.structs.replace(_record(operation, name), state=state, ended_ms=now_ms, **changes))


def _with(operation: DrOperation, record: StepRecord) -> DrOperation:
    steps = {one.name: one for one in operation.steps} | {record.name: record}
    return msgspec.structs.replace(operation, steps=tuple(steps.values()))


# --- refusals --------------------------------------------------------------------------------------------------------


def refused_start(operations: Iterable[DrOperation]) -> RefusedOperation | None:
    """Refuse a new operation while another one of the two clusters has not ended."""
    for one in operations:
        if not one.has_ended:
            ways = goes_on(one.kind, one.flow)
            ways += f", or take it back: {takes_back(one.kind, one.flow)}" if one.can_return else ""
            return RefusedOperation(
                OperationRefusal.OTHER_RUNS,
                f"{one.kind} {one.id} of {one.flow} is {_stands(one)}; go on with it: {ways}",
            )
    return None


def refused_drive(operation: DrOperation | None, flow: str) -> RefusedOperation | None:
    """Refuse to resume or to abort what does not exist, has ended, or is not known to this version."""
    if operation is None:
        return RefusedOperation(OperationRefusal.NO_OPERATION, f"no operation of {flow} runs")
    if operation.has_ended:
        return RefusedOperation(OperationRefusal.ENDED, f"{operation.kind} {operation.id} is {operation.state.value}")
    if operation.flow != flow:
        return RefusedOperation(
            OperationRefusal.OTHER_FLOW,
            f"{operation.kind} {operation.id} is an operation of {operation.flow}: name that flow",
        )
    if not operation.is_known:
        return RefusedOperation(
            OperationRefusal.UNKNOWN_STEPS,
            f"this version does not know the steps of {operation.kind} {operation.id}"
            f" ({', '.join(one.name for one in operation.steps) or 'none has begun'}); use the version that began it",
        )
    return None


def refused_abort(operation: DrOperation) -> RefusedOperation | None:
    """Refuse to abort behind the point of no return."""
    if operation.can_return:
        return None
    point = next(rule.name for rule in operation.rules if rule.ends_return)
    return RefusedOperation(
        OperationRefusal.NO_RETURN,
        f"{operation.kind} {operation.id} has begun its point of no return, step {point!r}; go on with it:"
        f" {goes_on(operation.kind, operation.flow)}; then go back with an operation of the other direction",
    )


def refused_release(operation: DrOperation) -> RefusedOperation | None:
    """Refuse to give the source back where that can be undone by an abort, or where the source was changed."""
    if operation.can_return or operation.state is not OperationState.RUNNING:
        back = takes_back(operation.kind, operation.flow)
        return RefusedOperation(
            OperationRefusal.CAN_RETURN, f"{operation.kind} {operation.id} can be taken back instead: {back}"
        )
    begun_steps = {step.name for step in operation.steps}
    late = next((rule.name for rule in operation.rules if rule.ends_release and rule.name in begun_steps), None)
    if late is None and any(rule.ends_release for rule in operation.rules):
        return None
    return RefusedOperation(
        OperationRefusal.NO_RETURN,
        f"{operation.kind} {operation.id} has begun step {late or operation.rules[-1].name!r}, which changes the"
        f" source: only forward is safe: {goes_on(operation.kind, operation.flow)}",
    )


def refused_move(move: NextMove, away: Mapping[FlowSide, str]) -> RefusedOperation | None:
    """Refuse a move for which a cluster does not answer. `away`: such clusters, and why."""
    for side in move.needs:
        if side in away:
            name = move.step.name if move.step is not None else ""
            return RefusedOperation(
                OperationRefusal.CLUSTER_AWAY,
                f"step {name!r} needs the {side.value}, which does not answer: {away[side]}",
            )
    return None


def _stands(operation: DrOperation) -> str:
    last = operation.last
    at = f" at step {last.name!r} ({last.state.value})" if last is not None else ""
    return f"{operation.state.value}{at}"


# --- copies ----------------------------------------------------------------------------------------------------------


def in_force(copies: Iterable[Iterable[DrOperation]]) -> dict[str, DrOperation]:
    """Merge the copies of two clusters, by id: the copy of the later driver counts, then the one written last.

    A driver that writes to both clusters has no effect before both have its intent. So a copy that a later driver wrote
    on one cluster alone knows all effects of the drivers before it.
    """
    found: dict[str, DrOperation] = {}
    for copy in copies:
        for one in copy:
            other = found.get(one.id)
            if other is None or one.order > other.order:
                found[one.id] = one
    return dict(sorted(found.items()))


def running(operations: Collection[DrOperation]) -> DrOperation | None:
    """Return the operation that has not ended; None if there is none. Of several, the one that began last."""
    return max((one for one in operations if not one.has_ended), key=lambda one: one.began_ms, default=None)


def has_standing_fence(operation: DrOperation) -> bool:
    """Whether a fence that it may have made was not taken away; who may take it away is a later operation."""
    fence = operation.step(FENCE_STEP)
    return fence is not None and fence.state is not StepState.UNDONE


def has_lent(operation: DrOperation) -> bool:
    """Whether topics of its source may have configs that it has lent them: from before the first one to its end."""
    lending = operation.step(LENT_STEP)
    return lending is not None and lending.state is not StepState.UNDONE and not operation.has_ended


def outdated(operations: Collection[DrOperation], keep: int) -> tuple[DrOperation, ...]:
    """Return ended operations that history need not keep any more: all but the newest `keep`, and standing fences."""
    ended = sorted((one for one in operations if one.has_ended), key=lambda one: (one.began_ms, one.id), reverse=True)
    return tuple(one for one in ended[keep:] if not has_standing_fence(one))


def kind_of(operation: DrOperation) -> OperationKind | None:
    """Return the kind, None if this version does not know it."""
    return next((kind for kind in OperationKind if kind.value == operation.kind), None)
