"""Lists the requests of the commands between clusters: previews, switchovers, failbacks, drills, moves."""

from policies.grants.feature_use import (
    ASKS_GROUPS,
    OWN_TOPIC,
    READS,
    SOURCE,
    TARGET,
    TRANSACTIONS,
    FeatureUse,
    GrantFeature,
    use,
)
from policies.grants.resources import ResourceGroup


def _stores_operations(feature: GrantFeature) -> tuple[FeatureUse, ...]:
    """Return what a command needs to store an operation on both clusters, and to fence producers."""
    without = "a driver that was replaced notices that late, and the brokers do not refuse its writes"
    stores = "the operation is not stored on this cluster, so it does not begin"
    return (
        use(feature, SOURCE, ResourceGroup.REVERSE_TOPICS, *OWN_TOPIC, without=stores),
        use(feature, TARGET, ResourceGroup.STATE, *OWN_TOPIC, without=stores),
        use(feature, SOURCE, ResourceGroup.REVERSE_IDS, *TRANSACTIONS, without=without),
        use(feature, TARGET, ResourceGroup.IDS, *TRANSACTIONS, without=without),
        *(
            use(
                feature,
                side,
                ResourceGroup.CLUSTER,
                "DescribeAcls",
                "CreateAcls",
                "DeleteAcls",
                "DescribeConfigs",
                without="no fence of ACLs is made or taken away",
            )
            for side in (SOURCE, TARGET)
        ),
    )


def _moves_applications(feature: GrantFeature) -> tuple[FeatureUse, ...]:
    """Return what a command needs to move groups, and producers behind them, to the target."""
    return (
        use(
            feature,
            SOURCE,
            ResourceGroup.TOPICS,
            *READS,
            "DescribeConfigs",
            without="the command cannot see whether these topics are copied whole",
        ),
        *(
            use(
                feature,
                TARGET,
                group,
                *READS,
                "DescribeConfigs",
                "OffsetCommit",
                without="groups get no offset in these topics, and it is not known whether they suit producers",
            )
            for group in (ResourceGroup.COPIES, ResourceGroup.PRODUCED)
        ),
        use(
            feature,
            TARGET,
            ResourceGroup.GROUPS,
            *ASKS_GROUPS,
            "OffsetCommit",
            without="the command cannot move these groups",
        ),
        *(
            use(feature, TARGET, group, *READS, without="no offset of a group can be translated exactly")
            for group in (ResourceGroup.POSITIONS, ResourceGroup.MAP)
        ),
    )


DR_USES = (
    *(
        use(
            GrantFeature.PREVIEW,
            side,
            group,
            *READS,
            "OffsetForLeaderEpoch",
            "DescribeConfigs",
            without="the command cannot say what these topics have alone",
        )
        for side, group in ((SOURCE, ResourceGroup.TOPICS), (TARGET, ResourceGroup.COPIES))
    ),
    *(
        use(
            GrantFeature.PREVIEW,
            side,
            ResourceGroup.CLUSTER,
            "DescribeAcls",
            without="the command cannot say which rights applications would miss",
        )
        for side in (SOURCE, TARGET)
    ),
    *_stores_operations(GrantFeature.SWITCHOVER),
    *_moves_applications(GrantFeature.SWITCHOVER),
    use(
        GrantFeature.SWITCHOVER,
        SOURCE,
        ResourceGroup.GROUPS,
        *ASKS_GROUPS,
        without="the command does not see these groups, so it is refused",
    ),
    *_stores_operations(GrantFeature.DR_FAILBACK),
    use(
        GrantFeature.DR_FAILBACK,
        SOURCE,
        ResourceGroup.TOPICS,
        *READS,
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
    use(
        GrantFeature.DR_FAILBACK,
        TARGET,
        ResourceGroup.COPIES,
        *READS,
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
        use(
            GrantFeature.DR_FAILBACK,
            TARGET,
            group,
            *OWN_TOPIC,
            without="the exact ends of the copies cannot be found",
        )
        for group in (ResourceGroup.POSITIONS, ResourceGroup.MAP)
    ),
    use(
        GrantFeature.DR_FAILBACK,
        SOURCE,
        ResourceGroup.GROUPS,
        *ASKS_GROUPS,
        "OffsetCommit",
        without="the command cannot place these groups on the source",
    ),
    use(
        GrantFeature.DR_FAILBACK,
        TARGET,
        ResourceGroup.GROUPS,
        *ASKS_GROUPS,
        without="it is not known what these groups have read on the target",
    ),
    use(
        GrantFeature.MAKE_ANEW,
        SOURCE,
        ResourceGroup.TOPICS,
        "DeleteTopics",
        "CreateTopics",
        without="topics of the source are not made anew, so the failback stops before it deletes any",
    ),
    use(
        GrantFeature.DRILL,
        TARGET,
        ResourceGroup.DRILL_GROUPS,
        *ASKS_GROUPS,
        "OffsetCommit",
        "DeleteGroups",
        without="no group is rehearsed",
    ),
    use(
        GrantFeature.DRILL,
        TARGET,
        ResourceGroup.DRILL_TOPICS,
        "CreateTopics",
        "Metadata",
        "Produce",
        "DeleteTopics",
        without="no producer is rehearsed, which counts as a finding",
    ),
    use(
        GrantFeature.DRILL,
        TARGET,
        ResourceGroup.COPIES,
        *READS,
        "OffsetCommit",
        without="no group that reads these copies is rehearsed",
    ),
    *(
        use(
            GrantFeature.DRILL,
            side,
            ResourceGroup.CLUSTER,
            "DescribeConfigs",
            "DescribeClientQuotas",
            needed=False,
            without="quotas are not compared",
        )
        for side in (SOURCE, TARGET)
    ),
    use(
        GrantFeature.MOVE,
        SOURCE,
        ResourceGroup.GROUPS,
        *ASKS_GROUPS,
        "DescribeShareGroupOffsets",
        without="the command does not see these groups, so they are not waited for",
    ),
    *_stores_operations(GrantFeature.MOVE),
    *_moves_applications(GrantFeature.MOVE),
    *(
        use(
            GrantFeature.MOVE,
            side,
            ResourceGroup.CLUSTER,
            "DescribeUserScramCredentials",
            "DescribeClientQuotas",
            needed=False,
            without="logins and quotas are not compared",
        )
        for side in (SOURCE, TARGET)
    ),
)
"""The rows of these commands, in the order of the page."""
