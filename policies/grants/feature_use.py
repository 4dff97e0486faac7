"""Defines the features of a mirror and their rows: requests, on which cluster, about which resources.

`needed`: without the right, the feature does nothing, or the flow does not copy. `without`: what happens then.
"""

from enum import Enum

import msgspec

from policies.grants.resources import GrantSide, ResourceGroup


class GrantFeature(Enum):
    """What a mirror does; the value is its name for users, as in the configuration."""

    COPYING = "copying"
    STATE = "state and events"
    FENCING = "fencing"
    EXACTLY_ONCE = "exactly.once.source.support"
    LIMITS = "limits of the brokers"
    DISKS = "check of disk space"
    SAMPLES = "progress samples"
    SYNCS = "emit.offset-syncs.enabled"
    HEARTBEATS = "emit.heartbeats.enabled"
    CHECKPOINTS = "emit.checkpoints.enabled"
    ON_COMMIT = "raymirror.groups.on.commit"
    COMMITS = "sync.group.offsets.enabled"
    EARLIER_STINTS = "groups that stand before a switchover"
    FAILOVER = "the commands failover and translate"
    FAILBACK = "the command failover --back --apply"
    REPLAY = "the command quarantine"
    PREVIEW = "the command dr"
    SWITCHOVER = "the command dr switchover"
    DRILL = "the command dr drill"
    MOVE = "the command move"
    DR_FAILBACK = "the command dr failback"
    MAKE_ANEW = "its option --make-anew"
    CONFIGS = "sync.topic.configs.enabled"
    ACLS = "sync.topic.acls.enabled"
    RECREATED = "raymirror.topic.recreated"
    REFUSED = "raymirror.refused"
    TAKEOVER = "takeover from MM2"
    LAG_HISTORY = "history of lag"
    PROOF = "proof"


BY_COMMAND = frozenset(
    {
        GrantFeature.FAILOVER,
        GrantFeature.FAILBACK,
        GrantFeature.REPLAY,
        GrantFeature.PREVIEW,
        GrantFeature.SWITCHOVER,
        GrantFeature.DRILL,
        GrantFeature.MOVE,
        GrantFeature.DR_FAILBACK,
        GrantFeature.MAKE_ANEW,
    }
)
"""Features that no running mirror uses, only a command. They may run with a login of their own; scheduled drills run
with that of the mirror."""


class FeatureUse(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one feature about one group of resources on one cluster."""

    feature: GrantFeature
    side: GrantSide
    group: ResourceGroup
    requests: tuple[str, ...]
    needed: bool = True
    without: str = ""


READS = ("Metadata", "ListOffsets", "Fetch")
OWN_TOPIC = ("CreateTopics", "DescribeConfigs", "Metadata", "ListOffsets", "Fetch", "Produce")
ASKS_GROUPS = ("ListGroups", "FindCoordinator", "DescribeGroups", "ConsumerGroupDescribe", "OffsetFetch")
TRANSACTIONS = ("FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "DescribeTransactions")
SOURCE, TARGET, SYNCS = GrantSide.SOURCE, GrantSide.TARGET, GrantSide.SYNCS


def use(
    feature: GrantFeature, side: GrantSide, group: ResourceGroup, *requests: str, needed: bool = True, without: str = ""
) -> FeatureUse:
    """Return a row."""
    return FeatureUse(feature=feature, side=side, group=group, requests=requests, needed=needed, without=without)
