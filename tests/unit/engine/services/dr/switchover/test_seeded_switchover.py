"""Seeded schedules of a whole switchover in memory: kills anywhere, clusters cut off, producers that pass the fence.

The mirror is a model that copies some records whenever somebody looks; where the reverse flow starts is noted by a
stand-in, because its own step needs clusters. All other steps are those of the product.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.flow.groups.status import GroupStatus
from engine.flow.operations.driver import Facts, OperationDriver, Step, StepRun
from engine.flow.operations.errors import OperationRefused, StepFailed
from engine.flow.operations.store import OperationStore
from engine.flow.surveys.readiness_survey import Readiness
from engine.flow.topic_logs.last_known import LastKnown
from engine.services.dr.move_log import MoveLog
from engine.services.dr.switchover import reversal
from engine.services.dr.switchover.reversal import ReverseStep, WatchStep
from engine.services.dr.switchover.steps import (
    CheckStep,
    DrainStep,
    FenceStep,
    GroupsStep,
    PauseStep,
    SettleStep,
    SwitchoverLimits,
)
from engine.services.dr.switchover.world import DrainedEnd, GrownPartition, SwitchoverWorld
from engine.services.quarantine import LeftOutRow
from engine.state.moves import Moves
from engine.state.state import StateHolder
from policies.dr.operations import DrOperation, OperationState
from policies.model import FlowName, TopicPartition
from tests.unit.engine.flow.operations.staged import FLOW, Border, Clusters, Killed, new

LIMITS = SwitchoverLimits(drain_s=60.0, groups_s=5.0)
HOLDER = StateHolder(deployment_id="d", instance_id="i", mirror="m", version="1", where="w")
GROUP_AT = 3
"""How far the one group has read on the source."""


class Start(msgspec.Struct, frozen=True):
    """Where the reverse flow starts."""

    next: int


class Trouble:
    """What a seed does whenever somebody asks a cluster or the mirror."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.kills, self.cuts = self.chance.randrange(4), self.chance.randrange(3)
        self.kill_in, self.cut_in, self.away = self._soon(), self._soon(), 0

    def _soon(self) -> int:
        return self.chance.randrange(1, 25)

    def strike(self) -> None:
        """Raise Killed or ConnectionLost if it is time."""
        self.kill_in, self.cut_in = self.kill_in - 1, self.cut_in - 1
        if self.kills and self.kill_in <= 0:
            self.kills, self.kill_in = self.kills - 1, self._soon()
            raise Killed
        if self.cuts and self.cut_in <= 0:
            self.cuts, self.cut_in, self.away = self.cuts - 1, self._soon(), self.chance.randrange(1, 6)
        if self.away:
            self.away -= 1
            raise ConnectionLost("the cluster is cut off")


