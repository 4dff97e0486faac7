"""Two clusters in memory with their state topics, and steps whose effects are entries of a set."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count

import msgspec

from engine.base.errors import MirrorError
from engine.flow.operations.driver import Facts, OperationDriver, StepRun
from engine.flow.operations.store import DEAD_AFTER_S, OperationStore
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.state_log import StateLog
from engine.state.state import OPERATION_SCOPE, Key, StateHolder, Value, state_topic
from policies.dr.operation_steps import SWITCHOVER, FlowSide
from policies.dr.operations import DrOperation, NextMove
from policies.model import FlowName
from tests.fakes.cluster import FakeCluster

FLOW = "A->B"


class Killed(BaseException):
    """A driver's process has ended."""


class StepTrouble(MirrorError):
    """A step cannot be done now."""

    def __str__(self) -> str:
        return "it cannot be done now"


class Effect(msgspec.Struct, frozen=True):
    """What a step is about to make."""

    name: str


class Border:
    """Counts the points between effects of one driver, and ends the driver, or stops it, at one of them."""

    def __init__(self, at: int = -1, act: Callable[[], None] | None = None) -> None:
        self.passed = 0
        self._at, self._act = at, act

    def cross(self) -> None:
        """Pass a point."""
        self.passed += 1
        if self.passed - 1 == self._at:
            if self._act is not None:
                self._act()
            raise Killed


class BorderedLog(StateLog):
    """A log whose every write is between two points."""

    border = Border()

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        self.border.cross()
        await super().put(entries)
        self.border.cross()


class Clusters:
    """The clusters A and B, and what operations have made there."""

    def __init__(self) -> None:
        self.clusters = {FlowSide.SOURCE: FakeCluster("A"), FlowSide.TARGET: FakeCluster("B")}
        self.flows = {FlowSide.SOURCE: FlowName("B", "A"), FlowSide.TARGET: FlowName("A", "B")}
        for side, flow in self.flows.items():
            self.clusters[side].target(state_topic(flow.source))
        self.made: set[str] = {"was-there-before"}
        self.intents: list[str] = []
        self.says: list[str] = []
        self.fails: set[str] = set()
        self.losses: dict[str, list[MirrorError]] = {}
        """What a step raises, one after the other, after its first effect."""
        self._names = count()

    def log(self, side: FlowSide, who: str, border: Border) -> BorderedLog:
        """Return a log of one cluster for a driver."""
        flow = self.flows[side]
        options = StateOptions(
            flow=flow,
            topic=state_topic(flow.source),
            scope=OPERATION_SCOPE,
            dead_after_s=DEAD_AFTER_S,
            kin_dead_after_s=DEAD_AFTER_S,
        )
        holder = StateHolder(deployment_id="d", instance_id=who, mirror="m", version="1", where=who)
        log = BorderedLog(options, self.clusters[side], holder)
        log.border = border
        return log

    def store(self, who: str = "", border: Border | None = None, away: Sequence[FlowSide] = ()) -> OperationStore:
        """Return a store that is not open."""
        name, point = who or f"driver {next(self._names)}", border or Border()
        return OperationStore(FLOW, {side: self.log(side, name, point) for side in FlowSide if side not in away})

    @asynccontextmanager
    async def opened(
        self, border: Border | None = None, away: Sequence[FlowSide] = ()
    ) -> AsyncIterator[OperationStore]:
        """Open a store, and give it back at the end, unless its driver is killed."""
        store = self.store(border=border, away=away)
        try:
            await store.open()
            yield store
        except Killed:
            raise
        except BaseException:
            await store.close()
            raise
        await store.close()

    @asynccontextmanager
    async def driver(
        self, border: Border | None = None, away: Sequence[FlowSide] = ()
    ) -> AsyncIterator[OperationDriver]:
        """Open a store and return a driver for it."""
        point = border or Border()
        async with self.opened(point, away) as store:
            yield self.drives(store, point, away)

    def drives(self, store: OperationStore, border: Border, away: Sequence[FlowSide] = ()) -> OperationDriver:
        """Return a driver of an opened store."""
        steps = {rule.name: EffectStep(self, rule.name, border) for rule in SWITCHOVER}
        return OperationDriver(store, FLOW, steps, self, dict.fromkeys(away, "it is gone"))

    def moved(self, operation: DrOperation, move: NextMove) -> None:
        self.says.append(f"{move.move.value} {move.step.name if move.step else ''}".strip())

    def told(self, text: str) -> None:
        self.says.append(text)


@asynccontextmanager
async def renewed(store: OperationStore) -> AsyncIterator[None]:
    """Keep the lease of a driver, as `OperationClusters.driving` does."""
    renewing = asyncio.create_task(store.run())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


class EffectStep:
    """A step with two effects, each of which may be there already; it announces them, as every step must."""

    def __init__(self, clusters: Clusters, name: str, border: Border) -> None:
        self._clusters, self._name, self._border = clusters, name, border

    async def do(self, run: StepRun) -> Facts:
        effects = [Effect(f"{self._name} 1"), Effect(f"{self._name} 2")]
        await run.keep(self._name, effects)
        if self._name in self._clusters.fails:
            raise StepTrouble
        for effect in effects:
            self._border.cross()
            run.assure()
            self._clusters.made.add(effect.name)
            run.say(f"made {effect.name}")
            if losses := self._clusters.losses.get(self._name):
                raise losses.pop(0)
        self._border.cross()
        return {"made": len(effects)}

    async def undo(self, run: StepRun) -> Facts:
        if self._name in self._clusters.fails:
            raise StepTrouble
        for effect in run.notes(self._name, Effect) or ():
            self._border.cross()
            run.assure()
            self._clusters.made.discard(effect.name)
            if losses := self._clusters.losses.get(self._name):
                raise losses.pop(0)
        self._border.cross()
        return {"removed": 2}


def new(name: str = "1", **changes: object) -> DrOperation:
    """Return a switchover that has not begun."""
    fields = {"id": name, "kind": "switchover", "source": "A", "target": "B", "who": "ann", "began_ms": 1000}
    return msgspec.convert(fields | changes, DrOperation)


def all_made() -> set[str]:
    """Return what is there after a whole switchover."""
    return {"was-there-before", *(f"{rule.name} {at}" for rule in SWITCHOVER for at in (1, 2))}
