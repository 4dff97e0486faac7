"""A source that is another cluster, or an earlier state of itself: nothing is deleted or overwritten on the target."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.formatting import new_kafka_id
from engine.base.errors import ConnectionLost, KafkaRefusal, MirrorError, OtherCluster
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.core.events.events import (
    AnyEvent,
    ClusterChanged,
    CopyDeleted,
    CopyKept,
    IdentityChanged,
    LaneRefused,
    SourceGap,
    TopicCreated,
    TopicRenewed,
)
from engine.flow.config_sync.planning import Scope
from engine.services.config_service import config_sync
from engine.services.runner import Copier, options_for
from engine.services.topic_service import TopicService
from policies.model import PartitionSet
from tests.conftest import Pair
from tests.harness.admin import create_topics, delete_topic, set_configs
from tests.harness.beside import beside
from tests.harness.compare import read_topic
from tests.harness.eventually import until
from tests.harness.load import Sent, numbered, produce
from tests.harness.mirror import DEADLINE_S, Mirror

pytestmark = pytest.mark.integration

OLD, NEW = numbered(100), numbered(10, first=500)
TOPICS = ("moved", "quiet")


class Moving:
    """A cluster of one broker whose data may be replaced: by nothing, by another cluster's, by its own of before."""

    def __init__(self, folder: Path) -> None:
        self.cluster = EmbeddedCluster("moving", folder / "moving")
        self._kept = folder / "kept"

    @property
    def _data(self) -> Path:
        return self.cluster.brokers[0].data_folder

    def wipe(self, cluster_id: str = "") -> None:
        """Begin with nothing, under another cluster id or the one that is given."""
        self.cluster.stop()
        shutil.rmtree(self._data)
        self.cluster.brokers[0]._cluster_id = self.cluster.cluster_id = cluster_id or new_kafka_id()
        self.cluster.start()

    def keep(self) -> None:
        """Take a snapshot."""
        self.cluster.stop()
        shutil.copytree(self._data, self._kept)
        self.cluster.start()

    def restore(self) -> None:
        """Go back to the snapshot."""
        self.cluster.stop()
        shutil.rmtree(self._data)
        shutil.move(self._kept, self._data)
        self.cluster.start()


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    made = Moving(tmp_path_factory.mktemp("moving"))
    made.cluster.start()
    try:
        yield made
    finally:
        made.cluster.stop()


