"""The steps of a switchover on a world in memory: what they wait for, what they refuse, what they do again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Self, cast

import msgspec
import pytest

from engine.base.errors import ConnectionLost
from engine.core.reports.drain import Ends
from engine.flow.config_sync.planning import Scope, SyncPlan, without_topics
from engine.flow.groups.status import BEFORE_MAP, FOR_GOOD, NOT_COMMITTED, GroupPartitionStatus, GroupStatus
from engine.flow.groups.translations import UNREAD_STINTS
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.stints import START_NOTES, StoredStart
from engine.flow.surveys.readiness_survey import Readiness
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.other_fences import NoFence
from engine.services.dr.switchover import steps
from engine.services.dr.switchover.flow_control import NoMirrorCopies
from engine.services.dr.switchover.reversal import WatchStep
from engine.services.dr.switchover.steps import (
    DRAINED_NOTES,
    GROUP_NOTES,
    GROUPS_NOT_EQUAL,
    LEFT_OUT,
    LEFT_OUT_NOTES,
    CheckFailed,
    CheckStep,
    DrainStep,
    FenceStep,
    GroupRow,
    GroupsStep,
    NotEqual,
    PauseStep,
    SettleStep,
    SourceGrowth,
    SwitchoverLimits,
    TargetLacksRecords,
    WrittenBehind,
)
from engine.services.dr.switchover.world import DrainedEnd, GrownPartition, NotDrained, SwitchoverWorld
from engine.services.quarantine import LeftOutRow
from engine.state.moves import Moves
from engine.state.state import MovedTopic
from policies.dr.operations import begun, done
from policies.dr.readiness import Unready, UnreadyName
from policies.groups import Why
from policies.model import FlowName, TopicPartition
from policies.sync.config_sync import SetConfig
from tests.fakes.kept_run import KeptRun

LIMITS = SwitchoverLimits(drain_s=10.0, groups_s=5.0)


class MemoryWorld:
    """One partition: where the source ends, how far it is copied, and what happens each time somebody looks."""

    def __init__(self) -> None:
        self.end = self.copied = 10
        self.before: Callable[[], object] = lambda: None
        self.standing = GroupStatus(groups=2, stands=())
        self.commits = 0
        self.keeps_names = False
        self.done: list[str] = []
        self.is_copied = True
        syncs = SimpleNamespace(configs=False, acls=False)
        selection = SimpleNamespace(target_topic=str)
        self.flow = SimpleNamespace(name=FlowName("A", "B"), config_sync=syncs, selection=selection)
        self.lacks = Readiness()
        self.paused: tuple[str, ...] = ()
        self.known = LastKnown(lanes=())
        self.config = None
        self.moves = Moves()
        self.moves_read = 0
        self.refused: tuple[LeftOutRow, ...] = ()
        self.stopped: dict[TopicPartition, str] = {}

    @property
    def world(self) -> SwitchoverWorld:
        return cast("SwitchoverWorld", self)

    # what steps ask of the world

    async def undrained(self) -> tuple[dict[str, str], tuple[DrainedEnd, ...]]:
        self.before()
        if self.is_copied and "paused" not in self.done[-1:]:
            self.copied = min(self.end, self.copied + 5)
        why = {} if self.copied == self.end else {"t-0": f"{self.end - self.copied} left"}
        return why, (DrainedEnd("t", 0, self.end),)

    async def grown(self, drained: Sequence[DrainedEnd]) -> tuple[GrownPartition, ...]:
        self.before()
        (row,) = drained
        return () if row.end == self.end else (GrownPartition("t", 0, row.end, self.end),)

    async def hold(self, _timeout_s: float, *, commit: bool, undrained: dict[str, str]) -> GroupStatus:
        assert undrained == {}
        if commit:
            self.done.append("groups")
        return self.standing

    async def paused_topics(self) -> tuple[str, ...]:
        return self.paused

    async def moved(self) -> Moves:
        self.moves_read += 1
        return self.moves

    async def left_out(self) -> tuple[LeftOutRow, ...]:
        return self.refused

    def about(self, topics: Collection[str]) -> Self:
        assert set(topics) == {"t"}
        return self

    async def ends_now(self) -> Ends:
        return Ends(ends={TopicPartition("t", 0): self.end})

    async def readiness(self) -> Readiness:
        return self.lacks

    async def stored(self) -> LastKnown:
        return self.known

    async def fenced_topics(self) -> list[str]:
        return ["t"]

    # the mirror

    async def is_copying(self) -> bool:
        return self.is_copied

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return self.stopped

    async def pause(self) -> None:
        self.done.append("paused")

    async def pause_moved(self, topics: Sequence[str]) -> None:
        self.done += [f"paused {topic}" for topic in topics]

    async def release_moved(self, topics: Sequence[str]) -> None:
        raise AssertionError(f"nobody moves {topics} back")

    async def resume(self) -> str:
        self.done.append("resumed")
        return ""

    async def stop(self) -> None:
        self.done.append("stopped")

    async def start_reverse(self) -> str:
        return ""


class PositionsNoted:
    """A step that must follow every drain."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world

    async def do(self, run: StepRun) -> Facts:
        del run
        self._world.done.append("positions")
        return {}

    async def undo(self, run: StepRun) -> Facts:
        del run
        return {}


