"""Drives an operation for a command: connects to the clusters, finds the mirror, shows the progress."""

import argparse
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TextIO

from actors.cli.common.connect_args import mirror_on_ray
from actors.cli.common.steps import StartSteps
from actors.cli.dr.mirror_control import MirrorControl, how_to_reverse
from actors.cli.dr.operated_flow import OperatedFlow, fitting, new_operation, who_operates
from actors.cli.failover.owning import holder_of, known_dead
from actors.local import session
from actors.model.step_lines import TOLD, StepLine
from actors.ray.launch import usual_name
from engine.flow.operations.driver import OperationDriver, Step
from engine.flow.operations.errors import NotBegun, OperationRefused, StepFailed
from engine.flow.operations.store import DEAD_AFTER_S, OperationStore
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr.moves.back import MoveBackChoices, move_back_choices_of, move_back_steps
from engine.services.dr.moves.steps import MoveChoices, move_choices_of, move_steps
from engine.services.dr.operation_service import OperationClusters, StoredOperations
from engine.services.dr.switchover.build import SwitchoverChoices, choices_of, fence_of, switchover_steps
from engine.services.dr.switchover.flow_control import FlowControl, StoredControl
from engine.services.dr.switchover.world import SwitchoverWorld
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operation_steps import TABLES, FlowSide, OperationKind
from policies.dr.operations import DrOperation, MoveKind, NextMove, running

Act = Callable[[OperationDriver], Awaitable[DrOperation]]


class ShownProgress:
    """Prints what a driver does, one line per step, to standard error."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._lines = StartSteps(quiet=False, out=out or sys.stderr)
        self._last = ""

    def moved(self, operation: DrOperation, move: NextMove) -> None:
        """See OperationWatcher."""
        if move.step is None:
            return
        names = [rule.name for rule in operation.rules]
        is_undo = move.move is MoveKind.UNDO
        line = StepLine(
            number=names.index(move.step.name) + 1,
            of=len(names),
            name=move.step.name,
            does=move.step.undo if is_undo else move.step.does,
            is_undo=is_undo,
        )
        self._lines.say(str(line))

    def told(self, text: str) -> None:
        """See OperationWatcher."""
        if text != self._last:
            self._last = text
            self._lines.say(f"{TOLD}{text}")


@contextmanager
def control_of(args: argparse.Namespace, found: OperatedFlow) -> Iterator[FlowControl]:
    """Find the mirror that copies the flow; without one, the control of what the next mirror finds.

    Raises SeveralMirrors, MirrorLost.
    """
    name = found.flow.name
    written = getattr(args, "reverse_config", None)
    how = how_to_reverse(found.path, name, is_enabled=found.reverse.is_enabled, written=written)
    try:
        with mirror_on_ray(mirror_named(args, found)) as (mirror, place):
            if any(one.flow == str(name) for one in mirror.status().flows):
                yield MirrorControl(mirror, place, name, how)
                return
            why = f"the mirror on this machine does not copy {name}"
    except session.NoMirror as none:
        why = str(none)
    space = session.namespace_of(args.mirror or usual_name(found.config))
    yield StoredControl(found.config, found.flow, holder_of(found.config, space, "dr"), known_dead(space), how, why)


def mirror_named(args: argparse.Namespace, found: OperatedFlow) -> argparse.Namespace:
    """Name the mirror of the flow if several run. Raises NoMirror if none of them fits."""
    states = session.living(os.environ, args.mirror)
    if args.mirror or args.address or os.environ.get("RAY_ADDRESS") or len(states) <= 1:
        return args
    fits = fitting(states, found.path, str(found.flow.name))
    if not fits:
        raise session.NoMirror(f"no mirror on this machine has {found.path}, or the flow {found.flow.name}")
    name = session.short_name(fits[0].namespace) if len(fits) == 1 else None
    return argparse.Namespace(**{**vars(args), "mirror": name})


@asynccontextmanager
async def driven(found: OperatedFlow, control: FlowControl) -> AsyncIterator["Drive"]:
    """Own the operations of a flow's clusters while the block runs. Raises what `OperationClusters.driving` raises."""
    space = session.namespace_of(usual_name(found.config))
    async with AsyncExitStack() as stack:
        clusters = await stack.enter_async_context(OperationClusters(found.config, found.flow))
        world = SwitchoverWorld(found.config, found.flow, found.reverse)
        if not clusters.away:
            await stack.enter_async_context(world)
        shown = ShownProgress()
        for text in waited_for(await clusters.read()):
            shown.told(text)
        store = await stack.enter_async_context(clusters.driving(holder_of(found.config, space, "operation")))
        yield Drive(found, clusters, world, store, control)


