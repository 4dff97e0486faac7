"""`raymirror failover` when not everything can be drained: each partition by itself, and the groups on them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster
from engine.services.clients import client_for
from tests.harness import groups as stock
from tests.harness.admin import create_topics, delete_topic
from tests.harness.load import numbered, produce, producer
from tests.harness.places import read_places
from tests.harness.rayless import Rayless

pytestmark = [pytest.mark.integration]

RECORDS, MORE = 300, 50
Answer = dict[str, Any]


def by_partition(found: Answer, topic: str) -> dict[int, Answer]:
    """Return what a failover said of the partitions of one topic."""
    return {one["partition"]: one for one in found["partitions"] if one["topic"] == topic}


def stands_of(found: Answer, group: str) -> dict[int, str]:
    """Return why each partition of a group is not equal; empty where it is."""
    return {one["partition"]: one["why"] for one in found["standing"]["stands"] if one["group"] == group}


def copied(count: int) -> Any:
    """Whether so many records are copied."""
    return lambda lanes: sum(lane.records for lane in lanes) >= count


async def test_what_is_not_drained_in_time_is_named_and_its_groups_are_not_equal(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, topic = Rayless(tmp_path, "undrained", source_cluster, target_cluster), "undrained-t"
    await create_topics(source_cluster, {topic: 2})
    for number in range(2):
        await produce(source_cluster, topic, number, numbered(RECORDS))
    await stock.commit(source_cluster, "undrained-held", topic, {0: 120, 1: 50})
    await stock.commit(source_cluster, "undrained-free", topic, {1: RECORDS})
    async with world.run(), producer(source_cluster, transactional_id="undrained-open") as client:
        await world.until(copied(2 * RECORDS), "all is copied")
        async with client.transaction():  # open until the failover is over: what lies behind it cannot be copied
            await client.send_and_wait(topic, b"open", partition=0)
            await produce(source_cluster, topic, 0, numbered(4))
            await produce(source_cluster, topic, 1, numbered(MORE))
            await create_topics(source_cluster, {f"{topic}-never": 1})
            await produce(source_cluster, f"{topic}-never", 0, numbered(7))
            code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "16")
    assert (code, found["drained"], found["stopped"], found["source"]) == (4, False, True, "")
    held, free = (by_partition(found, topic)[number] for number in range(2))
    assert (held["drained"], held["records"], held["source_end"]) == (False, 5, RECORDS + 5)
    assert "5 records left" in held["why"]
    assert "open transaction" in held["why"]
    assert (free["drained"], free["why"], free["source_end"]) == (True, "", RECORDS + MORE)
    (new,) = by_partition(found, f"{topic}-never").values()
    assert (new["drained"], new["source_end"]) == (False, 7)
    assert "does not copy it yet" in new["why"]
    assert stands_of(found, "undrained-free") == {1: ""}
    stands = stands_of(found, "undrained-held")
    assert stands[1] == ""
    assert "not drained" in stands[0], "it stands at its place, and records of its partition are missing"
    assert len((await read_places(target_cluster, f"undrained.{topic}"))[1]) == RECORDS + MORE
    assert world.outcomes[-1].records == -1, "nobody knows how many the new topic has"


@pytest.fixture
async def beats(source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster) -> AsyncIterator[str]:
    """A topic of heartbeats, gone at the end of the test: every flow of a later test would copy it."""
    topic = "pulse-t.heartbeats"
    await create_topics(source_cluster, {topic: 1})
    try:
        yield topic
    finally:
        await delete_topic(source_cluster, topic)
        await delete_topic(target_cluster, f"pulse.{topic}")


async def test_heartbeats_that_are_not_copied_leave_nothing_undrained(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    beats: str,
) -> None:
    world, topic = Rayless(tmp_path, "pulse", source_cluster, target_cluster), "pulse-t"
    await create_topics(source_cluster, {topic: 1})
    await produce(source_cluster, topic, 0, numbered(RECORDS))
    await produce(source_cluster, beats, 0, numbered(3))
    async with world.run(), producer(source_cluster, transactional_id="pulse-open") as client:
        await world.until(copied(RECORDS + 3), "all is copied")
        async with client.transaction():  # open until the failover is over, as a heartbeat that was just written
            await client.send_and_wait(beats, b"beat", partition=0)
            code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "16")
    (pulse,) = by_partition(found, beats).values()
    assert (pulse["drained"], pulse["heartbeats"], pulse["records"] > 0) == (False, True, True)
    assert (code, found["drained"], world.outcomes[-1].records) == (0, True, 0)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A source of three brokers."""
    with EmbeddedCluster("half", tmp_path_factory.mktemp("half") / "source", brokers=3, heap_mib=512) as cluster:
        yield cluster


