"""The swap of the roles: an earlier fence of the target is lifted, the flow is stopped, its reverse may start."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.base.errors import FlowHeld
from engine.flow.operations.driver import StepRun
from engine.services.dr.switchover import reversal
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.reversal import ReverseStep
from engine.services.dr.switchover.world import SwitchoverWorld
from engine.state.state import DESIRED, DesiredState, StateHolder
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operations import StepState, begun, done, finished
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Clusters, new

OURS = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)
THEIRS = OURS._replace(principal="User:b")
HOLDER = StateHolder(deployment_id="d", instance_id="i", mirror="m", version="1", where="w")


class Swapped:
    """The mirror of the flow, and the stored wish for the reverse flow."""

    def __init__(self, wanted: DesiredState | None, *, is_held: bool = False) -> None:
        self.done: list[str] = []
        self.wanted, self.is_held = wanted, is_held

    async def stop(self) -> None:
        self.done.append("stopped")

    async def start_reverse(self) -> str:
        self.done.append("reversed")
        return "by hand"

    @asynccontextmanager
    async def held(self, *_args: Any) -> AsyncIterator[Any]:
        if self.is_held:
            raise FlowHeld("B->A", "a mirror", "topic")

        async def put(entries: dict[Any, Any]) -> None:
            self.wanted = entries[DESIRED]
            self.done.append("allowed")

        yield SimpleNamespace(load=lambda: {DESIRED: self.wanted}, put=put)


def world(settings: FakeSettings) -> SwitchoverWorld:
    found = SimpleNamespace(
        config=SimpleNamespace(fence_command=""),
        flow=SimpleNamespace(name=FlowName("A", "B")),
        reverse=SimpleNamespace(config=None, flow=None),
        target_settings=settings,
    )
    return cast("SwitchoverWorld", found)


STOPPED = DesiredState(state="stopped", stop="failover", paused_topics=("t",))


@pytest.mark.parametrize(
    ("swapped", "does"),
    [
        (Swapped(STOPPED), ["stopped", "allowed", "reversed"]),
        (Swapped(DesiredState(state="paused")), ["stopped", "reversed"]),
        (Swapped(None), ["stopped", "reversed"]),
        (Swapped(STOPPED, is_held=True), ["stopped", "reversed"]),
    ],
)
async def test_an_earlier_fence_is_lifted_once_and_the_roles_are_swapped(
    monkeypatch: pytest.MonkeyPatch, swapped: Swapped, does: list[str]
) -> None:
    monkeypatch.setattr(reversal, "held", swapped.held)
    clusters, settings = Clusters(), FakeSettings("B")
    settings.bindings = {OURS, THEIRS}
    async with clusters.opened() as store:
        back = await store.claim(new("1", source="B", target="A", began_ms=1), "ann")
        back = await store.save(begun(back, "fence", 1), {FENCE_NOTES: [FenceRow(OURS)]})
        await store.save(finished(done(back, "fence", 2, {"bindings": 1}), 9))
        other = await store.claim(new("2", began_ms=2), "ann")  # a fence of the source stays
        other = await store.save(begun(other, "fence", 1), {FENCE_NOTES: [FenceRow(THEIRS)]})
        await store.save(finished(done(other, "fence", 2, {}), 9))
        run = StepRun(store, await store.claim(new("3", began_ms=3), "ann"), lambda _text: None)
        step = ReverseStep(world(settings), store, cast("FlowControl", swapped), HOLDER)
        facts = await step.do(run)
        assert facts == {"lifted_bindings": 1, "reverse_runs": False, "reverse_start": "by hand"}
        assert settings.bindings == {THEIRS}
        assert swapped.done == does
        states = {one.id: fence.state for one in store.operations if (fence := one.step("fence")) is not None}
        assert states == {"1": StepState.UNDONE, "2": StepState.DONE}
        assert (await step.do(run))["lifted_bindings"] == 0  # after a kill
    if "allowed" in does:
        assert swapped.wanted == DesiredState(state="running", paused_topics=("t",))
