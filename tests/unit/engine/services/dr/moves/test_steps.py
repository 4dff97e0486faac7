"""The steps that move the producers of topics, on a world in memory: what they wait for, pause, lift and store."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from engine.flow.operations.driver import StepRun
from engine.flow.surveys.readiness_survey import Readiness
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.move_log import start_of
from engine.services.dr.moves.hook import HookFailed, MovePhase
from engine.services.dr.moves.steps import (
    GoesOn,
    HandOverStep,
    MoveCheckStep,
    MoveChoices,
    MoveGroupsStep,
    move_choices_of,
    move_steps,
)
from engine.services.dr.moves.survey import WATCH_S, GroupSurvey
from engine.services.dr.other_fences import COMMAND_NOTES, CalledCommand, NoFence
from engine.services.dr.switchover.steps import DRAINED_NOTES, CheckFailed, SettleStep
from engine.services.dr.switchover.world import DrainedEnd, GrownPartition, SwitchoverWorld
from engine.services.quarantine import LeftOutRow
from engine.state.moves import Moves
from engine.state.state import MovedTopic
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operation_steps import MOVE
from policies.dr.operations import begun, done, finished
from policies.dr.readiness import Unready, UnreadyName
from policies.dr.topic_moves import ReadingGroup
from policies.groups import GroupState
from policies.model import FlowName, TopicPartition
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.groups import FakeGroups
from tests.fakes.kept_run import KeptRun
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Clusters, new

CHOICES = MoveChoices(fence="none", topics=("orders",), timeout_s=10.0)
LANE = TopicPartition("orders", 0)
MOVED = ReadingGroup(
    group="billing",
    move="moved",
    source=GroupState.INACTIVE,
    target=GroupState.INACTIVE,
    topics=frozenset({"orders"}),
)
BACK = msgspec.structs.replace(MOVED, gone_on=1)


class MemoryWorld:
    """One topic, its groups, the mirror and the log of moves."""

    def __init__(self) -> None:
        self.keeps_names = True
        self.flow = SimpleNamespace(name=FlowName("A", "B"), groups=None)
        self.config = SimpleNamespace(flows=())
        self.known = LastKnown(lanes=(KnownLane(lane=LANE, target=LANE, source_next=5, at_ms=0, ours=True),))
        self.paused: tuple[str, ...] = ()
        self.lacks = Readiness()
        self.copying = True
        self.done: list[str] = []
        self.reading: list[ReadingGroup] = [MOVED]
        self.unread: dict[str, str] = {}
        self.watched: list[float] = []
        self.moves = Moves()
        self.target_settings = FakeSettings("B")
        self.target_groups = FakeGroups("B")
        self.target_client = None
        self.end = 9
        self.refused: tuple[LeftOutRow, ...] = ()
        self.stopped: dict[TopicPartition, str] = {}

    @property
    def world(self) -> SwitchoverWorld:
        return cast("SwitchoverWorld", self)

    async def stored(self) -> LastKnown:
        return self.known

    async def paused_topics(self) -> tuple[str, ...]:
        return self.paused

    async def moved(self) -> Moves:
        return self.moves

    async def left_out(self) -> tuple[LeftOutRow, ...]:
        return self.refused

    async def readiness(self) -> Readiness:
        return self.lacks

    async def copy_ends(self, lanes: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(lanes, self.end)

    # the mirror

    async def is_copying(self) -> bool:
        return self.copying

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return self.stopped

    async def pause_moved(self, topics: Sequence[str]) -> None:
        self.done += [f"paused {topic}" for topic in topics]

    # the survey and its log

    @property
    def log(self) -> Any:
        return self

    async def read(self) -> Moves:
        return self.moves

    async def put_topics(self, topics: dict[str, MovedTopic]) -> None:
        self.done += [f"stored {topic}" for topic in topics]
        self.moves = Moves(topics={**self.moves.topics, **topics})

    async def groups(self, topics: Sequence[str], moves: Moves, watch_s: float) -> GroupSurvey:
        assert (tuple(topics), moves) == (CHOICES.topics, self.moves)
        self.watched.append(watch_s)
        return GroupSurvey(groups=tuple(self.reading), failed=self.unread)

    # the hook

    async def call(self, phase: MovePhase, topics: Sequence[str]) -> None:
        self.done.append(f"{phase.value} {' '.join(topics)}")


def kept_run() -> KeptRun:
    """Return a run behind the drain."""
    run = KeptRun()
    run.rows[DRAINED_NOTES] = DrainedEnd("orders", 0, 5), DrainedEnd("orders", 1, 0)
    return run


def check(found: MemoryWorld, **choices: Any) -> MoveCheckStep:
    wanted = msgspec.structs.replace(CHOICES, **choices)
    return MoveCheckStep(cast("Any", found), found.world, NoFence(), cast("Any", found), wanted)


async def names(step: MoveCheckStep) -> list[str]:
    reasons, _ = await step.look()
    return [name for name, _ in reasons]


# --- check -----------------------------------------------------------------------------------------------------------


async def test_producers_may_move_after_all_consumers() -> None:
    found = MemoryWorld()
    assert await check(found).do(kept_run().run) == {"fence": "none", "topics": 1}
    assert found.watched == [WATCH_S]
    assert found.done == []


async def test_everything_in_the_way_is_named() -> None:
    found = MemoryWorld()
    found.copying, found.paused, found.reading = False, ("orders", "other"), [BACK]
    found.known = LastKnown(
        lanes=tuple(
            KnownLane(lane=TopicPartition(name, 0), target=LANE, source_next=-1, at_ms=0, ours=True, why="never copied")
            for name in ("orders", "other")
        )
    )
    found.unread = {"group x": "broker 3 is down"}
    found.lacks = Readiness(unready=(Unready(name=UnreadyName.NO_TOPIC, subject="orders", why="none"),))
    other = SimpleNamespace(name=FlowName("A", "C"), selection=SimpleNamespace(wants=lambda _topic: True))
    found.config = SimpleNamespace(flows=(other,))
    found.stopped = {TopicPartition("orders", 1): "failed", TopicPartition("other", 1): "failed"}
    found.refused = (LeftOutRow("orders", 0, 2),)
    wanted = [
        "no-mirror",
        "topic-paused",
        "copies-not-whole",
        "partition-stopped",
        "left-out-records",
        "source-feeds-another-cluster",
        "no-topic",
        "group-not-read",
        "groups-back",
    ]
    assert await names(check(found)) == wanted
    with pytest.raises(CheckFailed) as failed:
        await check(found, ignore=tuple(wanted[1:])).do(kept_run().run)
    assert [name for name, _ in failed.value.reasons] == ["no-mirror"]


async def test_producers_that_another_command_has_moved_meanwhile_are_not_moved_again() -> None:
    found = MemoryWorld()
    found.moves = Moves(topics={"orders": MovedTopic(at_ms=1, who="bob", operation="0", ends=(5,), starts=(6,))})
    assert await names(check(found)) == ["already-moved"]
    found.keeps_names = False
    found.target_settings.put("orders", partitions=1)
    await hand_over(found, SimpleNamespace(operations=())).do(kept_run().run)
    assert found.moves.topics["orders"].starts == (6,), "groups that move later start where the producers began"


async def test_a_group_that_nobody_needs_is_left_behind_by_name() -> None:
    found = MemoryWorld()
    found.reading = [msgspec.structs.replace(MOVED, move="")]
    assert await names(check(found)) == ["groups-left"]
    assert await names(check(found, left=("billing",))) == []


def test_choices_are_stored_and_read_back() -> None:
    wanted = msgspec.structs.replace(
        CHOICES, topics=("a", "b"), left=("a group", "other"), principals=("User:x",), ignore=("no-topic",)
    )
    assert move_choices_of(wanted.facts()) == wanted
    assert move_choices_of(CHOICES.facts()) == CHOICES
    assert move_choices_of(wanted.accepting(["no-mirror"]).facts()).topics == ("a", "b")


def test_every_step_of_the_table_has_what_does_it() -> None:
    world: Any = SimpleNamespace(about=lambda _topics: found, target=None, target_client=None, flow=found_flow())
    found: Any = SimpleNamespace(config=world_config(), flow=found_flow())
    made = move_steps(world, cast("Any", None), cast("Any", None), NoFence(), CHOICES)
    assert list(made) == [rule.name for rule in MOVE]


def found_flow() -> Any:
    return SimpleNamespace(name=FlowName("A", "B"))


def world_config() -> Any:
    return SimpleNamespace(move_command="", clusters=dict.fromkeys("AB", SimpleNamespace(bootstrap=(("h", 1),))))


# --- groups and settle -----------------------------------------------------------------------------------------------


async def test_groups_are_looked_at_again_behind_the_fence() -> None:
    found = MemoryWorld()
    step = MoveGroupsStep(cast("Any", found), found.world, check(found), CHOICES)
    assert await step.do(kept_run().run) == {}
    found.reading = [BACK]
    with pytest.raises(CheckFailed, match="groups-back"):
        await step.do(kept_run().run)
    assert set(found.watched) == {0.0}


async def test_groups_get_a_start_where_producers_will_write() -> None:
    found = MemoryWorld()
    found.keeps_names = False
    found.target_settings.put("orders", partitions=2)
    found.target_groups.put("billing", {TopicPartition("orders", 1): 3})
    step = MoveGroupsStep(cast("Any", found), found.world, check(found), CHOICES)
    assert await step.do(kept_run().run) == {"producer_topics_there": 1, "group_starts": 1, "group_starts_failed": 0}
    assert found.target_groups.stored["billing"] == {LANE: (9, ""), TopicPartition("orders", 1): (3, "")}
    found.target_groups.members.add("audit")
    found.reading = [msgspec.structs.replace(MOVED, group="audit")]
    run = kept_run()
    assert (await step.do(run.run))["group_starts_failed"] == 2  # it commits itself
    assert all("members" in row.why for row in run.rows["group-starts"])


async def test_a_group_whose_commits_are_not_known_keeps_them() -> None:
    found, run = MemoryWorld(), kept_run()
    found.keeps_names = False
    found.target_settings.put("orders", partitions=2)
    found.target_groups.put("billing", {LANE: 3})
    found.target_groups.failing["billing"] = "its coordinator is broker 3: no answer"
    step = MoveGroupsStep(cast("Any", found), found.world, check(found), CHOICES)
    assert await step.do(run.run) == {"producer_topics_there": 1, "group_starts": 0, "group_starts_failed": 1}
    assert found.target_groups.stored["billing"] == {LANE: (3, "")}
    (row,) = run.rows["group-starts"]
    assert (row.group, row.topic, row.why) == ("billing", "", "its coordinator is broker 3: no answer")


async def test_what_came_behind_the_fence_is_drained_without_a_pause() -> None:
    found, order = MemoryWorld(), list[str]()
    grown = [(GrownPartition("orders", 0, 5, 6),), ()]

    async def grows(_drained: object) -> tuple[GrownPartition, ...]:
        return grown.pop(0)

    class Noted(GoesOn):
        def __init__(self, name: str) -> None:
            self._name = name

        async def do(self, run: StepRun) -> dict[str, int]:
            order.append(self._name)
            return {}

    cast("Any", found).grown = grows
    step = SettleStep(found.world, GoesOn(), Noted("drain"), (Noted("groups"),))
    assert await step.do(kept_run().run) == {"offsets_behind_the_fence": 1}
    assert order == ["groups", "drain", "groups"]


# --- hand over -------------------------------------------------------------------------------------------------------


def hand_over(found: MemoryWorld, store: Any) -> HandOverStep:
    found.config = world_config()
    step = HandOverStep(cast("Any", found), found.world, store, cast("Any", found), CHOICES)
    cast("Any", step)._hook = found
    return step


async def test_the_topics_are_paused_and_stored_and_the_command_is_called_before_that() -> None:
    found = MemoryWorld()
    step = hand_over(found, SimpleNamespace(operations=()))
    run = kept_run()
    assert await step.do(run.run) == {"topics": 1, "lifted_bindings": 0, "other_fences": ""}
    assert found.done == ["paused orders", "after orders", "stored orders"]
    moved = found.moves.topics["orders"]
    assert (moved.ends, moved.starts, moved.operation, moved.who) == ((5, 0), (), "1", "ann")


async def test_a_topic_that_producers_create_begins_with_what_they_write() -> None:
    """Brokers may create it when somebody writes, so the operator accepts that it is not there (no-topic)."""
    found = MemoryWorld()
    found.keeps_names = False
    await hand_over(found, SimpleNamespace(operations=())).do(kept_run().run)
    moved = found.moves.topics["orders"]
    assert moved.starts == (0, 0)
    assert [start_of(moved, number, 7) for number in (0, 1, 5)] == [0, 0, 0], "groups that move later skip nothing"


async def test_the_starts_of_producers_are_stored_once() -> None:
    found = MemoryWorld()
    found.keeps_names = False
    found.target_settings.put("orders", partitions=2)
    step = hand_over(found, SimpleNamespace(operations=()))
    await step.do(kept_run().run)
    assert found.done == ["after orders", "stored orders"]
    assert found.moves.topics["orders"].starts == (9, 9)
    found.end = 20  # producers write already, and the driver was killed before it stored that the step is done
    await step.do(kept_run().run)
    assert found.moves.topics["orders"].starts == (9, 9)


async def test_a_command_that_fails_leaves_the_step_to_be_repeated() -> None:
    found = MemoryWorld()
    step = hand_over(found, SimpleNamespace(operations=()))

    async def fails(phase: MovePhase, _topics: object) -> None:
        raise HookFailed(phase.value, {"exit code 3": "no"})

    cast("Any", step)._hook = SimpleNamespace(call=fails)
    with pytest.raises(HookFailed):
        await step.do(kept_run().run)
    assert found.moves == Moves()


async def test_producers_that_write_before_a_command_that_failed_is_called_again_began_where_it_was_called_first() -> (
    None
):
    found = MemoryWorld()
    found.keeps_names = False
    found.target_settings.put("orders", partitions=1)
    step, run = hand_over(found, SimpleNamespace(operations=())), kept_run()

    async def fails(phase: MovePhase, _topics: object) -> None:
        found.end = 20  # the command told the producers before it failed, and they write
        raise HookFailed(phase.value, {"exit code 3": "no"})

    cast("Any", step)._hook = SimpleNamespace(call=fails)
    with pytest.raises(HookFailed):
        await step.do(run.run)
    await hand_over(found, SimpleNamespace(operations=())).do(run.run)
    assert found.moves.topics["orders"].starts == (9,), "a group that moves later would skip what they wrote"


async def test_only_what_keeps_producers_from_these_topics_is_lifted() -> None:
    found = MemoryWorld()
    mine = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)
    others = mine._replace(name="clicks")
    found.target_settings.bindings = {mine, others}
    async with Clusters().opened() as store:
        back = await store.claim(new("1", source="B", target="A", began_ms=1), "ann")
        back = await store.save(begun(back, "fence", 1), {FENCE_NOTES: [FenceRow(mine), FenceRow(others)]})
        await store.save(finished(done(back, "fence", 2, {}), 9))
        back = await store.claim(new("2", source="B", target="A", began_ms=2), "ann")
        back = await store.save(begun(back, "fence", 1), {COMMAND_NOTES: [CalledCommand("close")]})
        await store.save(finished(done(back, "fence", 2, {}), 9))
        facts = await hand_over(found, store).do(kept_run().run)
    assert facts == {"topics": 1, "lifted_bindings": 1, "other_fences": "2"}
    assert found.target_settings.bindings == {others}
