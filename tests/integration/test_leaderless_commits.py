"""Lanes whose target partition, or whose positions partition, has no leader at the moment, on three real brokers.

With transactions, Kafka's coordinator omits the marker of a commit that it decides at that moment (KAFKA-20734), and
reports no error.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST
from deploy.local.probe import living_brokers
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.events.commit_events import CommitUndone, CommitUnmarked
from engine.core.lane.states import State
from engine.flow.io.buffers import BUFFER_BYTES
from engine.flow.ports.ports import LATEST
from engine.flow.replication import marker_watch
from engine.kafka.data import fencing
from policies.model import LaneName
from tests.harness.admin import create_topics
from tests.harness.committed import DEADLINE_S, assert_once, fill, seen, until_seen
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, Run, lanes_of

pytestmark = [pytest.mark.integration]

PARTITIONS = 4


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    target = EmbeddedCluster("target", tmp_path_factory.mktemp("three") / "target", brokers=3, heap_mib=512)
    target.start()
    yield target
    target.stop()


class Unled:
    """A mirror in transactions whose lanes are led by several brokers; one of them can be gone for a while."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, topic: str, commit_s: float) -> None:
        self.mirror = Mirror(source, target, alias=f"eos-{topic}", commit_s=commit_s, drain_s=DEADLINE_S)
        self.topic = topic
        self.unled: list[LaneName] = []
        self.led: list[LaneName] = []
        self._target = target

    async def open(self) -> None:
        mirror, copied = self.mirror, self.mirror.copied(self.topic)
        await mirror.open()
        await mirror.topic_on_source(self.topic, PARTITIONS)
        await create_topics(self._target, {copied: PARTITIONS}, replicas=1)
        mirror.lanes += lanes_of(self.topic, copied, PARTITIONS)

    async def kill(self) -> Broker:
        """Kill the broker that leads the first partition."""
        lanes = self.mirror.lanes
        async with self.mirror.asking_target() as asked:
            leaders = await asked.leaders([lane.target for lane in lanes])
        node = leaders[lanes[0].target].node
        self.unled = [lane for lane in lanes if leaders[lane.target].node == node]
        self.led = [lane for lane in lanes if leaders[lane.target].node != node]
        assert self.led, "every partition has the same leader"
        broker = next(one for one in self._target.brokers if one.node_id == node)
        await asyncio.to_thread(broker.kill)
        return broker

    @asynccontextmanager
    async def leaderless(self, run: Run) -> AsyncIterator[None]:
        """Kill that broker, and let it come back at the end; meanwhile every other one knows that it is gone."""
        broker = await self.kill()
        await until_unseen(self._target, broker, run)  # any other may be the coordinator that decides
        yield
        await asyncio.to_thread(self._target.restart, broker)

    async def held_open(self) -> int:
        """Return in how many of the partitions that were leaderless a transaction is open."""
        wanted = [lane.target for lane in self.unled]
        async with self.mirror.asking_target() as asked, asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    found = await asked.producers(wanted)
                except (ConnectionLost, BrokerUnreachable):  # not every broker knows the leader yet that came back
                    await asyncio.sleep(0.1)
                else:
                    return sum(any(one.open_since_offset >= 0 for one in rows) for rows in found.values())


async def until_unseen(cluster: EmbeddedCluster, broker: Broker, run: Run) -> None:
    """Wait until every other broker knows that one is gone."""
    async with asyncio.timeout(DEADLINE_S):
        for other in cluster.brokers:
            while other is not broker and broker.node_id in await living(other):
                run.progress()
                await asyncio.sleep(0.1)


async def living(broker: Broker) -> set[int]:
    """Ask one broker which ones it takes for alive."""
    return await asyncio.to_thread(living_brokers, HOST, broker.port)


async def commit(run: Run) -> None:
    """Have every lane commit now, and wait until its coordinator has decided."""
    transactions = [driver.transaction for driver in run.copier.drivers.values() if driver.transaction is not None]
    for one in transactions:
        one.refresh()
    await run.until(lambda: all(one.settled and not one.whole for one in transactions), "committed")


@pytest.fixture
async def unled(source_cluster: EmbeddedCluster, three: EmbeddedCluster, request: pytest.FixtureRequest) -> Unled:
    topic, commit_s = request.param
    found = Unled(source_cluster, three, topic, commit_s)
    await found.open()
    return found


@pytest.mark.full
@pytest.mark.parametrize("unled", [("led", 0.2)], indirect=True)
async def test_a_partition_without_a_leader_holds_back_no_reader_of_others(
    unled: Unled, three: EmbeddedCluster
) -> None:
    mirror = unled.mirror
    await fill(mirror, "led", 500)
    async with mirror.run() as run:
        await run.until_copied()
        load = asyncio.create_task(fill(mirror, "led", 5000, first=500))
        await run.until(lambda: run.progress().records > PARTITIONS * 500, "more is being copied")
        broker = await unled.kill()
        await load
        await fill(mirror, "led", 500, first=5500)
        await until_seen(mirror, unled.led, 6000)
        await asyncio.to_thread(three.restart, broker)
        await run.until_copied(deadline_s=180.0)
    await until_seen(mirror, mirror.lanes, 6000)  # the marker of what is decided comes a moment later
    assert await assert_once(mirror, "led") == PARTITIONS * 6000


