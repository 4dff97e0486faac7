"""Reads the consumer group settings of a flow: the keys of MM2's checkpoint connector, some with better defaults."""

import re

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.settings import GroupConfig
from policies.groups import DEFAULT_GROUPS, DEFAULT_GROUPS_EXCLUDE, GroupSelection
from policies.patterns import BadPattern

_FILTER = re.compile(r"(?:org\.apache\.kafka\.connect\.mirror\.)?DefaultGroupFilter")
_EVERY_S = 5
"""Seconds: groups are fresh on the target within seconds, unless the file asks for MM2's 60 s."""
_MOST_S = 2**31 - 1
_AS_MANY = 0
"""Three replicas as in MM2, or one per broker if there are fewer brokers."""


def read_groups(reader: PropertyReader, keys: FlowKeys) -> GroupConfig:
    """Read the keys of a flow. Raises ConfigError."""

    def every(name: str) -> float:
        return float(reader.number(keys.flow(name), _EVERY_S, 1, _MOST_S))

    def switch(name: str, *, default: bool) -> bool:
        return reader.flag(keys.flow(name), default=default)

    _check_filter(reader, keys.flow("group.filter.class"))
    return GroupConfig(
        include=_patterns(reader, keys.flow("groups"), DEFAULT_GROUPS),
        exclude=_patterns(reader, keys.flow("groups.exclude"), DEFAULT_GROUPS_EXCLUDE),
        refresh=switch("refresh.groups.enabled", default=True),
        refresh_s=every("refresh.groups.interval.seconds"),
        checkpoints=switch("emit.checkpoints.enabled", default=True),
        checkpoints_s=every("emit.checkpoints.interval.seconds"),
        checkpoints_replication_factor=_replicas(reader, keys.flow("checkpoints.topic.replication.factor")),
        on_commit=switch("raymirror.groups.on.commit", default=True),
        commits=switch("sync.group.offsets.enabled", default=False),
        commits_s=every("sync.group.offsets.interval.seconds"),
    )


def _patterns(reader: PropertyReader, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(reader.list(key, default))
    try:
        GroupSelection(found)
    except BadPattern as bad:
        raise reader.bad_pattern(key, bad) from None
    return found


def _check_filter(reader: PropertyReader, key: str) -> None:
    name = reader.text(key, "DefaultGroupFilter")
    if not _FILTER.fullmatch(name):
        right = "use DefaultGroupFilter, with groups and groups.exclude; custom Java classes cannot run here"
        reader.refuse_unsupported(key, f"unknown filter {name!r}", right)


def _replicas(reader: PropertyReader, key: str) -> int:
    found = reader.number(key, _AS_MANY, -1, 32767)
    if found == _AS_MANY and reader.has(key):
        raise reader.error(key, "0 is out of range", "give a number from 1 to 32767, or -1: broker's default")
    return found
