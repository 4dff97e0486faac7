"""What a preview reads of topics: partitions and configs on both clusters, and who else is fed."""

from engine.services.dr_preview import fed_too, topic_traits
from policies.dr.separation import TopicTraits
from policies.model import FlowName
from tests.fakes.settings import FakeSettings
from tests.unit.engine.config_files import mirror

THIRD = "clusters = A, B, C\nC.bootstrap.servers = c1:9092\n"
BASE = THIRD + "A.bootstrap.servers = a1:9092\nB.bootstrap.servers = b1:9092\nA->B.enabled = true\n"


async def facts(source: FakeSettings, target: FakeSettings, extra: str = "") -> dict[str, TopicTraits]:
    config = mirror(extra, base=BASE)
    flow = config.flow(FlowName("A", "B"))
    return await topic_traits(config, flow, await source.topics(None), source, target)


def pair() -> tuple[FakeSettings, FakeSettings]:
    return FakeSettings("A"), FakeSettings("B")


async def test_partitions_and_configs_of_both_sides_count() -> None:
    source, target = pair()
    source.put("t", 2, cleanup_policy="compact")
    target.put("A.t", 3, cleanup_policy="delete", delete_retention_ms="1000")
    source.put("u", 1)
    target.put("A.u", 1, cleanup_policy="compact,delete", delete_retention_ms="2000")
    source.put("v", 1)
    target.put("A.v", 1, cleanup_policy="compact", delete_retention_ms="3000")
    found = await facts(source, target)
    assert found == {
        "t": TopicTraits(
            source_partitions=2,
            target_partitions=3,
            is_compacted=True,
            is_expiring=True,
            delete_retention_ms=1000,
        ),
        "u": TopicTraits(is_compacted=True, is_expiring=True, delete_retention_ms=2000),
        "v": TopicTraits(is_compacted=True, is_expiring=False, delete_retention_ms=3000),
    }


async def test_a_topic_that_cannot_be_read_hides_no_other() -> None:
    source, target = pair()
    for topic in ("t", "u", "v", "w"):
        source.put(topic)
        target.put(f"A.{topic}", delete_retention_ms="1000")
    source.failing["t"], target.failing["A.u"] = "denied here", "denied there"
    del target.partitions["A.v"]
    found = await facts(source, target)
    assert [found[topic].unknown for topic in "tuvw"] == [
        "denied here",
        "denied there",
        "its copy A.v does not exist on the target",
        "",
    ]


def test_another_flow_feeds_a_third_cluster_if_it_copies_the_topic() -> None:
    config = mirror("A->C.enabled = true\nA->C.topics = orders.*\nC->B.enabled = true\n", base=BASE)
    flow = config.flow(FlowName("A", "B"))
    assert [fed_too(config, flow, topic) for topic in ("orders", "clicks")] == [("C",), ()]
