"""Late requests of a previous owner: the broker refuses them, and its own log says so.

Every case has three partitions and a broker behind a proxy that delays requests. There is no lease here: only the
broker protects the log.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports
from deploy.local.proxy import Proxy
from engine.core.events.events import OwnershipLost, Resumed
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import DEADLINE_S, Mirror, Run
from tests.harness.refusals import fenced_appends

pytestmark = [pytest.mark.integration, pytest.mark.fault]

APPENDS, INIT_PRODUCER_ID = frozenset({0}), frozenset({22})
PARTITIONS = 3
EVERY = set(range(PARTITIONS))
FIRST, MORE = 300, 200


class Proxied(NamedTuple):
    """A target that clients reach through a port of a proxy's only."""

    cluster: EmbeddedCluster
    port: int


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    (port,) = pick_ports(1)
    advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{port}"}
    with EmbeddedCluster("fenced", tmp_path_factory.mktemp("fenced"), overrides=advertised) as cluster:
        yield Proxied(cluster, port)


@pytest.fixture
async def proxy(proxied: Proxied) -> AsyncIterator[Proxy]:
    async with Proxy((HOST, proxied.cluster.brokers[0].port), listen=(HOST, proxied.port)) as started:
        yield started


class Stage:
    """A flow of one topic into the proxied target."""

    def __init__(self, mirror: Mirror, topic: str) -> None:
        self.mirror, self.topic = mirror, topic
        self.topics = (mirror.copied(topic), mirror.positions_topic)
        self._sent = 0

    @classmethod
    async def create(cls, source: EmbeddedCluster, target: EmbeddedCluster, topic: str, **options: Any) -> "Stage":
        # What is held back is not given up before the newer owner has come, however long that takes.
        mirror = Mirror(source, target, alias=topic, **{"request_timeout_s": DEADLINE_S, **options})
        await mirror.open()
        await mirror.topic(topic, PARTITIONS)
        stage = cls(mirror, topic)
        await stage.fill(FIRST)
        return stage

    async def fill(self, count: int) -> None:
        """Give every lane so many records more."""
        for partition in range(PARTITIONS):
            await produce(self.mirror.source, self.topic, partition, numbered(count, first=self._sent))
        self._sent += count

    def all_in_flight(self, run: Run) -> bool:
        """Whether every lane waits for the outcome of an append."""
        return all(run.lane(self.topic, number).in_flight for number in range(PARTITIONS))

    def refused(self) -> set[int]:
        """Name the partitions of the copy of which the broker has refused an append for its epoch."""
        return {one.partition for one in fenced_appends(self.mirror.target, self.topics[0])}

    def refused_producers(self) -> set[int]:
        """Name the producers of which an append was refused, be it a record's or a position's."""
        return {one.producer_id for one in fenced_appends(self.mirror.target, *self.topics)}

    async def assert_whole(self) -> None:
        """Every record is there once, in order."""
        found = await assert_identical(self.mirror.source, self.mirror.target, self.topic, self.topics[0])
        assert found == PARTITIONS * self._sent


async def until_resumed(run: Run, times: int = 1) -> None:
    def resumed() -> bool:
        told = Counter(one.lane for one in run.told(Resumed))
        return len(told) == PARTITIONS and min(told.values()) >= times

    await run.until(resumed, f"every lane resumed, {times} times")


async def until_stood_down(run: Run) -> None:
    await run.until(
        lambda: len({one.lane for one in run.told(OwnershipLost)}) == PARTITIONS, "the former owner stands down"
    )
    assert {(one.assignment_epoch, one.other_epoch) for one in run.told(OwnershipLost)} == {(1, 2)}


async def until_held(proxy: Proxy, count: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        await proxy.wait_held_requests(count)


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.full), "behind"])
async def test_appends_that_come_before_or_behind_those_of_a_successor(
    when: str, source_cluster: EmbeddedCluster, proxied: Proxied, proxy: Proxy
) -> None:
    stage = await Stage.create(source_cluster, proxied.cluster, f"appends-{when}")
    async with stage.mirror.run(epoch=1, drain=False) as old:
        await old.until_copied()
        proxy.hold_requests(APPENDS)
        await stage.fill(MORE)
        await old.until(lambda: stage.all_in_flight(old), "every lane has an append on its way")
        await until_held(proxy, 1)
        async with stage.mirror.run(epoch=2) as new:
            if when == "before":
                new.copier.pause(None)  # it has its barriers, and appends nothing
            await until_resumed(new)
            if when == "behind":
                await new.until_copied()
            proxy.release_requests()
            await until_stood_down(old)
            await old.until(lambda: stage.refused() == EVERY, "the broker has refused every lane's append")
            new.copier.resume(None)
            await stage.fill(MORE)
            await new.until_copied()
            assert new.told(OwnershipLost) == []
    await stage.assert_whole()


@pytest.mark.full
async def test_appends_of_an_owner_that_is_gone(
    source_cluster: EmbeddedCluster, proxied: Proxied, proxy: Proxy
) -> None:
    stage = await Stage.create(source_cluster, proxied.cluster, "appends-gone")
    async with stage.mirror.run(epoch=1, drain=False) as old:
        await old.until_copied()
        proxy.hold_requests(APPENDS)
        await stage.fill(MORE)
        await old.until(lambda: stage.all_in_flight(old), "every lane has an append on its way")
        await until_held(proxy, 1)
    async with stage.mirror.run(epoch=2) as new:
        await new.until_copied()
        proxy.release_requests()
        await new.until(lambda: stage.refused() == EVERY, "the broker refuses what nobody waits for any more")
        await stage.fill(MORE)
        await new.until_copied()
    await stage.assert_whole()


async def test_a_producer_id_that_a_stale_owner_asked_for_comes_late(
    source_cluster: EmbeddedCluster, proxied: Proxied, proxy: Proxy
) -> None:
    """Kafka fences for whoever initialised last: the newer owner is refused, looks, and takes its lanes back."""
    stage = await Stage.create(source_cluster, proxied.cluster, "late-id")
    proxy.hold_on_new = INIT_PRODUCER_ID
    async with stage.mirror.run(epoch=1, drain=False) as stale:
        await until_held(proxy, PARTITIONS)
        proxy.hold_on_new = frozenset()
        async with stage.mirror.run(epoch=2) as new:
            await new.until_copied()
            proxy.release_requests()
            await until_stood_down(stale)
            await stage.fill(MORE)
            await new.until_copied()
            await until_resumed(new, 2)
            await new.until(lambda: len(stage.refused_producers()) == PARTITIONS, "the broker has refused every lane")
            assert new.told(OwnershipLost) == []
    await stage.assert_whole()


@pytest.mark.full
async def test_a_producer_id_that_was_asked_for_by_an_owner_who_is_gone(
    source_cluster: EmbeddedCluster, proxied: Proxied, proxy: Proxy
) -> None:
    """No partition hears of it, so appends go on; the owner's next keep-alive is refused, and it acquires again."""
    stage = await Stage.create(source_cluster, proxied.cluster, "late-id-gone", keep_alive_s=1.0)
    proxy.hold_on_new = INIT_PRODUCER_ID
    async with stage.mirror.run(epoch=1, drain=False):
        await until_held(proxy, PARTITIONS)
        proxy.hold_on_new = frozenset()
    async with stage.mirror.run(epoch=2) as new:
        await new.until_copied()
        proxy.release_requests()
        await until_resumed(new, 2)
        await stage.fill(MORE)
        await new.until_copied()
        assert new.told(OwnershipLost) == []
    await stage.assert_whole()
