"""Copies of former topics are deleted once, on a stored position's word only, and only where that was asked for."""

from typing import cast
from uuid import UUID

import msgspec
import pytest

from engine.core.events import AnyEvent, CopyDeleted, TopicFailed
from engine.core.position import Position, encode_value
from engine.core.position_keys import PositionKeys
from engine.errors import ConnectionLost, KafkaRefusal
from engine.kafka import renewal
from engine.kafka.cluster import ClusterClient
from engine.kafka.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.renewal import Renewals
from policies.model import TopicPartition
from tests.unit.engine.config_files import flow
from tests.unit.engine.core.positions import position

OLD, NEW, COPY, COPY_AGAIN = (UUID(int=number) for number in (1, 2, 7, 8))


class Cluster:
    """A cluster whose brokers agree about the ids of its topics, or do not."""

    def __init__(self, **ids: UUID) -> None:
        self.ids = ids
        self.agreed = True

    async def settled_id(self, topic: str) -> UUID:
        if not self.agreed:
            raise ConnectionLost("they do not agree")
        return self.ids[topic]

    def metadata(self) -> Metadata:
        led = {0: PartitionMeta(1, 1, (1,))}
        topics = {name: TopicMeta(0, topic_id, False, led) for name, topic_id in self.ids.items()}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=topics)


class Stage:
    """One topic `t`, its copy, and the position of its lane."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rules: str = "re-create") -> None:
        self.source, self.target = Cluster(t=NEW), Cluster(copy=COPY)
        self.deleted: list[str] = []
        self.refusal: KafkaRefusal | None = None
        self.reads = 0
        self.stored: Position | None = msgspec.structs.replace(
            position(5, 5, 0, ()), source_topic_id=str(OLD), target_topic_id=str(COPY)
        )
        settings = flow(f"raymirror.topic.recreated = {rules}\n")
        clients = cast("ClusterClient", self.source), cast("ClusterClient", self.target)
        self.renewals = Renewals(settings, *clients)
        key = PositionKeys("A", settings.connector).encode(TopicPartition("t", 0))

        async def read_topic(_client: object, topic: str) -> list[tuple[bytes | None, bytes | None]]:
            assert topic == settings.positions_topic
            self.reads += 1
            return [(key, None if self.stored is None else encode_value(self.stored))]

        async def delete_topic(_client: object, topic: str) -> None:
            if self.refusal is not None:
                raise self.refusal
            self.deleted.append(topic)

        monkeypatch.setattr(renewal, "read_topic", read_topic)
        monkeypatch.setattr(renewal, "delete_topic", delete_topic)

    async def look(self, *, may_delete: bool = True) -> list[AnyEvent]:
        found = self.source.metadata(), self.target.metadata()
        return await self.renewals.look({"t": "copy"}, *found, may_delete=may_delete)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_the_copy_of_a_former_topic_is_deleted_and_the_new_copy_is_not(stage: Stage) -> None:
    (event,) = await stage.look()
    assert isinstance(event, CopyDeleted)
    assert (event.topic, event.target, event.former, event.present) == ("t", "copy", str(OLD), str(NEW))
    assert stage.deleted == ["copy"]
    stage.target.ids["copy"] = COPY_AGAIN
    for _ in range(3):
        assert await stage.look() == []
    assert stage.deleted == ["copy"]
    assert stage.reads == 2  # what was looked at is not read again


async def test_a_copy_that_a_broker_still_names_is_deleted_once(stage: Stage) -> None:
    """It has not heard of the deletion; another one, for a while, not of the new source topic either."""
    (event,) = await stage.look()
    assert isinstance(event, CopyDeleted)
    for source_id in (NEW, OLD, NEW):
        stage.source.ids["t"] = source_id
        assert await stage.look() == []
    assert stage.deleted == ["copy"]


async def test_nothing_is_deleted_that_no_position_of_ours_names(stage: Stage) -> None:
    stage.stored = None
    assert await stage.look() == []
    stage.renewals._looked_at.clear()
    stage.stored = msgspec.structs.replace(position(5, 5, 0, ()), source_topic_id="", target_topic_id=str(COPY))
    assert await stage.look() == []
    assert stage.deleted == []


async def test_nothing_is_deleted_where_the_flow_is_not_ours_or_brokers_do_not_agree(stage: Stage) -> None:
    assert await stage.look(may_delete=False) == []
    for cluster in (stage.source, stage.target):
        cluster.agreed = False
        assert await stage.look() == []
        cluster.agreed = True
    stage.source.ids["t"] = OLD  # the one that was asked is of the past
    found = Cluster(t=NEW).metadata(), stage.target.metadata()
    assert await stage.renewals.look({"t": "copy"}, *found, may_delete=True) == []
    assert stage.deleted == []


@pytest.mark.parametrize("rules", ["fail", "append", "other@re-create"])
async def test_nothing_is_deleted_or_read_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch, rules: str) -> None:
    stage = Stage(monkeypatch, rules)
    assert await stage.look() == []
    assert (stage.deleted, stage.reads) == ([], 0)


async def test_a_copy_that_is_not_there_or_has_no_id_is_left(stage: Stage) -> None:
    stage.target.ids["copy"] = UUID(int=0)
    assert await stage.look() == []
    del stage.target.ids["copy"]
    assert await stage.look() == []
    assert stage.reads == 0


async def test_what_the_target_refuses_is_told_once(stage: Stage) -> None:
    stage.refusal = KafkaRefusal("deleting topic copy", 29, "TopicAuthorizationFailed", "needed: Delete on topic copy")
    (event,) = await stage.look()
    assert isinstance(event, TopicFailed)
    assert "needed: Delete" in event.what
    assert await stage.look() == []
    stage.refusal = None
    assert [type(one) for one in await stage.look()] == [CopyDeleted]
