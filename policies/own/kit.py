"""Tests a policy or a filter of a user: everything that raymirror relies on. For the user's own tests, and for `check`.

from policies.own.kit import problems_of_policy

def test_my_policy() -> None:
assert problems_of_policy(MyPolicy({"prefix": "eu-"}), topics=["orders", "clicks"]) == []
"""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from policies.own.own_naming import OwnNaming
from policies.own.own_policy import OwnPolicy, OwnPolicyError
from policies.own.protocols import METHODS, ConfigPropertyFilter, GroupFilter, ReplicationPolicy, TopicFilter

TOPICS = ("orders", "orders.eu", "A.orders", "B.A.orders", "heartbeats", "A.heartbeats", "x-1_2", "ORDERS", "a.b.c")
GROUPS = ("billing", "billing-eu", "console-consumer-1", "a.b", "Ünïcode group")
CONFIGS = ("retention.ms", "cleanup.policy", "min.insync.replicas", "my.own.config")
_FILTERS: dict[type, Sequence[str]] = {TopicFilter: TOPICS, GroupFilter: GROUPS, ConfigPropertyFilter: CONFIGS}


def problems_of_policy(policy: ReplicationPolicy, source_alias: str = "A", topics: Sequence[str] = TOPICS) -> list[str]:
    """Return what is wrong with a replication policy, for copies of some topics of a source; empty: nothing found."""
    if missing := _missing(policy, ReplicationPolicy):
        return missing
    try:
        return list(_of_naming(OwnNaming(OwnPolicy(type(policy).__name__, {}, policy)), policy, source_alias, topics))
    except OwnPolicyError as error:
        return [str(error)]


def problems_of_topic_filter(chooser: TopicFilter, topics: Sequence[str] = TOPICS) -> list[str]:
    """Return what is wrong with a topic filter."""
    return _of_filter(chooser, TopicFilter, topics)


def problems_of_group_filter(chooser: GroupFilter, groups: Sequence[str] = GROUPS) -> list[str]:
    """Return what is wrong with a group filter."""
    return _of_filter(chooser, GroupFilter, groups)


def problems_of_config_filter(chooser: ConfigPropertyFilter, configs: Sequence[str] = CONFIGS) -> list[str]:
    """Return what is wrong with a config property filter."""
    return _of_filter(chooser, ConfigPropertyFilter, configs)


def problems_of(made: object, kind: type, source_alias: str = "A") -> list[str]:
    """Return what is wrong with a policy or filter of some kind (a class of `protocols`)."""
    if kind is ReplicationPolicy:
        return problems_of_policy(made, source_alias)  # type: ignore[arg-type]  # the kit finds out
    return _of_filter(made, kind, _FILTERS[kind])


def _missing(made: object, kind: type) -> list[str]:
    return [f"has no method {name}" for name in METHODS[kind] if not callable(getattr(made, name, None))]


def _of_filter(made: object, kind: type, names: Sequence[str]) -> list[str]:
    if missing := _missing(made, kind):
        return missing
    own, again = OwnPolicy(type(made).__name__, {}, made), _again(made)
    found: list[str] = [] if again is not None else [_UNPICKLED]
    for method in METHODS[kind]:
        for name in names:
            try:
                said = own.says(getattr(made, method), name)
            except OwnPolicyError as error:
                found.append(str(error))
                break
            if again is not None and said is not _said_by(again, method, name):
                found.append(f"{method}: its copy by pickle says something else about {name!r}")
                break
    return found


def _of_naming(naming: OwnNaming, policy: ReplicationPolicy, source_alias: str, topics: Sequence[str]) -> Iterator[str]:
    again, sources = _again(policy), dict[str, str]()
    if again is None:
        yield _UNPICKLED
    for topic in topics:
        remote = naming.remote_topic(source_alias, topic)
        if remote in sources:
            yield f"format_remote_topic: {topic!r} and {sources[remote]!r} both become {remote!r}"
        sources[remote] = topic
        if again is not None and _said_by(again, "format_remote_topic", source_alias, topic) != remote:
            yield f"format_remote_topic: its copy by pickle has another name for {topic!r}"
        source, upstream = naming.topic_source(remote), naming.upstream_topic(remote)
        if source not in (None, source_alias):
            yield f"topic_source: {remote!r} comes from {source_alias!r}, not {source!r}"
        if upstream not in (None, topic):
            yield f"upstream_topic: {remote!r} is the copy of {topic!r}, not {upstream!r}"
        naming.original_topic(remote)
    naming.checkpoints_topic(source_alias)
    naming.offset_syncs_topic(source_alias)
    naming.heartbeats_topic()


_UNPICKLED = "cannot be pickled, as Spark does it: define it in a module, without open files or lambdas"


def _said_by(copy: Any, method: str, *arguments: str) -> object:
    """Return what a copy answers; what it raises is an answer too, and never the right one."""
    try:
        return getattr(copy, method)(*arguments)
    except Exception as error:  # noqa: BLE001 - a class of the user may raise anything
        return error


def _again(made: object) -> Any:
    """Return a copy by pickle; None if there is none."""
    try:
        return pickle.loads(pickle.dumps(made))
    except Exception:  # noqa: BLE001 - a class of the user may raise anything
        return None
