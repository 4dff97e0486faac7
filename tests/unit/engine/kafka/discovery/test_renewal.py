"""Copies of previous topics are deleted once, only because of a stored position, and only on request."""

from typing import cast
from uuid import UUID

import msgspec
import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import AnyEvent, CopyDeleted, CopyKept, TopicFailed
from engine.core.position.position import Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.identity import ClusterIdentity
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.discovery import renewal
from engine.kafka.discovery.renewal import _UNSURE_ROUNDS, Renewals
from policies.model import TopicPartition
from tests.unit.engine.config_files import flow
from tests.unit.engine.core.positions import position

OLD, NEW, COPY, COPY_AGAIN, OTHER = (UUID(int=number) for number in (1, 2, 7, 8, 9))


U = TopicPartition("u", 0)


class Cluster:
    """A cluster whose brokers agree about the ids of its topics, or do not."""

    def __init__(self, cluster_id: str, **ids: UUID) -> None:
        self.ids = ids
        self.agreed = True
        self.epoch = 3
        self.identity = ClusterIdentity("a")
        self.identity.admit(cluster_id, "h:1")

    async def settled_id(self, topic: str) -> UUID:
        if not self.agreed:
            raise ConnectionLost("they do not agree")
        return self.ids[topic]

    def metadata(self) -> Metadata:
        led = {0: PartitionMeta(1, self.epoch, (1,))}
        topics = {name: TopicMeta(0, topic_id, False, led) for name, topic_id in self.ids.items()}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=topics)