class Half:
    """A flow from three brokers that share the partitions of a topic without replicas."""

    def __init__(self, world: Rayless, alias: str, source: EmbeddedCluster) -> None:
        self.world, self.topic, self.source, self.alias = world, f"{alias}-t", source, alias
        self.led: dict[int, int] = {}

    async def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition of a topic of the source."""
        client = client_for(self.world.config.clusters[self.alias], "test")
        try:
            await client.open()
            described = (await client.metadata([topic])).topics[topic].partitions
        finally:
            await client.close()
        return {number: one.leader for number, one in described.items()}

    async def fill(self, count: int, partitions: Any = None) -> None:
        """Write so many records to each partition."""
        for number in self.led if partitions is None else partitions:
            await produce(self.source, self.topic, number, numbered(count))

    async def open(self) -> None:
        """Make the topic and fill it."""
        await create_topics(self.source, {self.topic: 6})
        self.led = await self.leaders(self.topic)
        await self.fill(RECORDS)

    def broker(self, node: int) -> Broker:
        """Return a broker by its id."""
        return next(broker for broker in self.source.brokers if broker.node_id == node)

    def check(self, found: Answer, gone: int, ends: int) -> None:
        """Look at what was said when one broker did not answer."""
        dead = {number for number, leader in self.led.items() if leader == gone}
        living = self.led.keys() - dead
        rows = by_partition(found, self.topic)
        assert rows.keys() == self.led.keys()
        assert {number for number, row in rows.items() if row["drained"]} == living
        for number in living:
            assert (rows[number]["source_end"], rows[number]["records"], rows[number]["why"]) == (ends, 0, "")
        for number in dead:
            assert (rows[number]["source_end"], rows[number]["records"]) == (-1, -1)
            assert "leader" in rows[number]["why"] or f"broker {gone}" in rows[number]["why"]
        assert set(stands_of(found, f"{self.alias}-living").values()) == {""}
        stands = stands_of(found, f"{self.alias}-all")
        assert {number for number, why in stands.items() if not why} == living
        assert all("not drained" in stands[number] for number in dead)


@pytest.mark.full
async def test_a_source_of_which_one_broker_is_dead_is_drained_as_far_as_it_lives(
    three: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = Rayless(tmp_path, "half", three, target_cluster)
    half = Half(world, "half", three)
    await half.open()
    async with world.run():
        await world.until(copied(6 * RECORDS), "all is copied")
        (gone,) = (await half.leaders("mm2-offset-syncs.there.internal")).values()
        dead = {number for number, leader in half.led.items() if leader == gone}
        assert dead, "the topic is not spread over the brokers"
        await stock.commit(three, "half-all", half.topic, dict.fromkeys(half.led, 100))
        await stock.commit(three, "half-living", half.topic, dict.fromkeys(half.led.keys() - dead, 120))
        half.broker(gone).kill()
        try:
            await half.fill(MORE, half.led.keys() - dead)
            code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "90")
        finally:
            await asyncio.to_thread(three.restart, half.broker(gone))
        assert (code, found["drained"], found["stopped"], found["source"]) == (4, False, True, "")
        half.check(found, gone, RECORDS + MORE)
        places = await read_places(target_cluster, f"half.{half.topic}")
        assert {len(places[number]) for number in half.led.keys() - dead} == {RECORDS + MORE}
        # and once all are there again everything is drained
        world.copier.resume(None)
        await half.fill(MORE)
        code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "90")
        assert (code, found["drained"]) == (0, True), found
        assert {row["why"] for row in found["partitions"]} == {""}
        assert set(stands_of(found, "half-all").values()) == {""}


@pytest.mark.full
async def test_a_source_broker_that_answers_nothing_costs_the_others_nothing(
    three: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = Rayless(tmp_path, "mute", three, target_cluster)
    half = Half(world, "mute", three)
    await half.open()
    async with world.run():
        await world.until(copied(6 * RECORDS), "all is copied")
        mute = three.brokers[0]  # the first that whoever connects tries
        dead = {number for number, leader in half.led.items() if leader == mute.node_id}
        await stock.commit(three, "mute-all", half.topic, dict.fromkeys(half.led, 100))
        await stock.commit(three, "mute-living", half.topic, dict.fromkeys(half.led.keys() - dead, 120))
        assert mute.pid is not None
        os.kill(mute.pid, signal.SIGSTOP)
        try:
            code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "60")
        finally:
            os.kill(mute.pid, signal.SIGCONT)
        assert (code, found["drained"], found["stopped"], found["source"]) == (4, False, True, "")
        half.check(found, mute.node_id, RECORDS)


@pytest.mark.full
async def test_in_transactions_all_is_committed_when_a_pause_or_a_failover_is_done(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "600000"}
    world, topic = Rayless(tmp_path, "atom", source_cluster, target_cluster, more), "atom-t"
    await create_topics(source_cluster, {topic: 2})
    await produce(source_cluster, topic, 0, numbered(RECORDS))

    async def committed() -> int:
        return len((await read_places(target_cluster, f"atom.{topic}"))[0])

    async with world.run():
        await world.until(copied(RECORDS), "all is copied")
        for turn in range(1, 4):
            await produce(source_cluster, topic, 0, numbered(MORE))
            code, said = await world.ask(monkeypatch, capsys, "pause", "--timeout", "120")
            stands_at = max(lane.source_next for lane in world.lanes())
            assert (code, await committed()) == (0, stands_at), said
            assert all(lane.committed for lane in world.lanes())
            world.copier.resume(None)
            await world.until(copied(RECORDS + turn * MORE), "all is copied")
        await produce(source_cluster, topic, 0, numbered(MORE))
        await stock.commit(source_cluster, "atom-g", topic, {0: RECORDS + 4 * MORE})
        code, found = await world.ask(monkeypatch, capsys, "failover", "--timeout", "120")
        assert (code, found["drained"], found["equal"]) == (0, True, True), found
        assert await committed() == RECORDS + 4 * MORE