def waited_for(stored: StoredOperations) -> Iterator[str]:
    """Say whose lease is waited for: that of a driver which has not given it back, and may be dead."""
    held = [copy.driver for copy in stored.copies.values() if copy.driver is not None and not copy.driver.released]
    current = running(stored.operations)
    if held:
        who = f"the command of {current.who}" if current is not None else f"a command on {held[0].where}"
        yield (
            f"{who} drove operations here, and has not given its lease back: waits for a sign of life of it,"
            f" {DEAD_AFTER_S * len(held):.0f} s at most"
        )


@asynccontextmanager
async def ended_by_its_check(check: str, abort: Callable[[str], Awaitable[DrOperation]]) -> AsyncIterator[None]:
    """Take an operation back whose step `check` fails in the block, so that nothing is left to be done.

    Raises NotBegun then.
    """
    try:
        yield
    except StepFailed as failure:
        if failure.step != check:
            raise
        await abort(failure.why)
        raise NotBegun(failure.kind, failure.flow, failure.why) from failure


class Drive:
    """One driver of the operations of a flow."""

    def __init__(
        self,
        found: OperatedFlow,
        clusters: OperationClusters,
        world: SwitchoverWorld,
        store: OperationStore,
        control: FlowControl,
    ) -> None:
        self._found, self._clusters, self._world = found, clusters, world
        self.store, self._control = store, control

    @property
    def source(self) -> ClusterClient:
        """The connection to the source."""
        return self._clusters.client(FlowSide.SOURCE)

    async def run(self, act: Act, choices: SwitchoverChoices | None = None) -> DrOperation:
        """Drive; `choices`: of a new operation. Raises what `OperationDriver` raises."""
        flow, current = str(self._found.flow.name), self.store.current
        steps: dict[str, Step] = {}
        if choices is None and current is not None:
            choices = stored_choices(current)
        if choices is not None:
            space = session.namespace_of(usual_name(self._found.reverse.config))
            fence = fence_of(choices, self.source, self._found.config.fence_command, flow)
            if isinstance(choices, MoveBackChoices):
                steps = move_back_steps(self._world, self.store, self._control, choices)
            elif isinstance(choices, MoveChoices):
                steps = move_steps(self._world, self.store, self._control, fence, choices)
            else:
                holder = holder_of(self._found.config, space, "switchover")
                steps = switchover_steps(self._world, self.store, self._control, holder, fence, choices)
        return await act(OperationDriver(self.store, flow, steps, ShownProgress(), self._clusters.away))

    async def begin(self, kind: OperationKind, choices: SwitchoverChoices) -> DrOperation:
        """Begin an operation and drive it; a check that fails takes it back, so that nothing is left to be done.

        Raises what `OperationDriver` raises, and NotBegun.
        """
        new = new_operation(self._found.flow.name, kind, choices.facts())
        async with ended_by_its_check(TABLES[kind][0].name, self.abort):
            return await self.run(lambda driver: driver.start(new), choices)

    async def resume(self, ignore: Sequence[str] = ()) -> DrOperation:
        """Go on with the operation that has not ended; `ignore`: reasons that the operator accepts from now on."""
        current, facts, choices = self.store.current, None, None
        known = None if current is None or current.has_ended else stored_choices(current)
        if ignore and known is not None:
            choices = known.accepting(ignore)
            facts = choices.facts()
        return await self.run(lambda driver: driver.resume(who_operates(), facts), choices)

    async def abort(self, why: str) -> DrOperation:
        """Take the operation back."""
        return await self.run(lambda driver: driver.abort(who_operates(), why))


_CHOICES = {
    OperationKind.SWITCHOVER.value: choices_of,
    OperationKind.MOVE.value: move_choices_of,
    OperationKind.MOVE_BACK.value: move_back_choices_of,
}
"""How an operation of a kind that is driven here has stored its choices."""


def stored_choices(operation: DrOperation) -> SwitchoverChoices | None:
    """Return what the operator has chosen; None if other commands drive the operation."""
    of = _CHOICES.get(operation.kind)
    return None if of is None else of(operation.choices)


def refuse_kind(operation: DrOperation | None) -> None:
    """Refuse an operation that other commands drive. Raises OperationRefused."""
    if operation is not None and operation.kind not in _CHOICES:
        kind, flow = operation.kind, operation.flow
        back = f"; it is taken back with: {takes_back(kind, flow)}" if operation.can_return else ""
        raise OperationRefused("other-command", f"{kind} {operation.id} goes on with: {goes_on(kind, flow)}{back}")