class Model:
    """Two clusters, the mirror between them, and the producers. What steps ask is a method of the same name."""

    def __init__(self, seed: int, *, keeps_names: bool, busy: bool) -> None:
        self.trouble, self.keeps_names, self._busy = Trouble(seed), keeps_names, busy
        chance = self.trouble.chance
        self.here = [f"s{number}" for number in range(chance.randrange(GROUP_AT, 20))]
        self.copy: list[str] = []
        self.own = ["own"]
        """The target's topic that producers write to under the default policy."""
        self.zombies = chance.choice([0, 0, 1, 3])
        self.is_fenced = self.is_paused = self.is_stopped = self.is_reversed = False
        self.committed = -1
        self.starts = -1
        self.config = SimpleNamespace(fence_command="")
        syncs = SimpleNamespace(configs=False, acls=False)
        selection = SimpleNamespace(target_topic=str)
        self.flow = SimpleNamespace(name=FlowName("A", "B"), config_sync=syncs, selection=selection)
        self.reverse = SimpleNamespace(config=None, flow=None)
        self.target_settings = None

    @property
    def world(self) -> SwitchoverWorld:
        return cast("SwitchoverWorld", self)

    @property
    def served(self) -> list[str]:
        """The topic of the target that producers write to afterwards."""
        return self.copy if self.keeps_names else self.own

    def look(self) -> None:
        """Let time go by: producers write, the mirror copies; then perhaps trouble."""
        chance = self.trouble.chance
        passes = self.is_fenced and self.zombies > 0 and chance.random() < 0.1
        if passes or (self._busy and not self.is_fenced and chance.random() < 0.5):
            self.zombies -= passes
            self.here.append(f"s{len(self.here)}")
        if not (self.is_paused or self.is_stopped):
            self.copy += self.here[len(self.copy) :][: chance.randrange(4)]
        self.trouble.strike()

    # --- the clusters

    async def fenced_topics(self) -> list[str]:
        self.look()
        return ["t"]

    async def stored(self) -> LastKnown:
        self.look()
        return LastKnown(lanes=())

    async def readiness(self) -> Readiness:
        self.look()
        return Readiness()

    async def paused_topics(self) -> tuple[str, ...]:
        return ()

    async def left_out(self) -> tuple[LeftOutRow, ...]:
        return ()

    async def undrained(self) -> tuple[dict[str, str], tuple[DrainedEnd, ...]]:
        self.look()
        left = len(self.here) - len(self.copy)
        return ({"t-0": f"{left} left"} if left else {}), (DrainedEnd("t", 0, len(self.here)),)

    async def grown(self, drained: Sequence[DrainedEnd]) -> tuple[GrownPartition, ...]:
        self.look()
        (row,) = drained
        return () if row.end == len(self.here) else (GrownPartition("t", 0, row.end, len(self.here)),)

    async def hold(self, _timeout_s: float, *, commit: bool, undrained: dict[str, str]) -> GroupStatus:
        assert undrained == {}
        self.look()
        if commit:
            assert len(self.copy) >= GROUP_AT, "a group is committed behind what is copied"
            self.committed = GROUP_AT
        return GroupStatus(groups=1, stands=())

    # --- the mirror

    async def is_copying(self) -> bool:
        return not (self.is_paused or self.is_stopped)

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return {}

    async def moved(self) -> Moves:
        return Moves()

    @property
    def reverse_moves(self) -> MoveLog:
        return cast("MoveLog", NoMoves())

    async def release_moved(self, topics: Sequence[str]) -> None:
        raise AssertionError(f"nobody moves {topics} back")

    async def pause_moved(self, topics: Sequence[str]) -> None:
        raise AssertionError(f"a switchover pauses the flow, not {topics}")

    async def pause(self) -> None:
        self.look()
        self.is_paused = True

    async def resume(self) -> str:
        self.look()
        self.is_paused = False
        return ""

    async def stop(self) -> None:
        self.look()
        self.is_stopped = True

    async def start_reverse(self) -> str:
        self.look()
        self.is_reversed = True
        return ""

    # --- the fence

    async def refuse(self, topics: Sequence[str]) -> Facts:
        return {"fence": "model", "topics": len(topics)}

    async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
        run.assure()
        self.is_fenced = True
        self.look()
        return await self.refuse(topics)

    async def open(self, run: StepRun) -> Facts:
        run.assure()
        self.is_fenced = False
        self.look()
        return {}


class NoMoves:
    """The log of moves of a reverse flow from which nothing has moved."""

    async def read(self) -> Moves:
        return Moves()

    async def forget(self) -> None:
        """Nothing is there."""


