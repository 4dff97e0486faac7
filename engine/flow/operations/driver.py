"""Drives one operation from step to step, from wherever its last driver has left it.

    store "begun"  ->  do  ->  store "done"  ->  ...  ->  store "finished"

A step that fails is stored as failed, and the operation stays there. A driver that is killed leaves its step begun. In
both cases the next driver runs that step again, or takes the operation back. While a broker does not answer or a leader
moves, the driver runs the step again itself, for a minute: a step may run as often as it takes.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import backoff_s, now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, MirrorError
from engine.flow.operations.errors import OperationRefused, OperationTaken, StepFailed
from engine.flow.operations.store import OperationStore, Row
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import (
    DrOperation,
    Fact,
    MoveKind,
    NextMove,
    RefusedOperation,
    StepState,
    aborting,
    begun,
    done,
    failed,
    finished,
    next_move,
    refused_abort,
    refused_drive,
    refused_move,
    refused_release,
    refused_start,
    released,
    undoing,
    undone,
)

Facts = Mapping[str, Fact]
PATIENCE_S = 60.0
"""Seconds for which a step is run again, from the first time on that a broker did not answer."""
_WORKED_S = 600.0
"""A step that has worked for so many seconds since counts these anew."""


class StepRun:
    """What a running step may use of its operation."""

    def __init__(self, store: OperationStore, operation: DrOperation, say: Callable[[str], None]) -> None:
        self._store, self.operation, self._say = store, operation, say

    def choice(self, name: str) -> Fact | None:
        """Return what the operator has chosen."""
        return self.operation.choices.get(name)

    def notes(self, name: str, kind: type[Row]) -> tuple[Row, ...] | None:
        """Return the rows that this operation has stored under a name; None if it has not. Raises NotesLost."""
        return self._store.notes(self.operation, name, kind)

    async def keep(self, name: str, rows: Sequence[msgspec.Struct]) -> None:
        """Store rows under a name on both clusters, instead of those that were there.

        What announces effects is kept before the first of them. Raises OperationTaken, KafkaRefusal, BrokerUnreachable.
        """
        self.operation = await self._store.save(self.operation, {name: rows})

    def assure(self) -> None:
        """Raise OperationTaken unless this driver surely drives the operation; ask right before an effect."""
        self._store.assure()

    def say(self, text: str) -> None:
        """Show what the step does or waits for."""
        self._say(text)


class Step(Protocol):
    """What one step of an operation does. Both may be called again after any of their effects."""

    async def do(self, run: StepRun) -> Facts:
        """Make the effects. Raises MirrorError if that is not possible now, and why."""

    async def undo(self, run: StepRun) -> Facts:
        """Take back the effects that `do` may have made; never what was there before."""


class OperationWatcher(Protocol):
    """Shows the progress of an operation."""

    def moved(self, operation: DrOperation, move: NextMove) -> None:
        """A step begins or is being undone."""

    def told(self, text: str) -> None:
        """A step says what it does or waits for."""


class OperationDriver:
    """Drives the operation of an opened store. `steps`: by name. `away`: clusters that do not answer, and why."""

    def __init__(
        self,
        store: OperationStore,
        flow: str,
        steps: Mapping[str, Step],
        watcher: OperationWatcher,
        away: Mapping[FlowSide, str],
    ) -> None:
        self._store, self._flow, self._steps, self._watcher, self._away = store, flow, steps, watcher, away

    async def start(self, operation: DrOperation) -> DrOperation:
        """Store a new operation and drive it to its end. Raises OperationRefused, and what `resume` raises."""
        _refuse(refused_start(self._store.operations))
        self._need(next_move(operation, self._away))
        await self._store.prune()
        return await self._drive(await self._store.claim(operation, operation.who))

    async def resume(self, who: str, choices: Facts | None = None) -> DrOperation:
        """Drive the operation that has not ended: forward, or back if it is being aborted.

        `choices`: what the operator chooses from now on, instead of some that are stored. Raises OperationRefused,
        StepFailed, OperationTaken, and what the store raises.
        """
        operation = self._current()
        operation = msgspec.structs.replace(operation, choices=operation.choices | dict(choices or {}))
        self._need(next_move(operation, self._away))
        return await self._drive(await self._store.claim(operation, who))

    async def abort(self, who: str, why: str) -> DrOperation:
        """Take the operation back. Raises as `resume` does."""
        operation = self._current()
        _refuse(refused_abort(operation))
        back = aborting(operation, why)
        self._need(next_move(back, self._away))
        return await self._drive(await self._store.claim(back, who))

    async def release(self, who: str, why: str) -> DrOperation:
        """Undo what keeps applications from the source, behind the point of no return, while the target is dead.

        The operation does not end: `resume` makes those steps again, and goes on. Raises as `resume` does.
        """
        operation = self._current()
        _refuse(refused_release(operation))
        operation = await self._store.save(released(await self._store.claim(operation, who), why))
        for rule in reversed(operation.rules):
            record = operation.step(rule.name)
            if rule.undo and record is not None and record.state is not StepState.UNDONE:
                move = NextMove(MoveKind.UNDO, rule)
                self._need(move)
                self._watcher.moved(operation, move)
                operation = await self._undo(operation, rule.name)
        return operation

    def _current(self) -> DrOperation:
        operation = self._store.current
        _refuse(refused_drive(operation, self._flow))
        if operation is None:
            raise AssertionError("refused_drive refuses None")
        return operation

    def _need(self, move: NextMove) -> None:
        """Refuse a move for which a cluster does not answer, or which this driver has no step for."""
        _refuse(refused_move(move, self._away))
        if move.step is not None and move.step.name not in self._steps:
            raise ValueError(f"nothing does step {move.step.name!r}")

    async def _drive(self, operation: DrOperation) -> DrOperation:
        while True:
            move = next_move(operation, self._away)
            self._need(move)
            self._watcher.moved(operation, move)
            if move.move is MoveKind.NOTHING:
                return operation
            if move.step is None:
                operation = await self._store.save(finished(operation, wall_ms()))
            elif move.move is MoveKind.DO:
                operation = await self._do(operation, move.step.name)
            else:
                operation = await self._undo(operation, move.step.name)

    async def _do(self, operation: DrOperation, name: str) -> DrOperation:
        run = await self._run(begun(operation, name, wall_ms()))
        facts = await self._attempt(run, name, self._steps[name].do)
        return await self._store.save(done(run.operation, name, wall_ms(), facts))

    async def _undo(self, operation: DrOperation, name: str) -> DrOperation:
        run = await self._run(undoing(operation, name))
        facts = await self._attempt(run, name, self._steps[name].undo)
        return await self._store.save(undone(run.operation, name, wall_ms(), facts))

    async def _run(self, operation: DrOperation) -> StepRun:
        return StepRun(self._store, await self._store.save(operation), self._watcher.told)

    async def _attempt(self, run: StepRun, name: str, work: Callable[[StepRun], Awaitable[Facts]]) -> Facts:
        give_up_at_s, attempt = float("inf"), 0
        while True:
            began_s = now_s()
            try:
                return await work(run)
            except OperationTaken:
                raise
            except MirrorError as error:
                if now_s() - began_s >= _WORKED_S:
                    give_up_at_s = float("inf")  # what it waited for before has passed
                give_up_at_s = min(give_up_at_s, now_s() + PATIENCE_S)
                if not _may_pass(error) or now_s() >= give_up_at_s:
                    one = await self._store.save(failed(run.operation, name, wall_ms(), str(error)))
                    raise StepFailed(one.kind, one.flow, name, str(error), one.can_return) from error
                run.say(f"again, because {error}")
            attempt += 1
            run.assure()
            await pause(backoff_s(attempt))


def _may_pass(error: MirrorError) -> bool:
    """Whether waiting may help."""
    return isinstance(error, ConnectionLost) or (isinstance(error, BrokerUnreachable) and error.may_pass)


def _refuse(refused: RefusedOperation | None) -> None:
    if refused is not None:
        raise OperationRefused.of(refused)
