"""Names by a policy of the user, and MM2's where it has none."""

import pytest

from policies.own.own_naming import OwnNaming
from policies.own.own_policy import OwnPolicy, OwnPolicyError
from tests.unit.policies.own.own_classes import Circular, Named, Suffixed, Unkind


def naming(made: object) -> OwnNaming:
    return OwnNaming(OwnPolicy("com.acme.P", {}, made))  # type: ignore[arg-type]  # some are bad on purpose


def test_a_copy_has_the_name_that_the_policy_gives() -> None:
    names = naming(Suffixed({}))
    assert names.remote_topic("A", "orders") == "orders-of-A"
    assert (names.topic_source("orders-of-A"), names.upstream_topic("orders-of-A")) == ("A", "orders")
    assert (names.topic_source("orders"), names.upstream_topic("orders")) == (None, None)
    assert names.original_topic("orders-of-A-of-B") == "orders"
    assert (names.policy, names.shows_source) == ("com.acme.P", False)


def test_what_the_policy_leaves_open_is_mm2s_default() -> None:
    names = naming(Suffixed({}))
    assert names.heartbeats_topic() == "heartbeats"
    assert names.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert names.checkpoints_topic("A") == "A.checkpoints.internal"
    assert names.is_heartbeats_topic("heartbeats-of-A")
    assert names.is_internal_topic("__consumer_offsets")
    assert not names.is_internal_topic("tmp-1")


def test_a_policy_may_name_internal_topics_too() -> None:
    names = naming(Named({}))
    assert (names.heartbeats_topic(), names.offset_syncs_topic("B"), names.checkpoints_topic("A")) == (
        "beats",
        "syncs-B",
        "checkpoints-A",
    )
    assert names.is_heartbeats_topic("beats-of-A")
    assert [names.is_internal_topic(one) for one in ("tmp-1", "__x", "orders")] == [True, True, False]


def test_an_answer_that_cannot_be_used_is_an_error() -> None:
    names = naming(Unkind())
    with pytest.raises(OwnPolicyError, match=r"'A/orders' for .* is not allowed as a topic name"):
        names.remote_topic("A", "orders")
    with pytest.raises(OwnPolicyError, match="7 for 'orders' is no alias"):
        names.topic_source("orders")


def test_a_copy_without_a_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suffixed, "format_remote_topic", lambda *_: None)
    with pytest.raises(OwnPolicyError, match="no name for 'orders'"):
        naming(Suffixed({})).remote_topic("A", "orders")


def test_names_in_a_circle_are_an_error() -> None:
    with pytest.raises(OwnPolicyError, match="'ORDERS' leads back to 'orders'"):
        naming(Circular({})).original_topic("orders")
