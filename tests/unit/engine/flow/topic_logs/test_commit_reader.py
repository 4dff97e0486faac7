"""Commits read from a cluster in memory: which groups, when, and when some may have been missed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.base.errors import BrokerUnreachable, KafkaRefusal
from engine.core.mm2.commit_records import NO_OFFSET, TOPIC
from engine.flow.ports.ports import FetchFault, Leader, PartitionFetch
from engine.flow.topic_logs import commit_reader
from engine.flow.topic_logs.commit_reader import CommitReader, Hints
from policies.groups import GroupSelection
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.cluster import FakeCluster
from tests.fakes.commit_log import CommitLog, commit_key, commit_log
from tests.fakes.source_log import ABORT

LANE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
DEADLINE_S = 30.0


class Stage:
    """A source with two brokers, and a reader of its commits."""

    def __init__(self) -> None:
        self.cluster = FakeCluster("A")
        self.logs = [commit_log(self.cluster, 0, node=1), commit_log(self.cluster, 1, node=2)]
        self.logs[0].commit("early", {LANE: 1})
        topics = TopicSelection(FlowName("A", "B"), DefaultNaming(), exclude=["local"])
        self.reader = CommitReader(self.cluster, GroupSelection(exclude=["left"]), topics)

    @property
    def log(self) -> CommitLog:
        return self.logs[0]

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[CommitReader]:
        """Read, from behind what is there, and past the first word that something was missed."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.reader.run())
            await until(lambda: not self.reader.why_not)
            assert self.reader.take() == Hints({}, missed=True, since_ms=-1)
            await until(lambda: len(self.cluster.fetches) >= 2)
            yield self.reader
            task.cancel()

    async def hear(self, commits: int) -> Hints:
        """Wait until so many commits were read; take them."""
        self.cluster.grow()
        await until(lambda: self.reader.commits >= commits)
        return self.reader.take()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - the reader tells nobody when it connects
            await asyncio.sleep(0.001)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    for name in ("_GATHER_S", "_REFUSED_S", "_MOST_S"):
        monkeypatch.setattr(commit_reader, name, 0.001)
    return Stage()


async def test_commits_are_told_by_group_the_last_one_of_each_partition(stage: Stage) -> None:
    async with stage.reading() as reader:
        stage.log.commit("g", {LANE: 5, OTHER: 6})
        stage.log.commit("g", {LANE: 7})
        stage.logs[1].commit("h", {LANE: 8})
        hints = await stage.hear(4)
        assert hints.seen == {"g": {LANE: 7, OTHER: 6}, "h": {LANE: 8}}
        assert (hints.missed, hints.since_ms) == (False, 1_700_000_000_000)
        assert reader.take() == Hints({}, missed=False, since_ms=-1)
        stage.log.commit("g", {LANE: 9})
        assert (await stage.hear(5)).seen == {"g": {LANE: 9}}


async def test_what_is_not_wanted_and_what_is_no_commit_is_passed_over(stage: Stage) -> None:
    async with stage.reading():
        stage.log.commit("left", {LANE: 5})
        stage.log.commit("g", {TopicPartition("local", 0): 5})
        stage.log.put([(commit_key("g", "t", 0), None), (b"\x00\x02\x00\x01g", b"metadata"), (None, b"x")])
        stage.log.put([(commit_key("odd", "t", 0), b"\x00\x09")])
        assert (await stage.hear(1)).seen == {"odd": {LANE: NO_OFFSET}}


async def test_a_transaction_is_told_when_it_is_committed_and_holds_nobody_back(stage: Stage) -> None:
    async with stage.reading():
        stage.log.commit("moved", {LANE: 5}, producer_id=7)
        stage.log.commit("rolled-back", {LANE: 5}, producer_id=8)
        stage.log.commit("plain", {LANE: 6})
        assert (await stage.hear(1)).seen == {"plain": {LANE: 6}}
        stage.log.mark(8, ABORT)
        stage.log.commit("moved", {OTHER: 9}, producer_id=7)
        stage.log.mark(7)
        hints = await stage.hear(3)
        assert (hints.seen, hints.missed) == ({"moved": {LANE: 5, OTHER: 9}}, False)


async def test_the_end_of_a_transaction_that_began_before_says_that_something_was_missed(stage: Stage) -> None:
    stage.log.commit("moved", {LANE: 5}, producer_id=7)
    async with stage.reading() as reader:
        stage.log.mark(7)
        stage.cluster.grow()
        await reader.wait(DEADLINE_S)
        assert reader.take() == Hints({}, missed=True, since_ms=-1)


async def test_too_many_at_once_are_not_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_reader, "_MOST", 3)
    async with stage.reading() as reader:
        for number in range(4):
            stage.log.commit(f"g{number}", {LANE: number})
        hints = await stage.hear(4)
        assert (hints.seen, hints.missed) == ({}, True)
        for number in range(3):
            stage.log.commit(f"h{number}", {LANE: number})
        assert len((await stage.hear(7)).seen) == 3
        assert not reader.take().missed


async def test_a_wait_ends_without_news(stage: Stage) -> None:
    async with stage.reading() as reader:
        await reader.wait(0.001)
        assert reader.take() == Hints({}, missed=False, since_ms=-1)


async def test_a_leader_that_goes_is_followed_and_nothing_is_missed(stage: Stage) -> None:
    async with stage.reading():
        stage.cluster.leader[TopicPartition(TOPIC, 0)] = Leader(2, 1, f"id-{TOPIC}")
        stage.log.commit("g", {LANE: 5})
        hints = await stage.hear(1)
        assert (hints.seen, hints.missed) == ({"g": {LANE: 5}}, False)
        await until(lambda: not stage.reader.why_not)