def draining(found: MemoryWorld, *ignored: str) -> DrainStep:
    return DrainStep(found.world, found, LIMITS, frozenset(ignored))


def settle(found: MemoryWorld) -> SettleStep:
    drain, halt = draining(found), PauseStep(found)
    groups = GroupsStep(found.world, LIMITS, frozenset())
    return SettleStep(found.world, halt, drain, (groups, PositionsNoted(found)))


# --- check -----------------------------------------------------------------------------------------------------------


def check(found: MemoryWorld, *ignored: str) -> CheckStep:
    return CheckStep(found.world, NoFence(), found, frozenset(ignored))


async def test_a_check_changes_nothing_and_says_what_it_found() -> None:
    found = MemoryWorld()
    assert await check(found).do(KeptRun().run) == {"fence": "none", "topics": 1, "groups": 2}
    assert found.done == []
    found.lacks = Readiness(unready=(Unready(name=UnreadyName.NO_TOPIC, subject="t", why="none"),))
    await check(found).do(KeptRun().run)  # brokers make it when a producer first writes


async def test_a_check_names_everything_that_is_in_the_way() -> None:
    found = MemoryWorld()
    found.is_copied, found.keeps_names, found.standing = False, True, unequal("it has members")
    found.lacks = Readiness(
        unready=(
            Unready(name=UnreadyName.NO_TOPIC, subject="t", why="none"),
            Unready(name=UnreadyName.RIGHT, subject="User:a", why="Write"),
        ),
        unknown=("rights: not permitted",),
    )
    lane = KnownLane(
        lane=TopicPartition("t", 0), target=TopicPartition("A.t", 0), source_next=-1, at_ms=1, ours=True, why="cut"
    )
    found.known = LastKnown(lanes=(lane,), unread={"p-1": "no leader"})
    names = (
        "no-mirror",
        "copies-not-whole",
        "copies-not-whole",
        "no-topic",
        "right-missing",
        "readiness-unknown",
        "group-not-read",
    )
    with pytest.raises(CheckFailed) as failure:
        await check(found).do(KeptRun().run)
    assert tuple(name for name, _ in failure.value.reasons) == names
    assert "right-missing: User:a: Write" in str(failure.value)
    assert "copies-not-whole: t-0: cut" in str(failure.value)
    await check(found, *names).do(KeptRun().run)


