"""A positions partition whose broker is unreachable hides only its own positions."""

from typing import cast
from uuid import UUID

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.data import positions
from engine.kafka.data.positions import Pairs, PositionsRead, read_positions
from tests.unit.engine.config_files import flow
from tests.unit.engine.kafka.admin.test_flow_clusters import Client

TOPIC = "positions"


class Target(Client):
    """A cluster with a positions topic of some partitions; `away` fail, each with its error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topic: str = TOPIC, partitions: int = 3) -> None:
        super().__init__("B", "two")
        self.topic = topic
        self.partitions = {one: PartitionMeta(1, 3, (1,)) for one in range(partitions)}
        self.away: dict[int, Exception] = {}

        async def read_topic(_client: object, name: str, wanted: set[int] | None = None) -> Pairs:
            assert name == topic
            asked = sorted(self.partitions if wanted is None else wanted)
            for one in asked:
                if one in self.away:
                    raise self.away[one]
            return [(b"%d" % one, b"") for one in asked]

        monkeypatch.setattr(positions, "read_topic", read_topic)

    async def metadata(self, _topics: list[str] | None) -> Metadata:
        return Metadata("two", 1, {}, {self.topic: TopicMeta(0, UUID(int=7), False, self.partitions)})

    async def read(self) -> PositionsRead:
        return await read_positions(cast("ClusterClient", self), self.topic)


async def test_the_partitions_that_answer_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(monkeypatch)
    everything: Pairs = [(b"0", b""), (b"1", b""), (b"2", b"")]
    assert await target.read() == PositionsRead(everything, complete=True)
    target.away = {1: ConnectionLost("no leader")}
    assert await target.read() == PositionsRead([everything[0], everything[2]], complete=False)
    target.away = {one: BrokerUnreachable("h:1", "refused") for one in range(3)}
    with pytest.raises(BrokerUnreachable, match="refused"):
        await target.read()


@pytest.mark.parametrize("first", [ConnectionLost("no leader"), None])
async def test_another_cluster_is_no_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch, first: Exception | None
) -> None:
    target = Target(monkeypatch)
    target.away = {0: first} if first else {}
    target.away[1] = OtherCluster("h:1", "three", "it was two", "look")
    with pytest.raises(OtherCluster):
        await target.read()


async def test_a_topic_that_is_not_there_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await Target(monkeypatch, partitions=0).read() == PositionsRead([], complete=True)


async def test_a_look_that_is_not_complete_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = flow("A->B.topics = t.*\n")
    target = Target(monkeypatch, settings.positions_topic)
    target.away = {1: ConnectionLost("no leader")}
    assert not await check_clusters(settings, None, cast("ClusterClient", target))
    target.away = {}
    assert await check_clusters(settings, None, cast("ClusterClient", target))
