"""A broker that forgets transactional ids after 15 s: an owner that renews them still fences a minute later."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.base.clock import now_s, pause
from engine.config.config import load_config
from engine.core.events.events import AnyEvent, OwnershipLost, ProducerChanged, Resumed
from engine.core.reports.progress import FlowProgress
from engine.services.runner import Copier
from engine.services.topic_service import TopicService
from policies.model import LaneName, PartitionSet
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.live import write_properties
from tests.harness.load import numbered, produce
from tests.harness.mirror import DEADLINE_S, Mirror
from tests.harness.refusals import fenced_appends

pytestmark = [pytest.mark.fault, pytest.mark.full]

E = TypeVar("E", bound=AnyEvent)
FORGETFUL = {
    "transactional.id.expiration.ms": "15000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
COPY_S = 60.0
PARTITIONS = 2
KEPT, FORGOTTEN = "kept", "forgotten"


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    folder = tmp_path_factory.mktemp("expiring")
    clusters = (
        EmbeddedCluster("source", folder / "source"),
        EmbeddedCluster("target", folder / "target", overrides=FORGETFUL),
    )
    with running_clusters(*clusters):
        yield clusters


class Owner:
    """The engine as a copier actor composes it, and all that it has told."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self.events: list[AnyEvent] = []

    def look(self) -> FlowProgress:
        """Take a snapshot and keep its events, which are handed over once."""
        found = self._copier.progress()
        self.events += found.events
        return found

    def told(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        self.look()
        return [one for one in self.events if isinstance(one, kind)]

    def copied(self) -> int:
        """Sum the source offsets of all lanes."""
        return sum(max(0, lane.source_next) for lane in self.look().lanes)


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await pause(0.02)


class Flow:
    """One flow from a configuration, as `raymirror run` reads it."""

    def __init__(self, folder: Path, clusters: dict[str, EmbeddedCluster], topic: str) -> None:
        alias = next(iter(clusters))
        path = write_properties(folder / "mm2.properties", clusters, {f"{alias}->b": topic})
        self.config = load_config(path)
        self.flow = self.config.flows[0]

    async def lanes(self) -> tuple[LaneName, ...]:
        """Make the topics on the target, and name what is to be copied."""
        keeper = TopicService(self.config, self.flow)
        await keeper.open()
        try:
            async with asyncio.timeout(DEADLINE_S):
                while len(lanes := (await keeper.step()).lanes) < PARTITIONS:
                    await pause(0.2)
        finally:
            await keeper.close()
        return lanes

    @asynccontextmanager
    async def owned(self, lanes: tuple[LaneName, ...], epoch: int) -> AsyncIterator[Owner]:
        """Run a copier at an assignment epoch; it is cut off at the end."""
        copier = Copier(self.config, self.flow, copier_id=f"owner-{epoch}", deployment_id="test")
        group = PartitionSet(set_id=f"{self.flow.name}/000", flow=self.flow.name, epoch=epoch, lanes=lanes)
        copier.assign(group)
        running = asyncio.create_task(copier.run())
        try:
            yield Owner(copier)
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_an_id_that_is_kept_alive_still_fences_after_a_minute(
    forgetful: tuple[EmbeddedCluster, EmbeddedCluster], tmp_path: Path
) -> None:
    source, target = forgetful
    await create_topics(source, {KEPT: PARTITIONS})
    flow = Flow(tmp_path, {"a": source, "b": target}, KEPT)
    lanes = await flow.lanes()
    careless = Mirror(source, target, "careless", keep_alive_s=10 * COPY_S)
    await careless.open()
    await careless.topic(FORGOTTEN, PARTITIONS)
    sent = 0

    async def send(count: int) -> None:
        nonlocal sent
        for topic in (KEPT, FORGOTTEN):
            for partition in range(PARTITIONS):
                await produce(source, topic, partition, numbered(count, first=sent))
        sent += count

    async with flow.owned(lanes, epoch=1) as old:
        async with careless.run(drain=False) as run:
            began_at = now_s()
            while now_s() - began_at < COPY_S:
                await send(5)
                await pause(1.0)
            await run.until_copied()
            await until(lambda: old.copied() == sent * PARTITIONS)
        async with flow.owned(lanes, epoch=2) as new:
            await until(lambda: len({one.lane for one in new.told(Resumed)}) == PARTITIONS)
            await send(100)
            await until(lambda: len({one.lane for one in old.told(OwnershipLost)}) == PARTITIONS)
            await until(lambda: new.copied() == sent * PARTITIONS)
            assert new.told(ProducerChanged) == []
            assert old.told(ProducerChanged) == []
    assert (
        len({one.producer_id for one in fenced_appends(target, f"a.{KEPT}", flow.flow.positions_topic)}) == PARTITIONS
    )
    assert await assert_identical(source, target, KEPT, f"a.{KEPT}") == sent * PARTITIONS
    async with careless.run() as run:  # that the broker does forget: the same minute without a sign of life
        await run.until_copied()
        assert len(run.told(ProducerChanged)) == PARTITIONS
    assert await assert_identical(source, target, FORGOTTEN, careless.copied(FORGOTTEN)) == sent * PARTITIONS