async def test_what_came_on_the_source_after_a_move_of_producers_is_named() -> None:
    found = MemoryWorld()
    found.keeps_names = True
    found.moves = Moves(topics={"t": MovedTopic(at_ms=1, who="ann", operation="op", ends=(8,))})
    with pytest.raises(CheckFailed, match="written-since-move: 2 offsets of t came on the source") as failed:
        await check(found).do(KeptRun().run)
    assert "raymirror move --topics 't' --undo" in str(failed.value)
    found.end = 8
    await check(found).do(KeptRun().run)
    found.end, found.keeps_names = 10, False
    await check(found).do(KeptRun().run)  # copies with a prefix go on, so they have it


async def test_a_check_names_partitions_of_which_the_target_refuses_records() -> None:
    found = MemoryWorld()
    found.stopped = {TopicPartition("t", 1): "t-1: the target refused the record at source offset 5"}
    found.refused = (LeftOutRow("t", 0, 2),)
    with pytest.raises(CheckFailed) as failed:
        await check(found).do(KeptRun().run)
    assert failed.value.reasons == (
        ("partition-stopped", "t-1: the target refused the record at source offset 5"),
        (
            LEFT_OUT,
            f"t-0: the target lacks 2 records that it refused; {steps.decide()}",
        ),
    )
    found.stopped = {TopicPartition("t", 2): "failed", TopicPartition("other", 0): "failed"}
    with pytest.raises(CheckFailed, match=r"^partition-stopped: t-2: failed \(a reason"):
        await check(found, LEFT_OUT).do(KeptRun().run)


async def test_a_check_reads_once_what_has_moved() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.keeps_names = True
    await check(found).do(run.run)
    assert found.moves_read == 1


@pytest.mark.parametrize(("keeps_names", "differing"), [(True, ["orders"]), (False, ["orders", "t"])])
async def test_configs_of_a_copy_that_producers_have_moved_to_may_differ(
    monkeypatch: pytest.MonkeyPatch, keeps_names: bool, differing: list[str]
) -> None:
    found = MemoryWorld()
    found.keeps_names = keeps_names
    found.flow.config_sync.configs = True
    found.end, found.moves = 8, Moves(topics={"t": MovedTopic(at_ms=1, who="ann", operation="op", ends=(8,))})
    changes = tuple(
        SetConfig(topic=name, target=name, name="retention.ms", value="1", before="2", overrides=False, why="own")
        for name in ("orders", "t")
    )

    asked = list[Collection[str]]()

    class Sync:
        async def compare(self, _scope: Scope) -> SyncPlan:
            return without_topics(SyncPlan(changes=changes), asked[0])

    @asynccontextmanager
    async def config_sync(_config: object, _flow: object, _id: str, topics: Collection[str]) -> AsyncIterator[Sync]:
        asked.append(topics)
        yield Sync()

    monkeypatch.setattr(steps, "config_sync", config_sync)
    reasons, _ = await check(found).look()
    assert [name for name, _ in reasons] == ["settings-differ"] * len(differing)
    assert all(f"'topic': '{topic}'" in why for topic, (_, why) in zip(differing, reasons, strict=True))


# --- drain -----------------------------------------------------------------------------------------------------------


async def test_a_drain_waits_until_all_is_copied_and_notes_the_ends() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.end = 21
    facts = await draining(found).do(run.run)
    assert facts == {"partitions": 1, "records_lost": 0}
    assert run.rows[DRAINED_NOTES] == (DrainedEnd("t", 0, 21),)
    assert run.said[0] == "1 partition not drained: t-0: 6 left"


async def test_what_the_target_refused_is_not_drained_and_what_is_accepted_is_counted() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.refused = LeftOutRow("t", 0, 2), LeftOutRow("u", 3, 1)
    with pytest.raises(TargetLacksRecords) as failed:
        await draining(found).do(run.run)
    assert run.rows == {}
    assert str(failed.value) == (
        "the target lacks t-0: 2 records that it refused; u-3: 1 record that it refused; replay or drop them first:"
        " raymirror quarantine replay, or raymirror quarantine drop, then: raymirror dr resume (to leave"
        " them behind: --ignore left-out-records)"
    )
    assert await draining(found, LEFT_OUT).do(run.run) == {"partitions": 1, "records_lost": 3}
    assert run.rows[LEFT_OUT_NOTES] == found.refused
    found.refused = ()
    assert await draining(found).do(run.run) == {"partitions": 1, "records_lost": 0}
    assert run.rows[LEFT_OUT_NOTES] == (), "they were replayed"


