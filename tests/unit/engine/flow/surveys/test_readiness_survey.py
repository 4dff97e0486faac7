"""What applications would miss on the target, read from two clusters in memory."""

import pytest

from engine.base.errors import KafkaRefusal
from engine.flow.surveys.readiness_survey import Readiness, survey_readiness
from policies.dr.readiness import ClientRules
from policies.groups import GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.settings import FakeSettings

WRITES = Binding(Resource.TOPIC, "t", Pattern.LITERAL, "User:app", "*", Operation.WRITE, Permission.ALLOW)
COMMITS = Binding(Resource.TRANSACTIONAL_ID, "x", Pattern.LITERAL, "User:app", "*", Operation.ALL, Permission.ALLOW)


def pair(*topics: str) -> tuple[FakeSettings, FakeSettings]:
    source, target = FakeSettings("A"), FakeSettings("B")
    for topic in topics:
        source.put(topic, max_message_bytes="1000")
        target.put(topic, max_message_bytes="1000")
    source.bindings, target.bindings = {WRITES, COMMITS}, {WRITES, COMMITS}
    return source, target


async def survey(source: FakeSettings, target: FakeSettings) -> Readiness:
    topics = await source.topics(None)
    selection = TopicSelection(FlowName("A", "B"), DefaultNaming())
    rules = ClientRules(selection=selection, groups=GroupSelection(), copied=frozenset(topics))
    return await survey_readiness(source, target, topics, rules)


async def test_a_target_that_has_everything_is_ready() -> None:
    assert await survey(*pair("t", "u")) == Readiness()


async def test_topics_and_rights_are_compared() -> None:
    source, target = pair("t", "u", "v")
    del target.partitions["t"]
    target.put("u", max_message_bytes="10")
    target.put("v", max_message_bytes="1000", min_insync_replicas="2")
    target.bindings = set()
    found = await survey(source, target)
    assert [(one.name.value, one.subject) for one in found.unready] == [
        ("no-topic", "t"),
        ("smaller-messages", "u"),
        ("too-few-replicas", "v"),
        ("right-missing", "User:app"),
        ("right-missing", "User:app"),
    ]
    assert found.unknown == ()


async def test_a_topic_that_cannot_be_read_is_named_and_hides_no_other() -> None:
    source, target = pair("t", "u", "v")
    source.failing["t"], target.failing["u"] = "denied here", "denied there"
    del target.partitions["v"]
    found = await survey(source, target)
    assert [one.subject for one in found.unready] == ["v"]
    assert found.unknown == ("topic t: denied here", "topic u: denied there")


async def test_a_target_without_an_authorizer_permits_everything() -> None:
    source, target = pair("t")
    target.has_authorizer = False
    assert await survey(source, target) == Readiness()


async def test_without_an_authorizer_on_the_source_nothing_says_who_needs_what() -> None:
    source, target = pair("t")
    source.has_authorizer = False
    (why,) = (await survey(source, target)).unknown
    assert why.startswith("rights: cluster 'A' has no authorizer")


@pytest.mark.parametrize("denied", [0, 1])
async def test_acls_that_may_not_be_read_are_not_known(denied: int) -> None:
    clusters = pair("t")

    def refuse(asked: str) -> None:
        if asked == "acls":
            raise KafkaRefusal("ACLs", 31, "ClusterAuthorizationFailed", "grant Describe")

    clusters[denied].before = refuse
    found = await survey(*clusters)
    assert (found.unready, len(found.unknown)) == ((), 1)
    assert "ClusterAuthorizationFailed" in found.unknown[0]
