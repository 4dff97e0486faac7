"""A cluster that does not know some configs: topics are created without these, and it is not asked again and again."""

from collections.abc import Mapping
from typing import cast

import pytest

from engine.base.clock import pause
from engine.base.errors import KafkaRefusal
from engine.kafka.admin import unknown_configs as under_test
from engine.kafka.admin.unknown_configs import CreatedTopics, UnknownConfigs, create_with_known
from engine.kafka.client.cluster import ClusterClient
from policies.sync.creation import Create

KNOWN = {"retention.ms": "5"}


class Target:
    """Answers as a controller does: a topic with a config that it does not know is refused, naming one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.knows = set(KNOWN)
        self.there: set[str] = set()
        self.asked: list[list[str]] = []
        self.unknown = UnknownConfigs()
        self.text = "InvalidConfig: Unknown topic config name: {}"
        monkeypatch.setattr(under_test, "create_topics", self.create_topics)

    async def create_topics(
        self, _client: ClusterClient, new: Mapping[str, Create], *, waits: bool
    ) -> dict[str, bool | KafkaRefusal]:
        assert not waits
        self.asked.append(sorted(new))
        return {topic: self.made(topic, one.configs) for topic, one in new.items()}

    def made(self, topic: str, configs: dict[str, str]) -> bool | KafkaRefusal:
        if strange := sorted(configs.keys() - self.knows):
            return KafkaRefusal(f"creating topic {topic}", 40, self.text.format(strange[0]), "")
        return topic not in self.there

    async def create(self, **topics: dict[str, str]) -> CreatedTopics:
        new = {topic: Create(1, 1, configs) for topic, configs in topics.items()}
        return await create_with_known(cast("ClusterClient", None), new, self.unknown)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)


async def test_a_topic_is_created_without_what_the_cluster_does_not_know(target: Target) -> None:
    made, left_out = await target.create(plain=KNOWN, new={**KNOWN, "new.b": "2", "new.a": "1"})
    assert made == {"plain": True, "new": True}
    assert left_out == {"new": ("new.a", "new.b")}
    assert target.asked == [["new", "plain"], ["new"], ["new"]]
    assert target.unknown.take_new() == {"new.a": "new", "new.b": "new"}


async def test_further_topics_cost_no_further_refusal_until_an_hour_has_passed(target: Target) -> None:
    await target.create(one={"new.a": "1"})
    target.unknown.take_new()
    target.asked.clear()
    for topic in ("two", "three"):
        assert (await target.create(**{topic: {"new.a": "1"}})).left_out == {topic: ("new.a",)}
    assert target.asked == [["two"], ["three"]]
    await pause(3601)
    assert (await target.create(four={"new.a": "1"})).left_out == {"four": ("new.a",)}
    assert target.asked[2:] == [["four"], ["four"]], "it was asked whether it knows the config now"
    assert target.unknown.take_new() == {}, "that was reported"


async def test_a_cluster_that_was_upgraded_gets_the_config_again(target: Target) -> None:
    await target.create(one={"new.a": "1"})
    target.knows.add("new.a")
    assert (await target.create(two={"new.a": "1"})).left_out == {"two": ("new.a",)}
    await pause(3601)
    assert (await target.create(three={"new.a": "1"})).left_out == {}


async def test_a_refusal_for_a_value_stays(target: Target) -> None:
    target.text = "InvalidConfig: Invalid value 1 for configuration {}"
    made, _ = await target.create(one={"new.a": "1"})
    assert isinstance(made["one"], KafkaRefusal)
    assert target.asked == [["one"]]
    assert target.unknown.take_new() == {}


async def test_a_topic_that_is_there_lacks_nothing(target: Target) -> None:
    target.there.add("one")
    assert await target.create(one={"new.a": "1"}) == ({"one": False}, {})