class Flow:
    """A mirror of two topics whose copies are made again where their topics are, as the metadata actor keeps it."""

    def __init__(self, alias: str, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        self.alias, self.target = alias, target
        self.config = self._config(source)
        self.mirror = Mirror(source, target, alias, faults=options_for(self.config.flows[0], "test").faults)
        self.topics = tuple(f"{topic}-{alias}" for topic in TOPICS)

    def _config(self, source: EmbeddedCluster) -> MirrorConfig:
        alias = self.alias
        text = (
            f"clusters = {alias}, b\n{alias}.bootstrap.servers = {source.bootstrap_servers}\n"
            f"b.bootstrap.servers = {self.target.bootstrap_servers}\n{alias}->b.enabled = true\n"
            f"{alias}->b.topics = .*-{alias}\n{alias}->b.emit.offset-syncs.enabled = false\nreplication.factor = 1\n"
            "offset.storage.partitions = 2\noffset.storage.replication.factor = 1\n"
            "raymirror.topic.recreated = re-create\n"
        )
        return read_config(parse_properties(text, "mm2.properties"))

    def point_at(self, source: EmbeddedCluster) -> None:
        """Let the alias name another cluster from now on."""
        self.config = self._config(source)
        self.mirror.source, self.mirror.source_servers = source, source.bootstrap_servers

    async def begin(self) -> None:
        """Copy both topics."""
        await self.mirror.open()
        for topic in self.topics:
            await self.mirror.topic(topic)
            await produce(self.mirror.source, topic, 0, OLD)
        await self.copy()

    async def copy(self) -> None:
        async with self.mirror.run() as run:
            await run.until_copied()

    async def renew(self, cluster: EmbeddedCluster) -> None:
        """Make topics of the same names on another cluster."""
        await create_topics(cluster, dict.fromkeys(self.topics, 1))
        for topic in self.topics:
            await produce(cluster, topic, 0, NEW)

    async def rounds(self, count: int = 3) -> tuple[list[AnyEvent], str]:
        """Make rounds of discovery by a keeper that has the flow; return what they told, and how the last failed."""
        keeper, told, failure = TopicService(self.config, self.config.flows[0]), list[AnyEvent](), ""
        keeper.may_delete = lambda: True
        try:
            await keeper.open()
            for _ in range(count):
                try:
                    told += (await keeper.step()).events
                except MirrorError as error:
                    failure = str(error)
        finally:
            await keeper.close()
        return told, failure

    async def until_deleted(self, copy: str) -> list[CopyDeleted]:
        """Make rounds until a copy was deleted and made again."""
        keeper, deleted, made = TopicService(self.config, self.config.flows[0]), list[CopyDeleted](), False
        keeper.may_delete = lambda: True
        await keeper.open()
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (deleted and made):
                    with suppress(ConnectionLost, KafkaRefusal):  # brokers that have not all heard yet
                        for one in (await keeper.step()).events:
                            deleted += [one] if isinstance(one, CopyDeleted) else []
                            made |= bool(deleted) and isinstance(one, TopicCreated) and one.target == copy
        finally:
            await keeper.close()
        return deleted

    async def assert_copies(self, *expected: Sent) -> None:
        for topic in self.topics:
            found = (await read_topic(self.target, self.mirror.copied(topic)))[0]
            assert [one.value for one in found] == [one.value for one in expected]


async def test_an_alias_that_names_another_cluster_deletes_no_copy(cluster_pair: Pair, moving: Moving) -> None:
    flow = Flow("repointed", *cluster_pair)
    await flow.begin()
    was = flow.mirror.source.cluster_id
    await flow.renew(moving.cluster)
    flow.point_at(moving.cluster)
    told, failure = await flow.rounds()
    assert not told
    assert was in failure
    assert moving.cluster.cluster_id in failure
    async with flow.mirror.run(drain=False) as run:
        event = await run.until_told(IdentityChanged)
        assert (event.what, event.expected) == ("the source cluster's id", was)
        assert event.found == moving.cluster.cluster_id
    await flow.assert_copies(*OLD)


async def test_a_cluster_that_takes_the_place_of_the_source_while_we_run_is_not_touched_or_believed(
    cluster_pair: Pair, moving: Moving
) -> None:
    flow = Flow("replaced", moving.cluster, cluster_pair.target)
    await flow.begin()
    was, settings = moving.cluster.cluster_id, flow.config.flows[0]
    keeper = TopicService(flow.config, settings)
    keeper.may_delete = lambda: True
    copier = Copier(flow.config, settings, copier_id="copier-1", deployment_id="test")
    lanes = PartitionSet(set_id=f"{settings.name}/000", flow=settings.name, epoch=9, lanes=flow.mirror.lanes)
    async with config_sync(flow.config, settings, "test") as sync, beside(copier.run()):
        await keeper.open()
        assert len((await keeper.step()).lanes) == 2
        assert not (await sync.compare(Scope())).unread
        copier.assign(lanes)
        told: list[AnyEvent] = []

        def states() -> set[str]:
            progress = copier.progress()
            told.extend(progress.events)
            return {lane.state for lane in progress.lanes}

        await until(lambda: states() == {"copying"}, "the lanes to copy")
        moving.wipe()
        await flow.renew(moving.cluster)
        for topic in flow.topics:
            await set_configs(moving.cluster, topic, {"retention.ms": "1000"})

        def changed() -> list[ClusterChanged]:
            states()
            return [one for one in told if isinstance(one, ClusterChanged)]

        await until(lambda: bool(changed()), "the copier to see another cluster")
        assert (changed()[0].cluster, changed()[0].found) == ("replaced", moving.cluster.cluster_id)
        with pytest.raises(OtherCluster, match=was):
            await keeper.step()
        with pytest.raises(OtherCluster, match=was):
            await sync.compare(Scope())
        assert len(changed()) == 1
        assert not [one for one in told if isinstance(one, TopicRenewed | CopyDeleted)]
        await keeper.close()
    await flow.assert_copies(*OLD)


@pytest.mark.full
async def test_a_source_wiped_under_a_constant_cluster_id_deletes_no_copy(cluster_pair: Pair, moving: Moving) -> None:
    """Some images ship one cluster id: a broker without its volume is another cluster under the same id."""
    flow = Flow("constant", moving.cluster, cluster_pair.target)
    await flow.begin()
    moving.wipe(moving.cluster.cluster_id)
    await flow.renew(moving.cluster)
    told, _ = await flow.rounds()
    assert not [one for one in told if isinstance(one, CopyDeleted)]
    kept = {one.topic: one for one in told if isinstance(one, CopyKept)}
    assert kept.keys() == set(flow.topics)
    assert "no other topic" in kept[flow.topics[0]].what
    await flow.assert_copies(*OLD)


@pytest.mark.full
async def test_a_source_restored_from_a_snapshot_deletes_no_copy(cluster_pair: Pair, moving: Moving) -> None:
    """The snapshot has the cluster id, and for one topic the id from before it was made again."""
    flow = Flow("restored", moving.cluster, cluster_pair.target)
    await flow.begin()
    moving.keep()
    made_again, other = flow.topics
    await delete_topic(moving.cluster, made_again)
    await create_topics(moving.cluster, {made_again: 1})
    for topic in flow.topics:
        await produce(moving.cluster, topic, 0, NEW)
    deleted = await flow.until_deleted(flow.mirror.copied(made_again))
    assert [one.topic for one in deleted] == [made_again]
    await flow.copy()
    moving.restore()
    told, _ = await flow.rounds()
    assert not [one for one in told if isinstance(one, CopyDeleted)]
    (kept,) = (one for one in told if isinstance(one, CopyKept))
    assert kept.topic == made_again
    assert f"{other}-0 ends at offset 100" in kept.what
    async with flow.mirror.run(drain=False) as run:
        gap = await run.until_told(SourceGap, other)
        assert (gap.first, gap.last) == (100, 109)
        await run.until(lambda: "waits until" in run.lane(made_again).reason, "the lane to wait")
    copies = [await read_topic(cluster_pair.target, flow.mirror.copied(topic)) for topic in flow.topics]
    assert [len(copy[0]) for copy in copies] == [10, 110]


@pytest.mark.full
@pytest.mark.parametrize("beyond", [True, False], ids=["with more records", "with fewer records"])
async def test_a_restored_source_with_leaders_of_former_epochs_stops_the_lane_and_says_so(
    cluster_pair: Pair, moving: Moving, beyond: bool
) -> None:
    flow = Flow(f"older{beyond}".lower(), moving.cluster, cluster_pair.target)
    await flow.begin()
    moving.keep()
    for _ in range(2):  # each start raises the leader epochs
        moving.cluster.stop()
        moving.cluster.start()
    for topic in flow.topics:
        await produce(moving.cluster, topic, 0, NEW)
    await flow.copy()
    moving.restore()
    if beyond:
        for topic in flow.topics:
            await produce(moving.cluster, topic, 0, numbered(200, first=1000))
    async with flow.mirror.run(drain=False) as run:
        event = await run.until_told(LaneRefused, flow.topics[0])
        assert "restored from an earlier state" in event.what
    await flow.assert_copies(*OLD, *NEW)