async def test_a_place_that_is_gone_is_left_and_that_is_said(stage: Stage) -> None:
    async with stage.reading() as reader:
        stage.log.start = stage.log.end = 100
        stage.cluster.grow()
        await until(lambda: reader.take().missed)
        stage.log.commit("g", {LANE: 5})
        assert (await stage.hear(1)).seen == {"g": {LANE: 5}}


async def test_a_batch_that_is_corrupt_is_left_and_that_is_said(stage: Stage) -> None:
    async with stage.reading() as reader:
        stage.log.commit("g", {LANE: 5})
        end, batch = stage.log.raw[-1]
        stage.log.raw[-1] = end, batch[:-1] + b"\xff"
        stage.cluster.grow()
        await until(lambda: reader.take().missed)
        stage.log.commit("h", {LANE: 6})
        assert (await stage.hear(1)).seen == {"h": {LANE: 6}}


async def test_without_the_right_to_read_it_says_so_and_tries_again(stage: Stage) -> None:
    stage.cluster.fault = lambda _want: FetchFault(29, "TopicAuthorizationFailed", retry=False)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: "TopicAuthorizationFailed" in stage.reader.why_not)
        stage.cluster.fault = lambda _want: None
        await until(lambda: not stage.reader.why_not and stage.cluster.fetches)
        stage.log.commit("g", {LANE: 5})
        assert (await stage.hear(1)).seen == {"g": {LANE: 5}}
        task.cancel()


async def test_it_reads_only_once_every_broker_has_answered(stage: Stage) -> None:
    """Else what is refused would look as if it were read, for a moment at each try."""
    said: list[bool] = []

    def refuse(_want: PartitionFetch) -> FetchFault:
        said.append(bool(stage.reader.why_not))
        return FetchFault(29, "TopicAuthorizationFailed", retry=False)

    stage.cluster.fault = refuse
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: len(said) >= 5)
        task.cancel()
    assert all(said)


async def test_a_broker_that_cannot_be_reached_keeps_nobody_elses_commits_back(stage: Stage) -> None:
    stage.cluster.down = {2}

    def fail(asked: str, partitions: Sequence[TopicPartition]) -> None:
        if asked == "offsets" and any(stage.cluster.leader[one].node in stage.cluster.down for one in partitions):
            raise BrokerUnreachable("A:2", "down")

    stage.cluster.fail = fail
    async with stage.reading():
        stage.log.commit("g", {LANE: 5})
        assert (await stage.hear(1)).seen == {"g": {LANE: 5}}
        stage.cluster.down = set()
        await until(lambda: TopicPartition(TOPIC, 1) in stage.reader._next)
        assert stage.reader.take().missed  # what its groups committed meanwhile
        stage.logs[1].commit("h", {LANE: 6})
        assert (await stage.hear(2)).seen == {"h": {LANE: 6}}


async def test_what_was_led_by_a_broker_that_cannot_be_reached_is_read_from_the_next_leader(stage: Stage) -> None:
    stage.cluster.down = {2}
    async with stage.reading():
        stage.cluster.leader[TopicPartition(TOPIC, 1)] = Leader(1, 1, f"id-{TOPIC}")
        await until(lambda: TopicPartition(TOPIC, 1) in stage.reader._next)
        stage.logs[1].commit("h", {LANE: 6})
        assert (await stage.hear(1)).seen == {"h": {LANE: 6}}


async def test_no_broker_can_be_reached(stage: Stage) -> None:
    stage.cluster.down = {1, 2}
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: "cannot connect" in stage.reader.why_not)
        stage.cluster.down = set()
        await until(lambda: not stage.reader.why_not)
        task.cancel()


@pytest.mark.parametrize(("partitions", "why"), [((), "does not exist"), ((0,), "has no leader")])
async def test_a_topic_that_is_not_there_or_not_led_is_said(
    stage: Stage, partitions: tuple[int, ...], why: str
) -> None:
    stage.cluster.leader = {TopicPartition(TOPIC, one): Leader(-1, 0, f"id-{TOPIC}") for one in partitions}
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: why in stage.reader.why_not)
        assert stage.reader.not_there == (not partitions)
        task.cancel()


async def test_a_topic_that_is_hidden_is_no_missing_one(stage: Stage) -> None:
    stage.cluster.leader = {}
    stage.cluster.hidden[TOPIC] = KafkaRefusal(f"topic {TOPIC}", 29, "TopicAuthorizationFailed", "grant Read")
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: "grant Read" in stage.reader.why_not)
        assert not stage.reader.not_there
        task.cancel()


async def test_a_topic_that_comes_with_the_first_commit_is_read_soon(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 20:
            stage.cluster.leader = before
        await asyncio.sleep(0)

    monkeypatch.setattr(commit_reader, "pause", pause)
    before, stage.cluster.leader = stage.cluster.leader, {}
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.reader.run())
        await until(lambda: not stage.reader.why_not)
        assert not stage.reader.not_there
        assert max(waits[:20]) <= 5.0
        task.cancel()


async def test_as_many_partitions_as_there_are_are_read(stage: Stage) -> None:
    last = [commit_log(stage.cluster, number) for number in range(2, 70)][-1]
    async with stage.reading():
        last.commit("g", {LANE: 5})
        assert (await stage.hear(1)).seen == {"g": {LANE: 5}}