async def test_a_drain_that_does_not_end_says_why() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.end, found.copied = 100, 0
    with pytest.raises(NotDrained, match="not drained: t-0: 45 left"):
        await draining(found).do(run.run)
    assert run.rows == {}


async def test_a_drain_of_a_source_that_still_grows_says_so() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.end, found.copied = 20, 0

    def written() -> None:
        found.end += 7

    found.before = written
    with pytest.raises(NotDrained) as failed:
        await draining(found).do(run.run)
    assert run.said[0] == "1 partition not drained: t-0: 22 left"
    grows = "the source still grows: t-0: it ended at 27, and ends at"
    assert run.said[1] == f"1 partition not drained: t-0: 24 left; {grows} 34 now"
    assert str(failed.value).startswith("not drained: t-0: ")
    assert f"; {grows} {found.end} now; stop who still writes there" in str(failed.value)


async def test_growth_is_told_from_where_a_partition_first_ended_also_after_a_look_that_failed() -> None:
    growth = SourceGrowth()
    growth.see((DrainedEnd("t", 0, 5), DrainedEnd("t", 1, 5)))
    growth.see((DrainedEnd("t", 0, 6), DrainedEnd("t", 1, 5), DrainedEnd("new", 0, 3)))
    growth.see(())
    assert growth.grown == {"t-0": "it ended at 5, and ends at 6 now"}
    growth.see((DrainedEnd("t", 0, 6), DrainedEnd("t", 1, 4), DrainedEnd("new", 0, 4)))
    assert growth.grown == {"t-0": "it ended at 5, and ends at 6 now", "new-0": "it ended at 3, and ends at 4 now"}


async def test_a_partition_that_grows_no_more_is_not_told() -> None:
    """The end of a transaction, or a request that was on its way, comes after the fence, once."""
    growth = SourceGrowth()
    growth.see((DrainedEnd("t", 0, 5),))
    growth.see((DrainedEnd("t", 0, 6),))
    for _ in range(40):
        await asyncio.sleep(1.0)
        growth.see((DrainedEnd("t", 0, 6),))
    assert growth.grown == {}
    growth.see((DrainedEnd("t", 0, 7),))
    assert growth.grown == {"t-0": "it ended at 5, and ends at 7 now"}


async def test_a_topic_that_an_operator_paused_is_named_by_the_check_and_by_the_drain() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.paused, found.end, found.copied = ("t",), 100, 0
    with pytest.raises(CheckFailed, match="topic-paused: an operator paused topic 't'"):
        await check(found).do(run.run)
    await check(found, "topic-paused").do(run.run)
    with pytest.raises(NotDrained, match="t-0: 45 left; an operator paused topic 't'"):
        await draining(found).do(run.run)


async def test_a_drain_without_a_mirror_cannot_end() -> None:
    found, run = MemoryWorld(), KeptRun()
    found.end, found.is_copied = 11, False
    with pytest.raises(NoMirrorCopies, match="start it: raymirror run"):
        await draining(found).do(run.run)


async def test_a_broker_that_is_lost_during_a_drain_is_asked_again() -> None:
    found, run = MemoryWorld(), KeptRun()
    left = [1, 2]

    def lost() -> None:
        if left:
            left.pop()
            raise ConnectionLost("a broker")

    found.before = lost
    await draining(found).do(run.run)
    assert run.said == ["1 partition not drained: a cluster: connection lost: a broker"] * 2


# --- groups ----------------------------------------------------------------------------------------------------------


def unequal(why: str) -> GroupStatus:
    row = GroupPartitionStatus(group="g", topic="t", partition=0, source_offset=5, target_offset=-1, stored=-1, why=why)
    return GroupStatus(groups=1, stands=(row,), failed={"h": "no coordinator"})


