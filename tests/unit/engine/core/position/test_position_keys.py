"""The keys of positions in MM2's own bytes."""

import pytest

from engine.core.position.position_keys import PositionKeys
from policies.model import TopicPartition

A = PositionKeys("A")
LANE = TopicPartition("t", 0)
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'


def test_the_key_is_mm2s_byte_for_byte() -> None:
    assert A.encode(LANE) == KEY
    assert A.decode(KEY) == LANE


def test_a_key_is_utf8_without_escapes_as_connect_writes_it() -> None:
    assert PositionKeys("Zürich/1").encode(TopicPartition("t", 12)) == (
        '["MirrorSourceConnector",{"cluster":"Zürich/1","partition":12,"topic":"t"}]'.encode()
    )


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":"0","topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":1,"partition":0,"topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":0}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":true,"topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":"A","partition":0.5,"topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":"B","partition":0,"topic":"t"}]',
        b'["other",{"cluster":"A","partition":0,"topic":"t"}]',
        None,
        b'["MirrorSourceConnector",null]',
        b'["MirrorSourceConnector"]',
        b'{"a":1}',
        b"connector-x",
        b"",
        b"\xff\xfe",
    ],
)
def test_other_keys_of_the_topic_are_not_ours(key: bytes | None) -> None:
    assert A.decode(key) is None


def test_a_connector_of_a_connect_cluster_has_its_own_name() -> None:
    keys = PositionKeys("A", "dr-copy")
    assert keys.encode(LANE) == KEY.replace(b"MirrorSourceConnector", b"dr-copy")
    assert keys.decode(keys.encode(LANE)) == LANE
    assert keys.decode(KEY) is None


def test_other_connectors_are_those_with_positions_of_the_same_source() -> None:
    keys = [
        KEY,
        PositionKeys("A", "x").encode(LANE),
        PositionKeys("A", "x").encode(TopicPartition("u", 1)),
        PositionKeys("B", "y").encode(LANE),
        b'["jdbc",{"table":"t"}]',
        None,
    ]
    assert A.others(keys) == {"x": {LANE, TopicPartition("u", 1)}}
