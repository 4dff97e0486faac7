"""A policy of the user: what it is compared by, and its failures."""

import pytest

from policies.own.own_policy import OwnPolicy, OwnPolicyError
from tests.unit.policies.own.own_classes import Chosen, Unkind


def test_two_of_one_name_and_the_same_settings_are_the_same() -> None:
    one, other = (OwnPolicy("x", {"b": "2", "a": "1"}, Chosen({})) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one.identity == ("x", (("a", "1"), ("b", "2")))
    assert one != OwnPolicy("x", {"a": "1"}, Chosen({}))
    assert one != "x"


def test_an_answer_is_true_or_false() -> None:
    own = OwnPolicy("com.acme.F", {}, Chosen({"my.begin": "o"}))
    assert own.says(own.made.should_replicate_topic, "orders")
    bad = OwnPolicy("com.acme.F", {}, Unkind())
    with pytest.raises(OwnPolicyError) as caught:
        bad.says(bad.made.should_replicate_topic, "orders")
    assert str(caught.value) == ("policy com.acme.F: should_replicate_topic: 1 for 'orders' is neither True nor False")


def test_a_failure_names_the_policy_and_what_it_was_asked() -> None:
    bad = OwnPolicy("com.acme.P", {}, Unkind())
    with pytest.raises(OwnPolicyError) as caught:
        bad.asked(bad.made.upstream_topic, "orders")
    assert str(caught.value) == "policy com.acme.P: upstream_topic: KeyError for 'orders': 'orders'"