async def test_groups_that_are_not_equal_stop_a_switchover_unless_they_are_accepted() -> None:
    found, run = MemoryWorld(), KeptRun()
    assert await GroupsStep(found.world, LIMITS, frozenset()).do(run.run) == {"groups": 2, "groups_not_equal": 0}
    found.standing = unequal("it has members")
    with pytest.raises(NotEqual, match="g: t-0: it has members; h: no coordinator"):
        await GroupsStep(found.world, LIMITS, frozenset()).do(run.run)
    facts = await GroupsStep(found.world, LIMITS, frozenset({"groups-not-equal"})).do(run.run)
    assert facts == {"groups": 1, "groups_not_equal": 2}
    assert run.rows[GROUP_NOTES] == (GroupRow("g", "t-0: it has members"), GroupRow("h", "no coordinator"))


@pytest.mark.parametrize(
    "why", [Why.TARGET_AHEAD.value, Why.ACTIVE.value, BEFORE_MAP, f"no target offset: {UNREAD_STINTS}: b:1 is down"]
)
async def test_a_check_finds_groups_that_nothing_can_be_committed_for(why: str) -> None:
    found = MemoryWorld()
    found.standing = msgspec.structs.replace(unequal(why), failed={})
    with pytest.raises(CheckFailed, match=f"groups-not-equal: group g: t-0: {why}"):
        await check(found).do(KeptRun().run)
    await check(found, GROUPS_NOT_EQUAL).do(KeptRun().run)
    assert found.done == []
    found.standing = msgspec.structs.replace(unequal(NOT_COMMITTED), failed={})
    await check(found).do(KeptRun().run)  # the step commits it


@pytest.mark.parametrize("why", sorted(FOR_GOOD))
async def test_groups_that_can_never_become_equal_are_not_waited_for(why: str) -> None:
    found, run = MemoryWorld(), KeptRun()
    found.standing = unequal(why)
    with pytest.raises(NotEqual, match="dr resume with --ignore groups-not-equal"):
        await GroupsStep(found.world, LIMITS, frozenset()).do(run.run)
    assert (found.done, run.said) == (["groups"], [])


async def test_accepted_groups_are_not_waited_for_and_others_are() -> None:
    found, run = MemoryWorld(), KeptRun()
    step = GroupsStep(found.world, LIMITS, frozenset({GROUPS_NOT_EQUAL}))
    found.standing = msgspec.structs.replace(unequal(Why.ACTIVE.value), failed={})
    assert await step.do(run.run) == {"groups": 1, "groups_not_equal": 1}
    assert (found.done, run.said) == (["groups"], [])
    found.standing = msgspec.structs.replace(unequal(NOT_COMMITTED), failed={})
    await step.do(run.run)
    assert len(found.done) > 2
    assert run.said[0] == "waits for groups, 5 s at most: g: t-0: not committed on the target"


# --- settle ----------------------------------------------------------------------------------------------------------


async def test_nothing_came_behind_the_fence() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 10),)
    assert await settle(found).do(run.run) == {"offsets_behind_the_fence": 0}
    assert found.done == ["paused", "groups", "positions"]


async def test_what_came_behind_the_fence_is_drained_and_everything_behind_a_drain_is_done_again() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 10),)
    found.end = 13
    assert await settle(found).do(run.run) == {"offsets_behind_the_fence": 3}
    assert found.done == ["paused", "groups", "positions", "resumed", "paused", "groups", "positions"]
    assert run.rows[DRAINED_NOTES] == (DrainedEnd("t", 0, 13),)


async def test_a_producer_that_passes_the_fence_is_named() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 10),)

    def writes() -> None:
        found.end += 1

    found.before = writes
    with pytest.raises(WrittenBehind, match="behind the fence: t: 3 offsets; stop these producers"):
        await settle(found).do(run.run)


