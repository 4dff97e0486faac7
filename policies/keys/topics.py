"""The keys that choose and name topics, and those of heartbeats and offset syncs."""

from policies.keys.read_key import ReadKey
from policies.selection import DEFAULT_EXCLUDE

TITLE = "Topics, names, heartbeats and offset syncs"
ROWS = (
    ReadKey("enabled", "flow", "false", "copy A to B; at top level: copy every pair whose heartbeats are on"),
    ReadKey(
        "topics",
        "flow",
        "`.*`",
        "Java patterns of whole names",
        "class union and intersection, `\\R`, `\\X`, `\\h` and flags after the start of a pattern are refused",
    ),
    ReadKey(
        "topic.filter.class",
        "flow",
        "DefaultTopicFilter",
        (
            "what chooses the topics: MM2's filter, or one that a Python package provides"
            " ([docs/policies.md](../docs/policies.md))"
        ),
        "a Java class is refused, see `raymirror.unsupported`",
    ),
    ReadKey("topics.exclude", "flow", f"`{', '.join(DEFAULT_EXCLUDE)}`", "wins over `topics`"),
    ReadKey(
        "heartbeats.replication.enabled",
        "flow",
        "true",
        "copy heartbeats topics, even if the filter excludes them",
    ),
    ReadKey(
        "emit.heartbeats.enabled",
        "flow",
        "true",
        "write A's heartbeats to B once a second, for every ordered pair of clusters, flow or not",
    ),
    ReadKey("emit.heartbeats.interval.seconds", "flow", "1", "how often", "0 is refused"),
    ReadKey(
        "heartbeats.topic.replication.factor",
        "flow",
        "3, or the number of brokers",
        "of the topic `heartbeats`; -1: the broker's default",
        "MM2: 3, even if there are fewer brokers",
    ),
    ReadKey(
        "emit.offset-syncs.enabled",
        "flow",
        "true",
        "write offset syncs for MM2's readers; false is refused if a setting of their topic is set",
    ),
    ReadKey("offset-syncs.topic.location", "flow", "source", "the cluster that has the topic, `source` or `target`"),
    ReadKey(
        "offset-syncs.topic.replication.factor",
        "flow",
        "3, or the number of brokers",
        "of that topic; -1: the broker's default",
        "MM2: 3, even if there are fewer brokers",
    ),
    ReadKey(
        "offset.lag.max",
        "flow",
        "100",
        (
            "the least distance, in target offsets, between two syncs of a partition within one second; once a"
            " second its newest record gets a sync"
        ),
        (
            "MM2: a sync at every jump and after this many records; the newest record gets one every"
            " `offset.flush.interval.ms`"
        ),
    ),
    ReadKey(
        "replication.policy.class",
        "flow",
        "DefaultReplicationPolicy",
        (
            "names on the target: MM2's two policies, those like Identity (Strimzi's, the one of Amazon's guide to MSK,"
            " LegacyReplicationPolicy), or one that a Python package provides ([docs/policies.md](../docs/policies.md))"
        ),
        "a Java class is refused; a loop that would copy for ever is refused",
    ),
    ReadKey(
        "replication.policy.separator",
        "flow",
        "`.`",
        "between alias and topic",
        "a separator that is not allowed in a topic name is refused; so is an empty one, except with Identity",
    ),
    ReadKey(
        "replication.policy.internal.topic.separator.enabled",
        "flow",
        "true",
        "use the separator in names of internal topics, too",
    ),
    ReadKey("replication.factor", "flow", "2", "of created topics; -1: the broker's default", "0 is refused"),
    ReadKey("refresh.topics.enabled", "flow", "true", "look for new topics and partitions"),
    ReadKey("refresh.topics.interval.seconds", "flow", "5", "how often", "MM2: 600"),
)
