"""Aliases of clusters that no stored position names are refused before anything is done there."""

from typing import cast

import msgspec
import pytest

from engine.base.errors import OtherCluster
from engine.core.position.position import encode_value
from engine.kafka.admin import flow_clusters
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.identity import ClusterIdentity
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.positions import PositionsRead
from policies.model import TopicPartition
from tests.unit.engine.config_files import flow
from tests.unit.engine.core.positions import position


class Client:
    """A client of a cluster with an id."""

    def __init__(self, alias: str, cluster_id: str) -> None:
        self.alias, self.cluster_id = alias, cluster_id
        self.left = False
        self.identity = ClusterIdentity(alias)

    async def metadata(self, _topics: list[str] | None) -> Metadata:
        return Metadata(cluster_id=self.cluster_id, controller=1, brokers={}, topics={})

    async def leave(self) -> None:
        self.left = True


class Stage:
    """A flow whose positions were written for clusters `one` and `two`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flow = flow("A->B.topics = t.*\n")
        self.source, self.target = Client("A", "one"), Client("B", "two")
        self.stored: dict[TopicPartition, bytes] = {TopicPartition("t", 0): self.written_for("one", "two")}

        self.complete = True

        async def read_positions(_client: object, topic: str) -> PositionsRead:
            assert topic == self.flow.positions_topic
            encode = self.flow.position_keys.encode
            return PositionsRead([(encode(lane), value) for lane, value in self.stored.items()], self.complete)

        monkeypatch.setattr(flow_clusters, "read_positions", read_positions)

    @staticmethod
    def written_for(source: str, target: str) -> bytes:
        return encode_value(msgspec.structs.replace(position(), source_cluster_id=source, target_cluster_id=target))

    async def check(self, *, with_source: bool = True) -> bool:
        source, target = cast("ClusterClient", self.source), cast("ClusterClient", self.target)
        return await check_clusters(self.flow, source if with_source else None, target)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_the_clusters_of_the_positions_are_let_through(stage: Stage) -> None:
    await stage.check()
    stage.stored = {}
    stage.source.cluster_id = "three"
    await stage.check()  # a first start
    assert not stage.source.left


async def test_another_source_or_target_is_refused_and_left(stage: Stage) -> None:
    stage.source.cluster_id = "three"
    await stage.check(with_source=False)
    with pytest.raises(OtherCluster) as caught:
        await stage.check()
    text = str(caught.value)
    assert "cluster 'A': this is cluster three" in text
    assert "in topic mm2-offsets.A.internal were written for cluster one" in text
    assert "give the new cluster another alias" in text
    assert (stage.source.left, stage.target.left) == (True, False)
    stage.target.cluster_id = "four"
    with pytest.raises(OtherCluster, match="cluster 'B': this is cluster four"):
        await stage.check(with_source=False)
    assert stage.target.left


async def test_positions_of_topics_that_are_not_copied_and_unreadable_ones_say_nothing(stage: Stage) -> None:
    stage.stored = {
        TopicPartition("other", 0): stage.written_for("three", "two"),
        TopicPartition("t", 1): b"?",
    }
    await stage.check()


async def test_a_client_that_has_connected_is_not_asked_again(stage: Stage) -> None:
    stage.source.identity.admit("three", "h:1")
    with pytest.raises(OtherCluster, match="this is cluster three"):
        await stage.check()


async def test_positions_that_cannot_be_read_leave_open_only_what_no_other_one_says(stage: Stage) -> None:
    stage.complete = False
    assert await stage.check()
    stage.stored = {}
    assert not await stage.check()
    stage.complete = True
    assert await stage.check()
