"""The way back of producers that have moved: refused when the target was written to, and killed between writes."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.errors import StepFailed
from engine.flow.operations.store import OperationStore
from engine.flow.ownership.other_writers import OtherWriter, OtherWriters
from engine.flow.ports.ports import EARLIEST
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.moves import back
from engine.services.dr.moves.back import MoveBackCheckStep, MoveBackChoices, move_back_choices_of, move_back_steps
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand
from engine.services.dr.switchover.world import SwitchoverWorld
from engine.state.moves import Moves
from engine.state.state import DESIRED, DesiredState, MovedTopic
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operation_steps import MOVE_BACK, OperationKind
from policies.dr.operations import DrOperation, OperationState, begun, done, finished, has_standing_fence
from policies.model import FlowName, TopicPartition
from policies.naming import IdentityNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Border, Clusters, Killed, new

ORDERS = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)
CLICKS = ORDERS._replace(name="clicks")
CHOICES = MoveBackChoices(fence="none", topics=("orders",))
MOVED = MovedTopic(at_ms=1, who="ann", operation="op", ends=(5,), starts=(6,))


class MemoryWorld:
    """Two moved topics, the mirror that leaves them paused, and what is stored of their move."""

    def __init__(self, *, keeps_names: bool = True) -> None:
        self.keeps_names = keeps_names
        name = FlowName("A", "B")
        self.flow = SimpleNamespace(name=name, selection=TopicSelection(name, IdentityNaming("A")))
        self.config = SimpleNamespace(
            move_command="", fence_command="", clusters=dict.fromkeys("AB", SimpleNamespace(bootstrap=(("h", 1),)))
        )
        self.source_settings = FakeSettings("A")
        self.source_settings.bindings = {ORDERS, CLICKS}
        self.target, self.target_client = self, None
        self.target_settings = FakeSettings("B")
        for topic in ("orders", "clicks"):
            self.target_settings.put(topic, partitions=1)
        self.asked = CHOICES.topics
        self.begins = 0
        """Where partitions of the target begin."""
        self.wanted = DesiredState(state="running")
        self.others = OtherWriters()
        self.end = 6
        self.moves = Moves(topics={"orders": MOVED, "clicks": MOVED})
        self.paused = {"orders", "clicks"}
        self.border = Border()

    @property
    def world(self) -> SwitchoverWorld:
        return cast("SwitchoverWorld", self)

    def about(self, topics: Collection[str]) -> Self:
        assert tuple(topics) == self.asked
        return self

    async def state(self) -> dict[Any, Any]:
        return {DESIRED: self.wanted}

    async def other_writers(self) -> OtherWriters:
        return self.others

    async def stored(self) -> LastKnown:
        lane = TopicPartition("orders", 0)
        return LastKnown(lanes=(KnownLane(lane=lane, target=lane, source_next=5, at_ms=0, ours=True),))

    async def offsets(self, lanes: Collection[TopicPartition], at: int) -> dict[TopicPartition, int]:
        assert at == EARLIEST
        return dict.fromkeys(lanes, self.begins)

    async def copy_ends(self, lanes: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(lanes, self.end)

    # the mirror

    async def release_moved(self, topics: Sequence[str]) -> None:
        self.border.cross()
        self.paused -= set(topics)
        self.border.cross()

    async def pause_moved(self, topics: Sequence[str]) -> None:
        self.paused |= set(topics)

    # the log of moves

    @property
    def log(self) -> Any:
        return self

    async def read(self) -> Moves:
        return self.moves

    async def remove_topics(self, topics: Sequence[str]) -> None:
        self.border.cross()
        self.moves = Moves(topics={name: one for name, one in self.moves.topics.items() if name not in topics})
        self.border.cross()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MemoryWorld:
    found = MemoryWorld()
    monkeypatch.setattr(back, "MoveSurvey", lambda _world: found)
    return found


def look(found: MemoryWorld, *ignored: str) -> MoveBackCheckStep:
    choices = MoveBackChoices(fence="none", topics=("orders",), ignore=ignored)
    return MoveBackCheckStep(cast("Any", found), found.world, None, choices)


async def moved(store: OperationStore, *topics: str, command: bool = False, name: str = "1") -> DrOperation:
    """Store a move of producers that has ended, with its fence."""
    rows = [FenceRow(one) for one in (ORDERS, CLICKS) if one.name in topics and not command]
    notes: Mapping[str, Sequence[Any]] = {COMMAND_NOTES: [CalledCommand("close")]} if command else {FENCE_NOTES: rows}
    one = new(name, kind="move", began_ms=1, choices={"topics": " ".join(topics), "left": ""})
    one = await store.save(begun(await store.claim(one, "ann"), "fence", 1), notes)
    return await store.save(finished(done(one, "fence", 2, {}), 9))


@asynccontextmanager
async def driving(clusters: Clusters, found: MemoryWorld) -> AsyncIterator[tuple[OperationStore, OperationDriver]]:
    async with clusters.opened() as store:
        steps = move_back_steps(found.world, store, cast("Any", found), CHOICES)
        yield store, OperationDriver(store, "A->B", steps, clusters, {})


def new_back() -> DrOperation:
    return new("2", kind=OperationKind.MOVE_BACK.value, began_ms=5, choices=CHOICES.facts())


def test_choices_are_stored_and_read_back() -> None:
    wanted = MoveBackChoices(fence="none", topics=("a", "b"), ignore=("not-known",))
    assert move_back_choices_of(wanted.facts()) == wanted
    assert type(move_back_choices_of(wanted.facts())) is MoveBackChoices


async def test_what_producers_wrote_to_the_target_keeps_them_there(world: MemoryWorld) -> None:
    assert await look(world).look() == ()
    other = OtherWriter(topic="orders", partition=0, target_topic="orders", first=5, last=6, records=2)
    elsewhere = OtherWriter(topic="clicks", partition=0, target_topic="clicks", first=5, last=6, records=2)
    world.others = OtherWriters(found=(other, elsewhere), unknown={"orders-1": "no leader", "clicks-1": "no leader"})
    reasons = await look(world).look()
    assert [name for name, _ in reasons] == ["written-on-target", "not-known"]
    assert "producers wrote 2 records of orders to B, which A lacks" in reasons[0][1]
    assert "raymirror dr switchover 'B->A'" in reasons[0][1]
    assert look(world, "written-on-target").refused(reasons) == reasons[1:]


async def test_with_a_prefix_producers_wrote_behind_where_they_began(world: MemoryWorld) -> None:
    world.keeps_names = False
    assert await look(world).look() == ()
    world.end = 9
    assert [
        why for name, why in await look(world).look() if "3 records of orders" in why and name.startswith("written")
    ]


async def test_what_producers_wrote_to_a_partition_that_had_no_record_keeps_them_there(world: MemoryWorld) -> None:
    """Nothing was ever copied of it, so no position names it."""
    world.target_settings.partitions["orders"] = 2
    world.begins = world.end
    assert await look(world).look() == ()
    world.begins = world.end - 4
    assert ["4 records of orders to B" in why for _, why in await look(world).look()] == [True]


async def test_with_a_prefix_all_of_a_partition_that_came_since_is_the_producers(world: MemoryWorld) -> None:
    world.keeps_names = False
    world.target_settings.partitions["orders"] = 3
    assert ["12 records of orders to B" in why for _, why in await look(world).look()] == [True]
    del world.target_settings.partitions["orders"]
    assert await look(world).look() == (), "a topic that is gone holds nothing"


async def test_after_a_failover_or_a_switchover_producers_go_back_with_everything(world: MemoryWorld) -> None:
    world.wanted = DesiredState(state="stopped", stop="failover")
    assert [name for name, _ in await look(world).look()] == ["flow-failed-over"]


async def test_producers_go_back_and_those_of_other_topics_stay_fenced(world: MemoryWorld) -> None:
    clusters = Clusters()
    async with driving(clusters, world) as (store, driver):
        await moved(store, "orders", "clicks")
        operation = await driver.start(new_back())
        assert operation.state is OperationState.FINISHED
        assert [one.name for one in operation.steps] == [rule.name for rule in MOVE_BACK]
        assert world.source_settings.bindings == {CLICKS}
        assert (world.paused, set(world.moves.topics)) == ({"clicks"}, {"clicks"})
        assert has_standing_fence(store.operations[0]), "clicks is still fenced by it"
        await moved(store, "orders", name="3")
        world.source_settings.bindings = {ORDERS}
        await driver.start(new("4", kind="move-back", began_ms=6, choices=CHOICES.facts()))
        assert not has_standing_fence(next(one for one in store.operations if one.id == "3"))


async def test_a_fence_is_over_when_its_last_topic_comes_back(world: MemoryWorld) -> None:
    clusters, world.begins = Clusters(), world.end
    async with clusters.opened() as store:
        await moved(store, "orders", "clicks")
        for number, topic in enumerate(("orders", "clicks"), 2):
            world.asked = (topic,)
            choices = MoveBackChoices(fence="none", topics=world.asked)
            steps = move_back_steps(world.world, store, cast("Any", world), choices)
            driver = OperationDriver(store, "A->B", steps, clusters, {})
            await driver.start(new(str(number), kind="move-back", began_ms=number, choices=choices.facts()))
            assert has_standing_fence(store.operations[0]) is (topic == "orders")
    assert (world.source_settings.bindings, world.moves.topics) == (set(), {})


async def test_a_command_that_would_open_more_topics_is_not_called(world: MemoryWorld) -> None:
    async with driving(Clusters(), world) as (store, driver):
        await moved(store, "orders", "clicks", command=True)
        with pytest.raises(StepFailed, match=r"fence-of-more-topics.*opens clicks too"):
            await driver.start(new_back())


@pytest.mark.local
@pytest.mark.parametrize("more", [(), ("clicks",)])
async def test_the_command_of_the_fence_opens_it_again(
    world: MemoryWorld, tmp_path: Path, more: tuple[str, ...]
) -> None:
    script = tmp_path / "fence.sh"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n')
    script.chmod(0o700)
    world.config.fence_command = str(script)
    async with Clusters().opened() as store:
        choices = MoveBackChoices(fence="none", topics=("orders",), ignore=("fence-of-more-topics",))
        driver = OperationDriver(
            store, "A->B", move_back_steps(world.world, store, cast("Any", world), choices), Clusters(), {}
        )
        await moved(store, "orders", *more, command=True)
        await moved(store, "clicks", command=True, name="other")
        await driver.start(new("2", kind="move-back", began_ms=5, choices=choices.facts()))
        assert has_standing_fence(store.operations[0]) is bool(more)
    assert (tmp_path / "called").read_text() == "open A->B 1\n"


async def test_without_a_copy_of_the_same_name_nothing_was_paused(world: MemoryWorld) -> None:
    world.keeps_names, world.paused = False, set()
    async with driving(Clusters(), world) as (_, driver):
        await driver.start(new_back())
    assert (world.paused, set(world.moves.topics)) == (set(), {"clicks"})


async def test_an_abort_before_the_source_is_opened_pauses_the_topics_again(world: MemoryWorld) -> None:
    clusters = Clusters()
    async with driving(clusters, world) as (store, driver):
        await moved(store, "orders")
        world.border = Border(1)
        with pytest.raises(Killed):
            await driver.start(new_back())
        assert world.paused == {"clicks"}
        operation = await driver.abort("bob", "told to")
    assert operation.state is OperationState.ABORTED
    assert world.paused == {"orders", "clicks"}
    assert world.source_settings.bindings == {ORDERS, CLICKS}


@pytest.mark.parametrize("at", range(4))
async def test_whoever_goes_on_after_a_kill_finishes_it(world: MemoryWorld, at: int) -> None:
    clusters = Clusters()
    async with driving(clusters, world) as (store, driver):
        await moved(store, "orders")
        world.border = Border(at)
        with pytest.raises(Killed):
            await driver.start(new_back())
        world.border = Border()
        assert (await driver.resume("bob")).state is OperationState.FINISHED
    assert (world.paused, set(world.moves.topics), world.source_settings.bindings) == ({"clicks"}, {"clicks"}, {CLICKS})
