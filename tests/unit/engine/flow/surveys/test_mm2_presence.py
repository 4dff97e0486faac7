"""Whether MM2 runs: by the members of its Connect group, with requests that create nothing."""

import pytest

from engine.base.errors import KafkaRefusal
from engine.flow.ports.ports import GroupListing
from engine.flow.surveys.mm2_presence import Mm2Presence, mm2_presence
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups

GROUP = "A-mm2"
ABSENT = Mm2Presence(active=False)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster("b")
    made.target("__consumer_offsets")
    return made


@pytest.fixture
def groups() -> FakeGroups:
    made = FakeGroups("b")
    made.members.add(GROUP)
    made.listed[GROUP] = GroupListing(GROUP, "connect", "classic")
    return made


async def test_a_connect_group_with_members_is_mm2(cluster: FakeCluster, groups: FakeGroups) -> None:
    assert await mm2_presence(cluster, groups, GROUP) == Mm2Presence(active=True)


async def test_a_group_whose_members_have_left_is_not(cluster: FakeCluster, groups: FakeGroups) -> None:
    groups.members.clear()
    groups.put(GROUP, {TopicPartition("t", 0): 1})
    assert await mm2_presence(cluster, groups, GROUP) == ABSENT


async def test_consumers_that_happen_to_have_its_name_are_not(cluster: FakeCluster, groups: FakeGroups) -> None:
    groups.listed[GROUP] = GroupListing(GROUP, "consumer", "classic")
    assert await mm2_presence(cluster, groups, GROUP) == ABSENT


async def test_a_cluster_without_groups_is_not_asked_for_a_coordinator(groups: FakeGroups) -> None:
    asked: list[str] = []
    groups.before = asked.append
    assert await mm2_presence(FakeCluster("b"), groups, GROUP) == ABSENT
    assert asked == []


async def test_a_cluster_that_hides_its_offsets_topic_is_not_one_without_groups(groups: FakeGroups) -> None:
    cluster, refusal = FakeCluster("b"), KafkaRefusal("topic __consumer_offsets", 29, "TopicAuthorizationFailed", "")
    cluster.hidden["__consumer_offsets"] = refusal
    assert await mm2_presence(cluster, groups, GROUP) == Mm2Presence(active=False, unknown=str(refusal))


async def test_what_may_not_be_asked_is_unknown(cluster: FakeCluster, groups: FakeGroups) -> None:
    groups.failing[GROUP] = "group A-mm2: GroupAuthorizationFailed (30)"
    found = await mm2_presence(cluster, groups, GROUP)
    assert found == Mm2Presence(active=False, unknown="group A-mm2: GroupAuthorizationFailed (30)")


async def test_a_list_that_is_refused_is_unknown(cluster: FakeCluster, groups: FakeGroups) -> None:
    def refuse(asked: str) -> None:
        if asked == "list":
            raise KafkaRefusal("groups of broker 1", 31, "ClusterAuthorizationFailed", "")

    groups.before = refuse
    assert "ClusterAuthorizationFailed" in (await mm2_presence(cluster, groups, GROUP)).unknown
