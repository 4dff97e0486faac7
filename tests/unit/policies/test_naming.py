"""Names of MM2's replication policies: its own test tables, and the edges of Java's split."""

import pytest

from policies.naming import DefaultNaming, IdentityNaming, naming_for


@pytest.mark.parametrize(
    ("topic", "source", "upstream"),
    [
        ("orders", None, None),
        ("A.orders", "A", "orders"),
        ("A.B.orders", "A", "B.orders"),
        ("a.", None, None),
        ("..", None, None),
        ("a.b..", "a", "b.."),
        (".b", "", "b"),
        ("", None, None),
    ],
)
def test_source_and_upstream_of_a_name(topic: str, source: str | None, upstream: str | None) -> None:
    naming = DefaultNaming()
    assert naming.topic_source(topic) == source
    assert naming.upstream_topic(topic) == upstream


def test_remote_and_original_names_are_inverse() -> None:
    naming = DefaultNaming("__")
    twice = naming.remote_topic("B", naming.remote_topic("A", "orders.eu"))
    assert twice == "B__A__orders.eu"
    assert naming.original_topic(twice) == "orders.eu"


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("heartbeats", True),
        ("source1.heartbeats", True),
        ("source2.source1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("source1heartbeats", False),
        ("source1-heartbeats", False),
    ],
)
def test_heartbeats_topics(topic: str, expected: bool) -> None:
    assert DefaultNaming().is_heartbeats_topic(topic) is expected


def test_a_heartbeats_topic_under_another_separator_is_none() -> None:
    assert not DefaultNaming("_").is_heartbeats_topic("us-west.heartbeats")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("source1.checkpoints.internal", True),
        ("checkpoints.internal", False),
        ("checkpoints-internal", False),
        ("source1.checkpoints.internal!", False),
        ("source1checkpointsinternal", False),
    ],
)
def test_checkpoints_topics(topic: str, expected: bool) -> None:
    assert DefaultNaming().is_checkpoints_topic(topic) is expected


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("__consumer_offsets", True),
        (".hiddentopic", True),
        ("mm2-offsets.CLUSTER.internal", True),
        ("mm2-offsets-CLUSTER-internal", True),
        ("mm2-offsets_CLUSTER_internal", False),
        ("A.checkpoints.internal", True),
        ("raymirror-progress.A.internal", True),
        ("raymirror-quarantine.A.internal", True),
        ("foo.internal", False),
        ("foo-internal", False),
        ("mm2-news", False),
    ],
)
def test_internal_topics_by_the_rule_of_kafka_4(topic: str, expected: bool) -> None:
    assert DefaultNaming().is_internal_topic(topic) is expected


def test_topics_with_fixed_dots_are_internal_under_any_separator() -> None:
    naming = DefaultNaming("__")
    assert naming.is_internal_topic("mm2-offsets.A.internal")
    assert naming.is_internal_topic(naming.offset_syncs_topic("A"))
    assert naming.is_internal_topic(naming.checkpoints_topic("A"))


@pytest.mark.parametrize(
    ("internal", "syncs", "checkpoints"),
    [
        (False, "mm2-offset-syncs.CLUSTER.internal", "CLUSTER.checkpoints.internal"),
        (True, "mm2-offset-syncs__CLUSTER__internal", "CLUSTER__checkpoints__internal"),
    ],
)
def test_separator_of_internal_names(internal: bool, syncs: str, checkpoints: str) -> None:
    naming = DefaultNaming("__", internal_separator=internal)
    assert naming.offset_syncs_topic("CLUSTER") == syncs
    assert naming.checkpoints_topic("CLUSTER") == checkpoints
    assert naming.heartbeats_topic() == "heartbeats"


def test_identity_keeps_data_names_and_prefixes_heartbeats() -> None:
    naming = IdentityNaming("A")
    assert naming.remote_topic("A", "orders") == "orders"
    assert naming.topic_source("orders") == "A"
    assert naming.upstream_topic("orders") == "orders"
    assert naming.original_topic("orders") == "orders"
    assert naming.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert naming.remote_topic("A", "my-heartbeats") == "A.my-heartbeats"
    assert naming.topic_source("heartbeats") is None
    assert naming.topic_source("B.heartbeats") == "B"
    assert naming.upstream_topic("B.heartbeats") == "heartbeats"


@pytest.mark.parametrize("prefix", ["", "org.apache.kafka.connect.mirror."])
def test_policies_by_class_name(prefix: str) -> None:
    default = naming_for(f"{prefix}DefaultReplicationPolicy", "A", "_")
    identity = naming_for(f"{prefix}IdentityReplicationPolicy", "A")
    assert default.remote_topic("A", "t") == "A_t"
    assert identity.remote_topic("A", "t") == "t"


def test_another_policy_class_is_none_of_mm2s() -> None:
    with pytest.raises(ValueError, match=r"'com\.acme\.Policy' is no policy of MM2's"):
        naming_for("com.acme.Policy", "A")
