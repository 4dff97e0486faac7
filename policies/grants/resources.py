"""The resources that a configuration names, on the clusters of a flow; `features.py` says who asks for which."""

from enum import Enum

from policies.grants.rights import ResourceKind


class GrantSide(Enum):
    """The clusters of a flow. SYNCS: the one that `offset-syncs.topic.location` names."""

    SOURCE = "source"
    TARGET = "target"
    SYNCS = "syncs"


class ResourceGroup(Enum):
    """Resources that a configuration names; the value says what they are."""

    TOPICS = "the topics to copy"
    COPIES = "the copies"
    PRODUCED = "the topics of the same names, which applications write to"
    POSITIONS = "the positions topic"
    MAP = "the offset map's topic"
    STATE = "the state topic"
    EVENTS = "the events topic"
    PROGRESS = "the topic of progress samples"
    LAG = "the topic of lag"
    SYNCS = "the offset-syncs topic"
    CHECKPOINTS = "the checkpoints topic"
    QUARANTINE = "the quarantine topic"
    HEARTBEATS = "the heartbeats topic"
    COMMITS = "`__consumer_offsets`"
    GROUPS = "the groups to mirror"
    MM2_GROUP = "the group of MM2's workers"
    DRILL_GROUPS = "the groups of drills"
    DRILL_TOPICS = "the scratch topics of drills"
    IDS = "the transactional ids of the flow's partitions"
    CLUSTER = "the cluster"
    REVERSE_TOPICS = "the state, positions and map topics of the reverse flow"
    REVERSE_MAPS = "the positions, map and quarantine topics of the reverse flow"
    REVERSE_IDS = "the transactional ids of the reverse flow"

    @property
    def kind(self) -> ResourceKind:
        """The type of these resources."""
        return _KINDS.get(self, ResourceKind.TOPIC)


_KINDS = {
    ResourceGroup.GROUPS: ResourceKind.GROUP,
    ResourceGroup.MM2_GROUP: ResourceKind.GROUP,
    ResourceGroup.DRILL_GROUPS: ResourceKind.GROUP,
    ResourceGroup.IDS: ResourceKind.TRANSACTIONAL_ID,
    ResourceGroup.CLUSTER: ResourceKind.CLUSTER,
    ResourceGroup.REVERSE_IDS: ResourceKind.TRANSACTIONAL_ID,
}
