"""Copies are created by many topics in a request; one that is refused fails alone."""

from collections.abc import Sequence
from typing import cast

import pytest

from engine.base.errors import KafkaRefusal
from engine.kafka.admin import unknown_configs
from engine.kafka.admin.unknown_configs import UnknownConfigs
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.discovery import new_copies as under_test
from engine.kafka.discovery.new_copies import Made, create_copies
from policies.sync.creation import Create
from policies.sync.topic_configs import ConfigEntry
from tests.unit.engine.config_files import flow

TOPIC_CONFIG = 1
Told = dict[str, dict[str, ConfigEntry] | KafkaRefusal]


class Stage:
    """The configs of the source's topics, and copies that the target has, or refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configs: dict[str, str] = {}
        self.gone: set[str] = set()
        self.there: set[str] = set()
        self.refused: set[str] = set()
        self.left_out: set[str] = set()
        self.created: list[dict[str, Create]] = []
        self.unknown = UnknownConfigs()
        self.strange: set[str] = set()
        monkeypatch.setattr(under_test, "describe_each", self.describe_each)
        monkeypatch.setattr(unknown_configs, "create_topics", self.create_topics)

    async def describe_each(self, _client: ClusterClient, topics: Sequence[str]) -> Told:
        own = {
            name: ConfigEntry(value, TOPIC_CONFIG, read_only=False, sensitive=False)
            for name, value in self.configs.items()
        }
        unknown = KafkaRefusal("configs of a topic", 3, "UnknownTopicOrPartition", "")
        return {topic: unknown if topic in self.gone else own for topic in topics}

    async def create_topics(self, _client: ClusterClient, new: dict[str, Create], *, waits: bool) -> Made:
        assert not waits
        self.created.append(dict(new))
        if self.strange & next(iter(new.values())).configs.keys():
            name = f"InvalidConfig: Unknown topic config name: {min(self.strange)}"
            return {topic: KafkaRefusal("creating a topic", 40, name, "") for topic in new}
        refusal = KafkaRefusal("creating a topic", 29, "TopicAuthorizationFailed", "")
        return {
            topic: refusal if topic in self.refused else topic not in self.there
            for topic in new
            if topic not in self.left_out
        }

    async def create(self, **partitions: int) -> Made:
        nowhere = cast("ClusterClient", None)
        return await create_copies(nowhere, nowhere, flow(), list(partitions), partitions, self.unknown)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


async def test_one_request_creates_all_with_the_configs_of_their_sources(stage: Stage) -> None:
    stage.configs = {"retention.ms": "5"}
    assert await stage.create(t=3, u=1) == {"t": True, "u": True}
    assert stage.created == [{"A.t": Create(3, 2, {"retention.ms": "5"}), "A.u": Create(1, 2, {"retention.ms": "5"})}]


async def test_each_topic_has_an_outcome_of_its_own(stage: Stage) -> None:
    stage.gone, stage.there, stage.refused = {"gone"}, {"A.there"}, {"A.refused"}
    made = await stage.create(gone=1, there=1, refused=1, new=1)
    assert (made["there"], made["new"]) == (False, True)
    assert [made[topic].code for topic in ("gone", "refused")] == [3, 29]  # type: ignore[union-attr]


async def test_nothing_is_asked_for_if_no_source_is_left(stage: Stage) -> None:
    stage.gone = {"t"}
    assert isinstance((await stage.create(t=1))["t"], KafkaRefusal)
    assert stage.created == []


async def test_a_request_adds_no_more_records_than_a_controller_takes(stage: Stage) -> None:
    """KRaft controllers count the configs too, and refuse 10,000 records and the 250 topics with them."""
    stage.configs = {f"c.{number}": "1" for number in range(40)}
    topics = {f"t-{number:03}": 8 for number in range(250)}
    made = await stage.create(**topics)
    assert made == dict.fromkeys(topics, True)
    assert len(stage.created) == 2
    assert all(sum(1 + 40 + one.partitions for one in new.values()) <= 10_000 for new in stage.created)


async def test_a_topic_that_an_answer_leaves_out_has_no_outcome(stage: Stage) -> None:
    stage.left_out = {"A.u"}
    assert await stage.create(t=1, u=1) == {"t": True}


async def test_a_config_that_the_target_does_not_know_is_left_out(stage: Stage) -> None:
    stage.configs, stage.strange = {"retention.ms": "5", "brand.new": "6"}, {"brand.new"}
    assert await stage.create(t=1, u=1) == {"t": True, "u": True}
    assert stage.created[-1] == {f"A.{topic}": Create(1, 2, {"retention.ms": "5"}) for topic in ("t", "u")}
    assert stage.unknown.take_new() == {"brand.new": "A.t"}
