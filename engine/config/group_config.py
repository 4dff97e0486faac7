"""Reads the consumer group settings of a flow: the keys of MM2's checkpoint connector, some with better defaults."""

from engine.config.flow_keys import FlowKeys
from engine.config.plugins.filters import GROUP_FILTER, own_filter
from engine.config.property_reader import PropertyReader
from engine.config.settings import GroupConfig
from policies.groups import DEFAULT_GROUPS, DEFAULT_GROUPS_EXCLUDE

_EVERY_S = 5
"""Seconds: groups are fresh on the target within seconds, unless the file asks for MM2's 60 s."""
_AS_MANY = 0
"""Three replicas as in MM2, or one per broker if there are fewer brokers."""


def read_groups(reader: PropertyReader, keys: FlowKeys) -> GroupConfig:
    """Read the keys of a flow. Raises ConfigError."""
    return GroupConfig(
        own=own_filter(reader, keys, GROUP_FILTER),
        include=reader.patterns(keys.flow("groups"), DEFAULT_GROUPS).patterns,
        exclude=reader.patterns(keys.flow("groups.exclude"), DEFAULT_GROUPS_EXCLUDE).patterns,
        refresh=reader.flag(keys.flow("refresh.groups.enabled"), default=True),
        refresh_s=reader.seconds(keys.flow("refresh.groups.interval.seconds"), _EVERY_S),
        checkpoints=reader.flag(keys.flow("emit.checkpoints.enabled"), default=True),
        checkpoints_s=reader.seconds(keys.flow("emit.checkpoints.interval.seconds"), _EVERY_S),
        checkpoints_replication_factor=reader.replicas(keys.flow("checkpoints.topic.replication.factor"), _AS_MANY),
        on_commit=reader.flag(keys.flow("raymirror.groups.on.commit"), default=True),
        commits=reader.flag(keys.flow("sync.group.offsets.enabled"), default=False),
        commits_s=reader.seconds(keys.flow("sync.group.offsets.interval.seconds"), _EVERY_S),
    )
