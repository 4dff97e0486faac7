"""New copies in rounds of discovery that ask a broker which does not know them yet."""

from typing import cast
from uuid import UUID

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import AnyEvent, TopicCreated
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata, PartitionMeta, TopicMeta
from engine.kafka.discovery import topics as under_test
from engine.kafka.discovery.copy_checks import CopyChecks
from engine.kafka.discovery.new_copies import Made
from engine.kafka.discovery.topics import Topics
from tests.unit.engine.config_files import flow

PARTITIONS = 4


def metadata(*topics: str, partitions: int = PARTITIONS) -> Metadata:
    led = {number: PartitionMeta(1, 0, (1,)) for number in range(partitions)}
    found = {topic: TopicMeta(0, UUID(int=1), False, led) for topic in topics}
    return Metadata(cluster_id="i", controller=1, brokers={}, topics=found)


class Stage:
    """A flow with the topic `t`; whether the target's controller makes its copy, or says that it is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        nowhere = cast("ClusterClient", None)
        self.topics = Topics(flow(), nowhere, nowhere)
        self.makes = True
        self.events: list[AnyEvent] = []

        self.lost = ""
        self.compared: list[str] = []

        async def create(_source: object, _target: object, _flow: object, topics: list[str], _of: object) -> Made:
            if self.lost in topics:
                raise ConnectionLost("b:1")
            return dict.fromkeys(topics, self.makes)

        async def grow(*_words: object) -> None:
            if not self.makes:
                raise KafkaRefusal("adding partitions", 37, "InvalidPartitions", "")

        async def check(_source: object, _target: object, copies: dict[str, str], _metadata: object) -> CopyChecks:
            self.compared = sorted(copies)
            return CopyChecks()

        monkeypatch.setattr(under_test, "create_copies", create)
        monkeypatch.setattr(under_test, "grow_topic", grow)
        monkeypatch.setattr(under_test, "check_copies", check)

    async def ready(self, known: Metadata | None = None, *, makes: bool) -> int:
        """Look while the broker that is asked knows these copies."""
        self.makes = makes
        return (await self.topics._ready_topics(["t"], metadata("t"), known or metadata(), self.events))["t"]


async def test_a_copy_that_not_every_broker_knows_yet_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    assert await stage.ready(makes=True) == PARTITIONS
    assert await stage.ready(makes=False) == PARTITIONS, "it is no topic that has gone"
    assert await stage.ready(metadata("A.t"), makes=False) == PARTITIONS
    assert [type(event) for event in stage.events] == [TopicCreated]


async def test_a_copy_that_somebody_else_makes_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    assert await stage.ready(makes=False) == 0
    assert await stage.ready(makes=True) == PARTITIONS
    assert await stage.ready(metadata("A.t"), makes=True) == PARTITIONS
    assert await stage.ready(makes=False) == 0, "it was gone for a while, and may have any number of partitions now"


async def test_partitions_that_not_every_broker_knows_yet_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    fewer = metadata("A.t", partitions=PARTITIONS - 1)
    for makes in (True, False, False):
        assert await stage.ready(fewer, makes=makes) == PARTITIONS
    assert [type(event) for event in stage.events] == [TopicCreated], "nothing failed, and it was added once"


async def test_a_topic_of_a_round_that_failed_is_not_compared_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    topics = [f"t-{number:03}" for number in range(TOPICS_AT_ONCE)]
    stage.lost = "u"
    with pytest.raises(ConnectionLost):
        await stage.topics._ready_topics([*topics, "u"], metadata(*topics, "u"), metadata(), stage.events)
    assert len(stage.events) == len(topics), "what was created before is reported"
    assert await stage.ready(makes=True) == PARTITIONS
    assert stage.compared == ["t"], "the source may not have the others any more"