async def test_a_driver_that_was_killed_while_the_flow_copied_again_pauses_it_first() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 10),)
    found.done.append("resumed")
    await settle(found).do(run.run)
    assert found.done[1:] == ["paused", "groups", "positions"]


# --- watch, fence, pause ---------------------------------------------------------------------------------------------


async def test_the_ends_are_watched_unless_the_reverse_flow_writes_there() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 9),)
    assert await WatchStep(found.world).do(run.run) == {"partitions_behind_the_fence": 1}
    assert run.said == ["written to the source behind the fence: 1 partition"]
    found.keeps_names = True
    run.operation = done(begun(run.operation, "reverse", 1), "reverse", 2, {"reverse_runs": False})
    assert await WatchStep(found.world).do(run.run) == {"partitions_behind_the_fence": 1}
    run.operation = done(run.operation, "reverse", 2, {"reverse_runs": True})
    run.rows[START_NOTES] = (StoredStart("t", 0, 10),)
    facts = await WatchStep(found.world).do(run.run)
    assert facts == {"partitions_behind_the_fence": 0, "watched_by": "the reverse flow (raymirror.foreign.writer)"}
    run.rows[START_NOTES] = (StoredStart("other", 0, 10),)
    facts = await WatchStep(found.world).do(run.run)
    assert facts["partitions_behind_the_fence"] == 1, "the reverse flow does not write to it, so it sees nothing there"


async def test_a_group_that_consumed_on_the_source_after_it_was_committed_is_told() -> None:
    found, run = MemoryWorld(), KeptRun()
    run.rows[DRAINED_NOTES] = (DrainedEnd("t", 0, 10),)
    run.rows[GROUP_NOTES] = (GroupRow("accepted", "t-0: no offset"),)
    blank = GroupPartitionStatus(group="g", topic="t", partition=0, source_offset=9, target_offset=19, stored=15)
    rows = [
        msgspec.structs.replace(blank, why=NOT_COMMITTED),
        msgspec.structs.replace(blank, group="accepted", why=NOT_COMMITTED),
        msgspec.structs.replace(blank, group="started", stored=25, why=Why.TARGET_AHEAD.value),
        msgspec.structs.replace(blank, group="equal", stored=19),
    ]
    found.standing = GroupStatus(groups=4, stands=tuple(rows))
    facts = await WatchStep(found.world, groups=True).do(run.run)
    assert facts == {"partitions_behind_the_fence": 0, "groups_gone_on": 1}
    kept = {row.group: row.why for row in run.rows[GROUP_NOTES] if isinstance(row, GroupRow)}
    assert set(kept) == {"accepted", "g"}
    assert kept["g"] == (
        "t-0: it consumed on the source after it was committed on the target, and reads 4 offsets again there"
    )


async def test_a_pause_is_undone_by_copying_again() -> None:
    found, run = MemoryWorld(), KeptRun()
    await PauseStep(found).do(run.run)
    await PauseStep(found).undo(run.run)
    assert found.done == ["paused", "resumed"]


async def test_a_fence_is_made_for_the_topics_of_the_flow() -> None:
    class Noted:
        def __init__(self) -> None:
            self.topics: list[str] = []

        async def refuse(self, topics: Sequence[str]) -> Facts:
            return {"topics": len(topics)}

        async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
            del run
            self.topics += topics
            return {}

        async def open(self, run: StepRun) -> Facts:
            del run
            self.topics.clear()
            return {}

    found, run, noted = MemoryWorld(), KeptRun(), Noted()
    step = FenceStep(found.world, noted)
    await step.do(run.run)
    assert noted.topics == ["t"]
    await step.undo(run.run)
    assert noted.topics == []
    found.moves = Moves(topics={"t": MovedTopic(at_ms=1, who="ann", operation="op", ends=(1,))})
    await step.do(run.run)
    assert noted.topics == [], "its producers have moved: their fence stands, also after an abort"
    assert (await check(found).do(KeptRun().run))["topics"] == 0
