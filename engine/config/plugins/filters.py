"""Reads the keys that name a class: MM2's own class, or one that a Python package provides."""

from typing import Any

import msgspec

from engine.config.flow_keys import FlowKeys
from engine.config.plugins.loading import PROVIDED, find, load
from engine.config.property_reader import PropertyReader
from policies.naming import DEFAULT_CLASS, IDENTITY_CLASS, LIKE_IDENTITY, PACKAGE, DefaultNaming, naming_for
from policies.own.own_naming import OwnNaming
from policies.own.own_policy import OwnPolicy
from policies.own.protocols import ConfigPropertyFilter, GroupFilter, ReplicationPolicy, TopicFilter

_POLICY = "replication.policy.class"


class FilterKey(msgspec.Struct, frozen=True):
    """A key that names a filter: MM2's class, the keys that choose with it, the protocol of other filters."""

    name: str
    default: str
    instead: str
    kind: type


TOPIC_FILTER = FilterKey("topic.filter.class", "DefaultTopicFilter", "topics and topics.exclude", TopicFilter)
GROUP_FILTER = FilterKey("group.filter.class", "DefaultGroupFilter", "groups and groups.exclude", GroupFilter)
CONFIG_FILTER = FilterKey(
    "config.property.filter.class", "DefaultConfigPropertyFilter", "config.properties.exclude", ConfigPropertyFilter
)


def own_filter(reader: PropertyReader, keys: FlowKeys, what: FilterKey) -> OwnPolicy[Any] | None:
    """Return the user's filter; None for MM2's own. Raises ConfigError; refuses unknown names, or warns of them."""
    key = keys.flow(what.name)
    name = reader.text(key, what.default)
    if not name or name.removeprefix(PACKAGE) == what.default:
        return None
    if (point := find(name)) is not None:
        return load(reader, keys, key, point, what.kind)
    right = f"use {what.default}, with {what.instead}, {PROVIDED}"
    reader.refuse_unsupported(key, f"unknown filter {name!r}", right)
    return None


def read_naming(
    reader: PropertyReader, keys: FlowKeys, policy: str, separator: str, *, internal: bool
) -> DefaultNaming:
    """Return the names of a flow's copies by its policy: MM2's, one like it, or the user's. Raises ConfigError."""
    key, source = keys.flow(_POLICY), keys.name.source
    if policy in LIKE_IDENTITY:
        reader.note(key, f"works like {IDENTITY_CLASS}; copies of heartbeats topics get the prefix {source}{separator}")
    try:
        return naming_for(policy, source, separator, internal_separator=internal)
    except ValueError:
        point = find(policy)
    if point is None:
        right = f"use {DEFAULT_CLASS} or {IDENTITY_CLASS}, {PROVIDED}"
        raise reader.error(key, f"unknown policy {policy!r}", right)
    return OwnNaming(load(reader, keys, key, point, ReplicationPolicy), separator, internal_separator=internal)
