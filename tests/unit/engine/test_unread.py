"""Known mistakes in `mm2.properties`: what does nothing, and what to write instead."""

import pytest

from engine.unread import explain


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("topics.blacklist", "write topics.exclude"),
        ("A->B.groups.blacklist", "write groups.exclude"),
        ("emit.heartbeats", "emit.heartbeats.enabled"),
        ("A->B.emit.heartbeats", "emit.heartbeats.enabled"),
        ("consumer.client.rack", "write A.consumer.client.rack"),
        ("offset.flush.interval.ms", "write A.offset.flush.interval.ms"),
        ("exactly.once.source.support", "write A.exactly.once.source.support"),
        ("C.bootstrap.servers", "cluster 'C' is not in clusters"),
        ("A->B.enable", "the key is A->B.enabled"),
        ("A->B.producer.acks", "write A->B.producer.override.acks"),
        ("use.defaults.from", "write A->B.use.defaults.from for each flow"),
    ],
)
def test_known_mistakes(key: str, says: str) -> None:
    assert says in (explain(key, ["A", "B"]) or "")


@pytest.mark.parametrize(
    "key",
    ["forwarding.admin.class", "A->B.groups", "A->B.producer.override.linger.ms", "A->B.producer", "A.ssl.x", ""],
)
def test_keys_that_are_only_not_honoured_yet(key: str) -> None:
    assert explain(key, ["A", "B"]) is None
