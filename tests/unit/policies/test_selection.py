"""The topics that a flow copies."""

import pytest

from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.selection import TopicSelection

FLOW = FlowName("A", "B")


def test_everything_but_internal_topics_by_default() -> None:
    selection = TopicSelection(FLOW, DefaultNaming())
    assert selection.wants("orders")
    assert selection.wants("A.orders")
    assert not selection.wants("__consumer_offsets")
    assert not selection.wants("mm2-status.A.internal")
    assert selection.wants("foo.internal")  # KIP-1074: the name of a user
    assert not selection.wants("orders.replica")


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("__consumer_offsets", "internal topic"),
        ("B.orders", "it came from B"),
        ("payments", "not in topics"),
        ("orders-secret", "in topics.exclude"),
        ("orders-eu", None),
        ("heartbeats", None),
    ],
)
def test_why_a_topic_is_not_copied(topic: str, why: str | None) -> None:
    assert TopicSelection(FLOW, DefaultNaming(), ["orders.*"], [".*-secret"]).why_not(topic) == why


def test_patterns_match_whole_names_and_an_empty_list_nothing() -> None:
    assert not TopicSelection(FLOW, DefaultNaming(), ["order"]).wants("orders")
    assert not TopicSelection(FLOW, DefaultNaming(), []).wants("orders")


def test_an_internal_name_is_copied_where_the_exclusion_is_lifted() -> None:
    assert TopicSelection(FLOW, DefaultNaming(), [".*"], []).wants("foo.internal")


@pytest.mark.parametrize("topic", ["B.topic1", "C.B.topic1", "A.B.topic1", "B.A.topic1"])
def test_what_passed_the_target_at_any_hop_is_a_cycle(topic: str) -> None:
    assert TopicSelection(FLOW, DefaultNaming()).is_cycle(topic)


@pytest.mark.parametrize("topic", ["topic1", "A.topic1", "C.topic1", "C.D.topic1"])
def test_what_did_not_is_none(topic: str) -> None:
    assert not TopicSelection(FLOW, DefaultNaming()).is_cycle(topic)


def test_identity_sees_cycles_of_heartbeats_only() -> None:
    selection = TopicSelection(FLOW, IdentityNaming("A"))
    assert selection.wants("B.topic1")
    assert selection.wants("heartbeats")
    assert selection.wants("C.heartbeats")
    assert not selection.wants("B.heartbeats")
    assert not selection.wants("C.B.heartbeats")
    assert TopicSelection(FLOW, IdentityNaming("B")).is_cycle("anything")


def test_heartbeats_pass_every_filter_unless_switched_off() -> None:
    assert TopicSelection(FLOW, DefaultNaming(), [], [".*"]).wants("us-west.heartbeats")
    assert not TopicSelection(FLOW, DefaultNaming("_"), [], []).wants("us-west.heartbeats")
    assert not TopicSelection(FLOW, DefaultNaming(), [], [], heartbeats=False).wants("heartbeats")
    assert TopicSelection(FLOW, DefaultNaming(), [".*"], [], heartbeats=False).wants("heartbeats")


def test_target_names() -> None:
    assert TopicSelection(FLOW, DefaultNaming()).target_topic("orders") == "A.orders"
    assert TopicSelection(FLOW, IdentityNaming("A")).target_topic("orders") == "orders"


def test_the_positions_topic_is_never_copied() -> None:
    selection = TopicSelection(FLOW, IdentityNaming("A"), exclude=[], never=["positions"])
    assert selection.why_not("positions") == "internal topic"
    assert selection.wants("positions-2")
