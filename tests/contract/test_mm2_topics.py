"""raymirror's topics and positions as MM2 4.3.1's own classes read them, and what MM2 would copy."""

import json
from typing import Any

import pytest

from engine.core.offset_map.map_blocks import map_topic
from engine.core.position.announced_runs import lane_keys
from engine.core.position.position import Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.refused.entries import quarantine_topic
from engine.state.state import events_topic, state_topic
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection

pytestmark = pytest.mark.contract

CONNECT = "org.apache.kafka.connect"
OURS = [state_topic("A"), events_topic("A"), map_topic("A"), quarantine_topic("A"), "raymirror-progress.A.internal"]
POSITION = Position(
    source_next=5_000_000_000,
    target_next=50,
    sequence=7,
    producer_id=41,
    producer_epoch=3,
    runs=((5, 122), (9, 130)),
    assignment_epoch=2,
    deployment_id="d",
)


@pytest.fixture
def converter(java: Any) -> Any:
    """The converter of Connect's own offsets topic: JSON without schemas."""
    made = java.org.apache.kafka.connect.json.JsonConverter()
    made.configure({"schemas.enable": "false", "converter.type": "value"})
    return made


def mirror_utils(java: Any, method: str, *values: Any) -> Any:
    """Call a static method of MM2's MirrorUtils, which Java keeps to its package."""
    types = java.java.lang.Class.forName(f"{CONNECT}.mirror.MirrorUtils")
    found = next(one for one in types.getDeclaredMethods() if one.getName() == method)
    found.setAccessible(True)
    arguments = java.java.util.ArrayList()
    for value in values:
        arguments.append(value)
    return found.invoke(None, arguments.toArray())


@pytest.mark.parametrize("added", [{}, {"zone": "x", "rack": 7}], ids=["this format", "the next one"])
def test_mm2_reads_our_positions_and_ignores_what_is_ours(java: Any, converter: Any, added: dict[str, Any]) -> None:
    value = json.dumps({**json.loads(encode_value(POSITION)), **added}).encode()
    offset = converter.toConnectData("mm2-offsets.A.internal", value).value()
    java.org.apache.kafka.connect.storage.OffsetUtils.validateFormat(offset)  # raises for what Connect refuses
    assert mirror_utils(java, "unwrapOffset", offset) == POSITION.source_next - 1


@pytest.mark.parametrize("partition", [0, 3, 1000])
def test_mm2_looks_a_position_up_by_the_key_that_we_write(java: Any, converter: Any, partition: int) -> None:
    where = mirror_utils(java, "wrapPartition", java.org.apache.kafka.common.TopicPartition("t.x", partition), "A")
    key = java.java.util.ArrayList()
    key.append("MirrorSourceConnector")
    key.append(where)
    found = converter.fromConnectData("mm2-offsets.A.internal", None, key)
    assert bytes(found) == PositionKeys("A").encode(TopicPartition("t.x", partition))


def test_connect_takes_an_announcement_for_the_offset_of_another_connector(java: Any, converter: Any) -> None:
    """Connect looks at the key only: it warns of keys that are not a connector's name and its partition."""
    position_key = PositionKeys("A").encode(TopicPartition("t.x", 3))
    key, connectors = lane_keys(position_key).encode(3), java.java.util.HashMap()
    java.org.apache.kafka.connect.storage.OffsetUtils.processPartitionKey(key, b"\x01", converter, connectors)
    assert [str(name) for name in connectors.keySet()] == ["raymirror"]


@pytest.mark.parametrize("topic", OURS)
def test_an_mm2_beside_us_copies_our_topics_unless_told_not_to(java: Any, topic: str) -> None:
    """KIP-1074: only names that begin with mm2 are MM2's own. So an MM2 that copies `.*` needs an exclusion of ours."""
    policy = java.org.apache.kafka.connect.mirror.DefaultReplicationPolicy()
    policy.configure({})
    assert not policy.isInternalTopic(topic)
    topics = java.org.apache.kafka.connect.mirror.DefaultTopicFilter()
    topics.configure({"topics": ".*"})
    assert topics.shouldReplicateTopic(topic)
    told = java.org.apache.kafka.connect.mirror.DefaultTopicFilter()
    told.configure({"topics": ".*", "topics.exclude": r"mm2.*\.internal,.*\.replica,__.*,raymirror-.*\.internal"})
    assert not told.shouldReplicateTopic(topic)


@pytest.mark.parametrize("topic", OURS)
@pytest.mark.parametrize("separator", [".", "_", "--"])
def test_we_never_copy_our_topics(topic: str, separator: str) -> None:
    selection = TopicSelection(FlowName("B", "C"), DefaultNaming(separator), [".*"], [])
    assert selection.why_not(topic) == "internal topic"
