"""Which feature of a mirror sends which requests, on which cluster, about which resources: one row for each.

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


_READS = ("Metadata", "ListOffsets", "Fetch")
_OWN_TOPIC = ("CreateTopics", "DescribeConfigs", "Metadata", "ListOffsets", "Fetch", "Produce")
_ASKS_GROUPS = ("ListGroups", "FindCoordinator", "DescribeGroups", "ConsumerGroupDescribe", "OffsetFetch")
_TRANSACTIONS = ("FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "DescribeTransactions")
_SOURCE, _TARGET, _SYNCS = GrantSide.SOURCE, GrantSide.TARGET, GrantSide.SYNCS


def _use(
    feature: GrantFeature, side: GrantSide, group: ResourceGroup, *requests: str, needed: bool = True, without: str = ""
) -> FeatureUse:
    return FeatureUse(feature=feature, side=side, group=group, requests=requests, needed=needed, without=without)


def _stores_operations(feature: GrantFeature) -> tuple[FeatureUse, ...]:
    """Return what a command needs to store an operation on both clusters, and to fence producers."""
    without = "a driver that was replaced notices that late, and the brokers do not refuse its writes"
    stores = "the operation is not stored on this cluster, so it does not begin"
    return (
        _use(feature, _SOURCE, ResourceGroup.REVERSE_TOPICS, *_OWN_TOPIC, without=stores),
        _use(feature, _TARGET, ResourceGroup.STATE, *_OWN_TOPIC, without=stores),
        _use(feature, _SOURCE, ResourceGroup.REVERSE_IDS, *_TRANSACTIONS, without=without),
        _use(feature, _TARGET, ResourceGroup.IDS, *_TRANSACTIONS, without=without),
        *(
            _use(
                feature,
                side,
                ResourceGroup.CLUSTER,
                "DescribeAcls",
                "CreateAcls",
                "DeleteAcls",
                "DescribeConfigs",
                without="no fence of ACLs is made or taken away",
            )
            for side in (_SOURCE, _TARGET)
        ),
    )


def _moves_applications(feature: GrantFeature) -> tuple[FeatureUse, ...]:
    """Return what a command needs to move groups, and producers behind them, to the target."""
    return (
        _use(
            feature,
            _SOURCE,
            ResourceGroup.TOPICS,
            *_READS,
            "DescribeConfigs",
            without="the command cannot see whether these topics are copied whole",
        ),
        *(
            _use(
                feature,
                _TARGET,
                group,
                *_READS,
                "DescribeConfigs",
                "OffsetCommit",
                without="groups get no offset in these topics, and it is not known whether they suit producers",
            )
            for group in (ResourceGroup.COPIES, ResourceGroup.PRODUCED)
        ),
        *(
            _use(feature, _TARGET, group, *_READS, without="no offset of a group can be translated exactly")
            for group in (ResourceGroup.POSITIONS, ResourceGroup.MAP)
        ),
    )


USES = (
    _use(
        GrantFeature.COPYING,
        _SOURCE,
        ResourceGroup.TOPICS,
        *_READS,
        "OffsetForLeaderEpoch",
        "DescribeProducers",
        without="the partitions wait; a topic without Describe is not seen at all",
    ),
    _use(
        GrantFeature.COPYING,
        _SOURCE,
        ResourceGroup.TOPICS,
        "DescribeConfigs",
        without="the copy of a topic is not created; an existing one is copied",
    ),
    _use(
        GrantFeature.COPYING,
        _TARGET,
        ResourceGroup.COPIES,
        *_READS,
        "OffsetForLeaderEpoch",
        "DescribeProducers",
        "Produce",
        without="the partitions wait",
    ),
    _use(
        GrantFeature.COPYING,
        _TARGET,
        ResourceGroup.COPIES,
        "CreateTopics",
        "CreatePartitions",
        without="copies that exist are copied to; new topics and partitions are not",
    ),
    _use(
        GrantFeature.COPYING,
        _TARGET,
        ResourceGroup.COPIES,
        "DescribeConfigs",
        needed=False,
        without="no comparison of retention and message size; a batch that is too large is halved until it fits",
    ),
    *(
        _use(
            GrantFeature.COPYING,
            _TARGET,
            group,
            *_OWN_TOPIC,
            without="the flow does not start; a running one copies until it needs to write there",
        )
        for group in (ResourceGroup.POSITIONS, ResourceGroup.MAP)
    ),
    _use(
        GrantFeature.STATE,
        _TARGET,
        ResourceGroup.STATE,
        *_OWN_TOPIC,
        without="the flow does not start; a running one stops when it can no longer renew its ownership",
    ),
    _use(GrantFeature.STATE, _TARGET, ResourceGroup.EVENTS, *_OWN_TOPIC, without="events are not kept"),
    _use(
        GrantFeature.FENCING,
        _TARGET,
        ResourceGroup.IDS,
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
        "DescribeTransactions",
        needed=False,
        without="writes of a partition's previous owner are detected, but the brokers do not refuse them",
    ),
    _use(
        GrantFeature.EXACTLY_ONCE,
        _TARGET,
        ResourceGroup.IDS,
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
        "DescribeTransactions",
        without="the partitions do not start",
    ),
    _use(
        GrantFeature.LIMITS,
        _TARGET,
        ResourceGroup.CLUSTER,
        "DescribeConfigs",
        "DescribeClientQuotas",
        needed=False,
        without="a new barrier after each append whose answer is lost; no warnings of quotas and small buffers",
    ),
    _use(
        GrantFeature.LIMITS,
        _SOURCE,
        ResourceGroup.CLUSTER,
        "DescribeConfigs",
        "DescribeClientQuotas",
        needed=False,
        without="no warnings of quotas and small buffers",
    ),
    *(
        _use(
            GrantFeature.DISKS,
            side,
            ResourceGroup.CLUSTER,
            "DescribeLogDirs",
            needed=False,
            without="`check` does not compare sizes with free disk space",
        )
        for side in (_SOURCE, _TARGET)
    ),
    *(
        _use(GrantFeature.SAMPLES, _TARGET, group, *_OWN_TOPIC, without="no samples: no history of lag")
        for group in (ResourceGroup.PROGRESS, ResourceGroup.LAG)
    ),
    _use(
        GrantFeature.SYNCS,
        _SYNCS,
        ResourceGroup.SYNCS,
        "CreateTopics",
        *_READS,
        "Produce",
        without="no offset syncs; positions are written more often",
    ),
    _use(
        GrantFeature.HEARTBEATS,
        _TARGET,
        ResourceGroup.HEARTBEATS,
        "CreateTopics",
        "Metadata",
        "Produce",
        without="no heartbeats",
    ),
    _use(
        GrantFeature.CHECKPOINTS,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        without="these groups are not mirrored",
    ),
    _use(
        GrantFeature.CHECKPOINTS,
        _TARGET,
        ResourceGroup.CHECKPOINTS,
        "CreateTopics",
        *_READS,
        "Produce",
        without="no checkpoints",
    ),
    _use(
        GrantFeature.ON_COMMIT,
        _SOURCE,
        ResourceGroup.COMMITS,
        *_READS,
        needed=False,
        without="groups are polled, not read as soon as they commit",
    ),
    _use(
        GrantFeature.COMMITS,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        without="these groups are not mirrored",
    ),
    _use(
        GrantFeature.COMMITS,
        _TARGET,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="nothing is committed for these groups",
    ),
    _use(GrantFeature.COMMITS, _TARGET, ResourceGroup.COPIES, "OffsetCommit", without="no commits on these copies"),
    _use(
        GrantFeature.FAILOVER,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        without="the commands cannot read these groups",
    ),
    _use(
        GrantFeature.FAILOVER,
        _TARGET,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="the commands cannot move these groups",
    ),
    _use(
        GrantFeature.FAILBACK,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="the command cannot move these groups back",
    ),
    _use(GrantFeature.FAILBACK, _SOURCE, ResourceGroup.TOPICS, "OffsetCommit", without="no commits on these topics"),
    _use(
        GrantFeature.CONFIGS,
        _SOURCE,
        ResourceGroup.TOPICS,
        "Metadata",
        "DescribeConfigs",
        without="configs of these topics are not synced",
    ),
    _use(
        GrantFeature.CONFIGS,
        _TARGET,
        ResourceGroup.COPIES,
        "Metadata",
        "CreateTopics",
        "CreatePartitions",
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "AlterConfigs",
        without="configs of these copies are not synced",
    ),
    _use(GrantFeature.ACLS, _SOURCE, ResourceGroup.CLUSTER, "DescribeAcls", without="no ACLs are synced"),
    _use(GrantFeature.ACLS, _TARGET, ResourceGroup.CLUSTER, "DescribeAcls", "CreateAcls", without="no ACLs are synced"),
    _use(
        GrantFeature.RECREATED,
        _TARGET,
        ResourceGroup.COPIES,
        "DeleteTopics",
        without="the copy of a topic that was created again stays as it is",
    ),
    _use(
        GrantFeature.REFUSED,
        _TARGET,
        ResourceGroup.QUARANTINE,
        *_OWN_TOPIC,
        without="a record that the target refuses stops its partition, as with `stop`",
    ),
    _use(
        GrantFeature.REPLAY,
        _TARGET,
        ResourceGroup.QUARANTINE,
        *_READS,
        "Produce",
        without="the command cannot list, replay or drop records",
    ),
    _use(GrantFeature.REPLAY, _TARGET, ResourceGroup.COPIES, "Produce", without="the command cannot replay records"),
    _use(
        GrantFeature.REPLAY,
        _TARGET,
        ResourceGroup.IDS,
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "EndTxn",
        without="the command cannot replay records",
    ),
    *(
        _use(
            GrantFeature.PREVIEW,
            side,
            group,
            *_READS,
            "OffsetForLeaderEpoch",
            "DescribeConfigs",
            without="the command cannot say what these topics have alone",
        )
        for side, group in ((_SOURCE, ResourceGroup.TOPICS), (_TARGET, ResourceGroup.COPIES))
    ),
    *(
        _use(
            GrantFeature.PREVIEW,
            side,
            ResourceGroup.CLUSTER,
            "DescribeAcls",
            without="the command cannot say which rights applications would miss",
        )
        for side in (_SOURCE, _TARGET)
    ),
    *_stores_operations(GrantFeature.SWITCHOVER),
    *_moves_applications(GrantFeature.SWITCHOVER),
    _use(
        GrantFeature.SWITCHOVER,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        without="the command does not see these groups, so it is refused",
    ),
    _use(
        GrantFeature.SWITCHOVER,
        _TARGET,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="the command cannot move these groups",
    ),
    *_stores_operations(GrantFeature.DR_FAILBACK),
    _use(
        GrantFeature.DR_FAILBACK,
        _SOURCE,
        ResourceGroup.TOPICS,
        *_READS,
        "OffsetForLeaderEpoch",
        "DescribeProducers",
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "AlterConfigs",
        "Produce",
        "AddPartitionsToTxn",
        "OffsetCommit",
        without="the retention of these topics is not held, or what the target got is not copied to them",
    ),
    _use(
        GrantFeature.DR_FAILBACK,
        _TARGET,
        ResourceGroup.COPIES,
        *_READS,
        "OffsetForLeaderEpoch",
        "DescribeProducers",
        "DescribeConfigs",
        "IncrementalAlterConfigs",
        "AlterConfigs",
        "Produce",
        "AddPartitionsToTxn",
        without="what only the source has is not copied to these topics, and they do not keep tombstones for longer",
    ),
    *(
        _use(
            GrantFeature.DR_FAILBACK,
            _TARGET,
            group,
            *_OWN_TOPIC,
            without="the exact ends of the copies cannot be found",
        )
        for group in (ResourceGroup.POSITIONS, ResourceGroup.MAP)
    ),
    _use(
        GrantFeature.DR_FAILBACK,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="the command cannot place these groups on the source",
    ),
    _use(
        GrantFeature.DR_FAILBACK,
        _TARGET,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        without="it is not known what these groups have read on the target",
    ),
    _use(
        GrantFeature.MAKE_ANEW,
        _SOURCE,
        ResourceGroup.TOPICS,
        "DeleteTopics",
        "CreateTopics",
        without="topics of the source are not made anew, so the failback stops before it deletes any",
    ),
    _use(
        GrantFeature.DRILL,
        _TARGET,
        ResourceGroup.DRILL_GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        "DeleteGroups",
        without="no group is rehearsed",
    ),
    _use(
        GrantFeature.DRILL,
        _TARGET,
        ResourceGroup.DRILL_TOPICS,
        "CreateTopics",
        "Metadata",
        "Produce",
        "DeleteTopics",
        without="no producer is rehearsed, which counts as a finding",
    ),
    _use(
        GrantFeature.DRILL,
        _TARGET,
        ResourceGroup.COPIES,
        *_READS,
        "OffsetCommit",
        without="no group that reads these copies is rehearsed",
    ),
    *(
        _use(
            GrantFeature.DRILL,
            side,
            ResourceGroup.CLUSTER,
            "DescribeConfigs",
            "DescribeClientQuotas",
            needed=False,
            without="quotas are not compared",
        )
        for side in (_SOURCE, _TARGET)
    ),
    _use(
        GrantFeature.MOVE,
        _SOURCE,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "DescribeShareGroupOffsets",
        without="the command does not see these groups, so they are not waited for",
    ),
    _use(
        GrantFeature.MOVE,
        _TARGET,
        ResourceGroup.GROUPS,
        *_ASKS_GROUPS,
        "OffsetCommit",
        without="the command cannot move these groups",
    ),
    *_stores_operations(GrantFeature.MOVE),
    *_moves_applications(GrantFeature.MOVE),
    *(
        _use(
            GrantFeature.MOVE,
            side,
            ResourceGroup.CLUSTER,
            "DescribeUserScramCredentials",
            "DescribeClientQuotas",
            needed=False,
            without="logins and quotas are not compared",
        )
        for side in (_SOURCE, _TARGET)
    ),
    _use(
        GrantFeature.TAKEOVER,
        _TARGET,
        ResourceGroup.MM2_GROUP,
        "ListGroups",
        "FindCoordinator",
        "DescribeGroups",
        "ConsumerGroupDescribe",
        needed=False,
        without="a warning: raymirror cannot find out whether MM2 still runs",
    ),
    _use(
        GrantFeature.TAKEOVER,
        _TARGET,
        ResourceGroup.COMMITS,
        "Metadata",
        needed=False,
        without="a warning: raymirror cannot find out whether MM2 still runs",
    ),
    _use(GrantFeature.LAG_HISTORY, _TARGET, ResourceGroup.PROGRESS, *_READS, without="no history of lag"),
    _use(
        GrantFeature.LAG_HISTORY,
        _TARGET,
        ResourceGroup.LAG,
        "Metadata",
        "Produce",
        without="no history of lag",
    ),
    *(
        _use(GrantFeature.PROOF, side, group, *_READS, without="no proof of these topics")
        for side, group in (
            (_SOURCE, ResourceGroup.TOPICS),
            (_TARGET, ResourceGroup.COPIES),
            (_TARGET, ResourceGroup.POSITIONS),
            (_TARGET, ResourceGroup.MAP),
        )
    ),
)
"""Every use, in the order of the page."""