class Stage:
    """One topic `t`, its copy, the position of its lane, and that of another topic `u` which is the same as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rules: str = "re-create") -> None:
        self.source, self.target = Cluster("one", t=NEW, u=OTHER), Cluster("two", copy=COPY)
        self.ends: dict[TopicPartition, int] | Exception = {U: 5}
        self.deleted: list[str] = []
        self.refusal: Exception | None = None
        self.reads = 0
        ids = {"source_cluster_id": "one", "target_cluster_id": "two", "source_leader_epoch": 3}
        written = msgspec.structs.replace(position(5, 5, 0, ()), **ids)
        self.stored: Position | None = msgspec.structs.replace(
            written, source_topic_id=str(OLD), target_topic_id=str(COPY)
        )
        self.other: Position | None = msgspec.structs.replace(written, source_topic_id=str(OTHER))
        settings = flow(f"raymirror.topic.recreated = {rules}\n")
        clients = cast("ClusterClient", self.source), cast("ClusterClient", self.target)
        self.renewals = Renewals(settings, *clients)
        keys = PositionKeys("A", settings.connector)
        key, other_key = keys.encode(TopicPartition("t", 0)), keys.encode(U)

        async def read_topic(_client: object, topic: str) -> list[tuple[bytes | None, bytes | None]]:
            assert topic == settings.positions_topic
            self.reads += 1
            both = (key, self.stored), (other_key, self.other)
            return [(key, None if stored is None else encode_value(stored)) for key, stored in both]

        async def list_offsets(_client: object, lanes: list[TopicPartition], _at: int) -> dict[TopicPartition, int]:
            assert lanes == [U]
            if isinstance(self.ends, Exception):
                raise self.ends
            return self.ends

        async def delete_topic_by_id(_client: object, topic: str, topic_id: UUID) -> None:
            if self.refusal is not None:
                raise self.refusal
            assert topic_id == self.target.ids[topic], "a copy that was created since stays"
            self.deleted.append(topic)

        monkeypatch.setattr(renewal, "read_topic", read_topic)
        monkeypatch.setattr(renewal, "delete_topic_by_id", delete_topic_by_id)
        monkeypatch.setattr(renewal, "list_offsets", list_offsets)

    async def look(self, *, may_delete: bool = True) -> list[AnyEvent]:
        found = self.source.metadata(), self.target.metadata()
        copies = {"t": "copy"} if "t" in self.source.ids else {}
        return await self.renewals.check(copies, *found, may_delete=may_delete)

    async def kept(self) -> str:
        """Look twice: nothing is deleted, and why is told once. Return why."""
        (event,) = [*await self.look(), *await self.look()]
        assert isinstance(event, CopyKept)
        assert self.deleted == []
        assert "delete topic copy on B by hand" in event.text()
        return event.what


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
    stage.renewals._unsure.clear()
    stage.source.ids["t"] = OLD  # the one that was asked is of the past
    found = Cluster("one", t=NEW, u=OTHER).metadata(), stage.target.metadata()
    assert await stage.renewals.check({"t": "copy"}, *found, may_delete=True) == []
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


async def test_a_deletion_without_an_answer_is_looked_at_again(stage: Stage) -> None:
    stage.refusal = ConnectionLost("b:1: no answer within 30 s")
    assert await stage.look() == [], "events of other topics of the round are not lost with it"
    stage.refusal = None
    (event,) = await stage.look()
    assert isinstance(event, CopyDeleted)


async def test_what_the_target_refuses_is_told_once(stage: Stage) -> None:
    stage.refusal = KafkaRefusal("deleting topic copy", 29, "TopicAuthorizationFailed", "needed: Delete on topic copy")
    (event,) = await stage.look()
    assert isinstance(event, TopicFailed)
    assert "needed: Delete" in event.what
    assert await stage.look() == []
    stage.refusal = None
    assert [type(one) for one in await stage.look()] == [CopyDeleted]


# --- another cluster, or an earlier state of the same one ----------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("three", "two", "written for source cluster one, but this is cluster three"),
        ("one", "three", "written for target cluster two, but this is cluster three"),
        ("", "two", "the source cluster reports no cluster id"),
    ],
)
async def test_nothing_is_deleted_on_the_word_of_another_cluster(
    stage: Stage, source: str, target: str, why: str
) -> None:
    stage.source.identity.id, stage.target.identity.id = source, target
    assert why in await stage.kept()


async def test_nothing_is_deleted_where_no_other_topic_is_still_the_same(stage: Stage) -> None:
    stage.source.ids["u"] = UUID(int=99)
    assert "no other topic of the source" in await stage.kept()
    stage.source.ids["u"] = OTHER
    assert [type(one) for one in await stage.look()] == [CopyDeleted]


async def test_a_topic_that_was_seen_beside_the_former_one_speaks_for_the_cluster(stage: Stage) -> None:
    stage.other = None
    stage.source.ids["t"] = OLD
    assert await stage.look() == []
    del stage.source.ids["t"]
    assert await stage.look() == []
    stage.source.ids["t"] = NEW
    assert [type(one) for one in await stage.look()] == [CopyDeleted]
    stage.stored = None  # the copy is made anew, and its lane begins there
    stage.target.ids["copy"] = COPY_AGAIN
    assert await stage.look() == []
    assert stage.deleted == ["copy"]


async def test_what_was_seen_before_all_topics_changed_says_nothing(stage: Stage) -> None:
    stage.other = None
    stage.source.ids["t"] = OLD
    assert await stage.look() == []
    del stage.source.ids["t"]
    stage.source.ids["u"] = UUID(int=99)
    assert await stage.look() == []
    stage.source.ids["t"] = NEW
    assert "no other topic of the source" in await stage.kept()


async def test_a_topic_that_comes_back_under_a_former_id_is_of_a_restored_cluster(stage: Stage) -> None:
    assert [type(one) for one in await stage.look()] == [CopyDeleted]
    stage.deleted.clear()
    assert stage.stored is not None
    ids = {"source_topic_id": str(NEW), "target_topic_id": str(COPY_AGAIN)}
    stage.stored = msgspec.structs.replace(stage.stored, **ids)
    stage.source.ids["t"], stage.target.ids["copy"] = OLD, COPY_AGAIN
    assert "was replaced before" in await stage.kept()


async def test_nothing_is_deleted_where_another_topic_has_less_than_was_copied_of_it(stage: Stage) -> None:
    stage.ends = {U: 4}
    assert "u-0 ends at offset 4 on the source" in await stage.kept()
    stage.ends, stage.source.epoch = {U: 5}, 2
    (event,) = await stage.look()
    assert isinstance(event, CopyKept)
    assert "u-0 has leader epoch 2" in event.what
    assert stage.deleted == []


async def test_what_cannot_be_asked_for_long_is_told(stage: Stage) -> None:
    stage.ends = ConnectionLost("u-0 has no leader")
    for _ in range(_UNSURE_ROUNDS - 1):
        assert await stage.look() == []
    assert "u-0 has no leader" in await stage.kept()
    stage.ends = {U: 5}
    assert [type(one) for one in await stage.look()] == [CopyDeleted]