@pytest.mark.parametrize("unled", [("marked", 1000.0)], indirect=True)
async def test_commits_whose_markers_are_left_out_are_made_again_or_copied_again(
    unled: Unled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_watch, "_LOOK_S", 10.0)  # a marker that is late on a slow machine is not left out
    monkeypatch.setattr(fencing, "TRANSACTION_TIMEOUT_MS", 600_000)  # nor is a transaction that stays open aborted
    mirror = unled.mirror
    await fill(mirror, "marked", 500)
    async with mirror.run() as run:
        await run.until_copied()
        await commit(run)
        await fill(mirror, "marked", 500, first=500)
        await run.until_copied()
        async with unled.leaderless(run):
            await commit(run)
            await until_seen(mirror, unled.led, 1000)
            assert await seen(mirror, mirror.lanes[0]) == []
        await until_seen(mirror, mirror.lanes, 1000)  # nothing more has come: the lanes look by themselves
        told = {event.lane for event in run.told(CommitUnmarked)}
        assert mirror.lanes[0].source in told
        assert told <= {lane.source for lane in unled.unled}

        await fill(mirror, "marked", 500, first=1000)
        await run.until_copied()
        async with unled.leaderless(run):
            await run.copier.release(f"{mirror.flow}/000")
        assert await unled.held_open() == len(unled.unled), "the markers were written: this proves nothing"
        await until_seen(mirror, mirror.lanes[:1], 1000)
    async with mirror.run() as run:
        await run.until_copied()
        await commit(run)
        await until_seen(mirror, mirror.lanes, 1500)
        assert {event.lane for event in run.told(CommitUndone)} == {lane.source for lane in unled.unled}
    assert await assert_once(mirror, "marked") == PARTITIONS * 1500


SHORT_PARTITIONS = 8


async def fill_in_transactions(source: EmbeddedCluster, topic: str, times: int) -> None:
    """Append to every partition again and again; a marker behind each batch breaks the run of source offsets."""
    async with producer(source, transactional_id=f"fill-{topic}", max_batch_size=65536) as client:
        for number in range(times):
            async with client.transaction():
                for partition in range(SHORT_PARTITIONS):
                    await append(client, topic, partition, numbered(50, first=50 * number, size_bytes=1000))


async def test_lanes_whose_positions_have_no_leader_leave_the_memory_to_others(
    source_cluster: EmbeddedCluster, three: EmbeddedCluster
) -> None:
    """Memory for one fetch; the only replica of one of two positions partitions is gone for a while."""
    topic = "short-memory"
    mirror = Mirror(source_cluster, three, alias="short", buffer_budget_bytes=BUFFER_BYTES, drain_s=DEADLINE_S)
    compact = {"cleanup.policy": "compact"}
    await create_topics(three, {mirror.positions_topic: 2}, configs=compact)
    await create_topics(three, {mirror.map_topic: 2}, replicas=3, configs=compact)
    await mirror.topic_on_source(topic, SHORT_PARTITIONS)
    await create_topics(three, {mirror.copied(topic): SHORT_PARTITIONS}, replicas=3)
    mirror.lanes += lanes_of(topic, mirror.copied(topic), SHORT_PARTITIONS)
    await fill_in_transactions(source_cluster, topic, 1)
    async with mirror.run() as run:
        await run.until_copied()
        drivers = list(run.copier.drivers.values())
        node = drivers[0].position_appender.leader.node
        stuck = [one for one in drivers if one.position_appender.leader.node == node]
        well = [one for one in drivers if one not in stuck]
        assert well, "both partitions of the positions have the same leader"
        broker = next(one for one in three.brokers if one.node_id == node)
        await asyncio.to_thread(broker.kill)
        await until_unseen(three, broker, run)
        await fill_in_transactions(source_cluster, topic, 6)
        await run.until(lambda: all(one.source_end > one.lane.source_next for one in stuck), "lanes stand still")
        for _ in range(3):
            await fill_in_transactions(source_cluster, topic, 2)
            async with mirror.asking_source() as asked:
                ends = await asked.offsets([one.name.source for one in well], LATEST)
            await run.until(
                lambda ends=ends: all(one.lane.source_next >= ends[one.name.source] for one in well),  # type: ignore[misc]
                "lanes whose positions have a leader go on",
            )
        assert all(one.lane.state is State.COPYING for one in stuck)
        await asyncio.to_thread(three.restart, broker)
        await run.until_copied()
    assert await assert_once(mirror, topic) == SHORT_PARTITIONS * 50 * 13
