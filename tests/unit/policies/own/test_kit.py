"""The kit finds what raymirror could not use, in policies and in filters."""

from functools import partial

import pytest

from policies.own.kit import (
    problems_of,
    problems_of_config_filter,
    problems_of_group_filter,
    problems_of_policy,
    problems_of_topic_filter,
)
from policies.own.protocols import ConfigPropertyFilter, GroupFilter, ReplicationPolicy, TopicFilter
from tests.unit.policies.own.own_classes import Chosen, Circular, Named, Suffixed, Unkind


@pytest.mark.parametrize("policy", [Suffixed({}), Named({"replication.policy.word": "from"})])
def test_a_good_policy_has_no_problems(policy: Suffixed) -> None:
    assert problems_of_policy(policy) == problems_of(policy, ReplicationPolicy) == []


@pytest.mark.parametrize("kind", [TopicFilter, GroupFilter, ConfigPropertyFilter])
def test_a_good_filter_has_no_problems(kind: type) -> None:
    assert problems_of(Chosen({}), kind) == []
    assert problems_of_topic_filter(Chosen({})) == problems_of_group_filter(Chosen({})) == []
    assert problems_of_config_filter(Chosen({})) == []


def test_a_missing_method_is_named() -> None:
    assert problems_of(Chosen({}), ReplicationPolicy) == [
        "has no method format_remote_topic",
        "has no method topic_source",
        "has no method upstream_topic",
    ]
    assert problems_of(Suffixed({}), GroupFilter) == ["has no method should_replicate_group"]


def test_answers_that_cannot_be_used_are_named() -> None:
    assert "not allowed as a topic name" in problems_of(Unkind(), ReplicationPolicy)[0]
    assert problems_of(Unkind(), TopicFilter) == [
        "policy Unkind: should_replicate_topic: 1 for 'orders' is neither True nor False"
    ]
    assert problems_of(Circular({}), ReplicationPolicy)[-1].endswith("leads back to 'orders-of-A'")


class Merging(Suffixed):
    """All topics into one; and the wrong way back."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return "all"

    def topic_source(self, topic: str) -> str | None:
        return "C"

    def upstream_topic(self, topic: str) -> str | None:
        return "one" if topic == "all" else None


def test_names_that_lose_or_invent_something_are_named() -> None:
    found = problems_of_policy(Merging({}), topics=["a", "b"])
    assert "format_remote_topic: 'b' and 'a' both become 'all'" in found
    assert "topic_source: 'all' comes from 'A', not 'C'" in found
    assert "upstream_topic: 'all' is the copy of 'a', not 'one'" in found


class Stateful(Suffixed):
    """Answers otherwise after a pickle."""

    def __reduce__(self) -> tuple[type, tuple[dict[str, str]]]:
        return type(self), ({"replication.policy.word": "by", "my.begin": "x"},)

    def should_replicate_topic(self, topic: str) -> bool:
        return self.word == "of"


class Forgetful(Chosen):
    """Has lost something after a pickle."""

    def __getstate__(self) -> dict[str, str]:
        return {"other": "x"}


def test_a_copy_that_fails_is_not_the_same() -> None:
    assert "something else about 'orders'" in problems_of_topic_filter(Forgetful({}))[0]


def test_what_is_called_needs_no_name() -> None:
    odd = Chosen({})
    odd.should_replicate_topic = partial(int)  # type: ignore[assignment]  # a user may write that
    (found,) = problems_of_topic_filter(odd)
    assert found.startswith("policy Chosen: partial: ValueError for 'orders'")


def test_what_is_not_the_same_in_another_process_is_named() -> None:
    assert "another name for 'orders'" in problems_of_policy(Stateful({}))[0]
    assert "something else about 'orders'" in problems_of_topic_filter(Stateful({}))[0]
    odd = Chosen({})
    odd.begin = lambda: "x"  # type: ignore[assignment]  # cannot be pickled
    policy = Suffixed({})
    policy.open = lambda: None  # type: ignore[attr-defined]
    assert problems_of_policy(policy)[0].startswith("cannot be pickled")
    assert problems_of_topic_filter(odd)[0].startswith("cannot be pickled")
