"""Drills in the metadata actor: when they may begin, and how they are told."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from actors.control.ports import RememberedFlow
from actors.model.states import Desired
from actors.ray.metadata_actor import MetadataActor
from actors.ray.watch import Watch
from engine.core.reports.drill_report import DrillStanding
from engine.state.state import DESIRED, DesiredState
from tests.unit.actors.fakes import FLOW, lanes
from tests.unit.actors.ray.test_metadata_actor import SPEC, FakeEvents, FakeKeeper, FakeState, Seen, look


class FakeDrills:
    """A scheduler of drills that never drills."""

    def __init__(self) -> None:
        self.may_drill: Callable[[], bool] = lambda: True
        self.standing = DrillStanding(every_s=3600, since_ms=7)
        self.running = asyncio.Event()

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def empty_topic() -> None:
    FakeState.topic.clear()
    FakeState.fail.clear()
    FakeState.closed.clear()


def make(drills: FakeDrills) -> MetadataActor:
    service = FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, drills=drills)
    return MetadataActor(SPEC, make=lambda spec: (watch,))


async def test_what_is_known_of_drills_is_in_every_answer() -> None:
    drills = FakeDrills()
    shell = make(drills)
    found = await look(shell, lambda found: found.serial > 0 and drills.running.is_set())
    assert found.drill == drills.standing


@pytest.mark.parametrize(("state", "may"), [("running", True), ("paused", False), ("stopped", False)])
async def test_a_flow_is_drilled_only_while_this_mirror_has_it_and_it_is_to_run(state: str, may: bool) -> None:
    FakeState.topic[DESIRED] = msgspec.structs.replace(DesiredState(state="running", at_ms=5), state=state)
    drills = FakeDrills()
    shell = make(drills)
    assert not drills.may_drill(), "the state is not read yet"
    await look(shell, lambda found: found.kept is not None)
    assert drills.may_drill() is may
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.STOPPED, at_ms=9)))
    assert not drills.may_drill()
