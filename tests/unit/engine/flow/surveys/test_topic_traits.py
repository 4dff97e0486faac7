"""What a failback must know of topics, read from two clusters in memory."""

from engine.flow.surveys.topic_traits import topic_traits
from policies.dr.separation import TopicTraits
from tests.fakes.settings import FakeSettings


async def traits(source: FakeSettings, target: FakeSettings) -> dict[str, TopicTraits]:
    topics = await source.topics(None)
    return await topic_traits(source, target, topics, lambda topic: f"A.{topic}", lambda topic: (f"{topic} too",))


def pair() -> tuple[FakeSettings, FakeSettings]:
    return FakeSettings("A"), FakeSettings("B")


async def test_partitions_and_configs_of_both_sides_count() -> None:
    source, target = pair()
    source.put("t", 2, cleanup_policy="compact", delete_retention_ms="500")
    target.put("A.t", 3, cleanup_policy="delete", delete_retention_ms="1000")
    source.put("u", 1, delete_retention_ms="86400000")
    target.put("A.u", 1, cleanup_policy="compact,delete", delete_retention_ms="2000")
    source.put("v", 1, delete_retention_ms="86400000")
    target.put("A.v", 1, cleanup_policy="compact", delete_retention_ms="3000")
    assert await traits(source, target) == {
        "t": TopicTraits(
            source_partitions=2,
            target_partitions=3,
            is_compacted=True,
            is_expiring=True,
            delete_retention_ms=1000,
            source_delete_retention_ms=500,
            feeds=("t too",),
        ),
        "u": TopicTraits(is_compacted=True, is_expiring=True, delete_retention_ms=2000, feeds=("u too",)),
        "v": TopicTraits(is_compacted=True, is_expiring=False, delete_retention_ms=3000, feeds=("v too",)),
    }


async def test_a_topic_that_cannot_be_read_hides_no_other() -> None:
    source, target = pair()
    for topic in ("t", "u", "v", "w"):
        source.put(topic, delete_retention_ms="1000")
        target.put(f"A.{topic}", delete_retention_ms="1000")
    source.failing["t"], target.failing["A.u"] = "denied here", "denied there"
    del target.partitions["A.v"]
    found = await traits(source, target)
    assert [found[topic].unknown for topic in "tuvw"] == [
        "denied here",
        "denied there",
        "its copy A.v does not exist on the target",
        "",
    ]