class StartsNoted:
    """Stands in for `PositionsStep`: the reverse flow starts at the end of the topic that producers will write to."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def do(self, run: StepRun) -> Facts:
        self._model.look()
        await run.keep("starts", [Start(len(self._model.served))])
        run.assure()
        self._model.starts = len(self._model.served)
        return {}

    async def undo(self, run: StepRun) -> Facts:
        run.assure()
        self._model.starts = -1
        return {}


def steps_of(model: Model, store: OperationStore) -> dict[str, Step]:
    """Return the steps, as `switchover_steps` does."""
    world = model.world
    nothing = frozenset[str]()
    drain, halt = DrainStep(world, model, LIMITS, nothing), PauseStep(model)
    groups, positions = GroupsStep(world, LIMITS, nothing), StartsNoted(model)
    return {
        "check": CheckStep(world, model, model, frozenset()),
        "fence": FenceStep(world, model),
        "drain": drain,
        "pause": halt,
        "groups": groups,
        "positions": positions,
        "settle": SettleStep(world, halt, drain, (groups, positions)),
        "reverse": ReverseStep(world, store, model, HOLDER),
        "watch": WatchStep(world),
    }


@pytest.fixture(autouse=True)
def _nobody_holds_the_reverse_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def held(*_args: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(load=dict)

    monkeypatch.setattr(reversal, "held", held)


@asynccontextmanager
async def driving(clusters: Clusters, model: Model) -> AsyncIterator[tuple[OperationStore, OperationDriver]]:
    """Own the operations and renew the lease, as `OperationClusters.driving` does, unless the driver is killed."""
    async with clusters.opened(Border()) as store:
        renewing = asyncio.create_task(store.run())
        try:
            yield store, OperationDriver(store, FLOW, steps_of(model, store), clusters, {})
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])


async def driven(model: Model, *, gives_up: bool) -> DrOperation:
    """Do what an operator does until the operation has ended; `gives_up`: take it back after the first trouble."""
    clusters, aborts = Clusters(), False
    for _ in range(40):
        try:
            async with driving(clusters, model) as (store, driver):
                current = store.current
                if current is None and store.operations:
                    return store.operations[-1]
                aborts = aborts and current is not None and current.can_return
                if aborts:
                    return await driver.abort("bob", "trouble")
                if current is not None:
                    return await driver.resume("bob")
                return await driver.start(new())
        except (Killed, StepFailed, ConnectionLost):
            aborts = gives_up
    raise AssertionError("it never ended")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("keeps_names", [True, False], ids=["identity", "default"])
async def test_nothing_is_lost_or_doubled_whatever_is_killed_or_cut_off(keeps_names: bool, busy: bool) -> None:
    ended = {OperationState.FINISHED: 0, OperationState.ABORTED: 0}
    for seed in range(100):
        model = Model(seed, keeps_names=keeps_names, busy=busy)
        operation = await driven(model, gives_up=seed % 3 == 0)
        ended[operation.state] += 1
        if operation.state is OperationState.ABORTED:
            assert (model.is_fenced, model.is_paused, model.is_stopped, model.is_reversed) == (False,) * 4, seed
            assert (model.starts, model.copy) == (-1, model.here[: len(model.copy)]), seed
            continue
        assert (model.is_fenced, model.is_stopped, model.is_reversed) == (True, True, True), seed
        assert model.committed == GROUP_AT, seed
        assert model.copy == model.here[: len(model.copy)], seed
        watched = operation.step("watch")
        assert watched is not None
        told = watched.facts.get("partitions_behind_the_fence", 1)  # else the reverse flow tells of it
        assert (len(model.copy) == len(model.here)) or told == 1, seed
        model.served.extend(["n0", "n1"])
        assert model.served[model.starts :] == ["n0", "n1"], seed
    assert ended[OperationState.FINISHED] >= 66
    assert ended[OperationState.ABORTED] >= 5


async def test_what_passes_the_fence_behind_the_last_look_is_told() -> None:
    for seed in range(5):
        model, clusters = Model(seed, keeps_names=False, busy=False), Clusters()
        model.trouble.kills = model.trouble.cuts = model.zombies = 0
        real = model.start_reverse

        async def late(model: Model = model, real: Any = real) -> str:
            model.here.append("zombie")
            return str(await real())

        model.start_reverse = late  # type: ignore[method-assign]
        async with driving(clusters, model) as (_, driver):
            operation = await driver.start(new())
        watched = operation.step("watch")
        assert watched is not None
        assert watched.facts == {"partitions_behind_the_fence": 1}


async def test_an_operation_that_ended_is_not_driven_again() -> None:
    model, clusters = Model(0, keeps_names=True, busy=False), Clusters()
    model.trouble.kills = model.trouble.cuts = model.zombies = 0
    async with driving(clusters, model) as (_, driver):
        assert (await driver.start(new())).state is OperationState.FINISHED
        with pytest.raises(OperationRefused):
            await driver.resume("bob")
