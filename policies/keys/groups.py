"""The keys of consumer groups: which are mirrored, checkpoints, commits on the target."""

from policies.groups import DEFAULT_GROUPS_EXCLUDE
from policies.keys.read_key import ReadKey

TITLE = "Consumer groups"
ROWS = (
    ReadKey("groups", "flow", "`.*`", "Java patterns of the consumer groups to mirror"),
    ReadKey("groups.exclude", "flow", f"`{', '.join(DEFAULT_GROUPS_EXCLUDE)}`", "wins over `groups`"),
    ReadKey(
        "group.filter.class",
        "flow",
        "DefaultGroupFilter",
        (
            "what chooses the groups: MM2's filter, or one that a Python package provides"
            " ([docs/policies.md](../docs/policies.md))"
        ),
        "a Java class is refused, see `raymirror.unsupported`",
    ),
    ReadKey("refresh.groups.enabled", "flow", "true", "look for new groups"),
    ReadKey("refresh.groups.interval.seconds", "flow", "5", "how often", "MM2: 600"),
    ReadKey(
        "emit.checkpoints.enabled",
        "flow",
        "true",
        "write checkpoints to `A.checkpoints.internal` on B",
        "needs no offset syncs, because raymirror uses its exact offset map",
    ),
    ReadKey(
        "emit.checkpoints.interval.seconds",
        "flow",
        "5",
        "how often groups are read if they are polled (`raymirror.groups.on.commit`)",
        "MM2: 60",
    ),
    ReadKey(
        "checkpoints.topic.replication.factor",
        "flow",
        "3, or the number of brokers",
        "of that topic; -1: the broker's default",
        "MM2: 3, even if there are fewer brokers",
    ),
    ReadKey(
        "sync.group.offsets.enabled",
        "flow",
        "false",
        "commit the offsets of groups on B if they have no members there",
        "works without checkpoints, too",
    ),
    ReadKey(
        "sync.group.offsets.interval.seconds",
        "flow",
        "5",
        "how often, if groups are polled; at least ten times within B's `offsets.retention.minutes`",
        "MM2: 60",
    ),
    ReadKey(
        "raymirror.groups.on.commit",
        "flow",
        "true",
        (
            "read A's `__consumer_offsets` (needs Read and Describe on it). raymirror then reads a group within a"
            " second after its commit, and all groups once a minute. The price: it reads the commits of all groups"
            " of A. If this is false or not permitted, raymirror polls all groups at the intervals above"
        ),
    ),
    ReadKey(
        "raymirror.drill.schedule",
        "flow",
        "off",
        (
            "when the mirror rehearses a failover by itself ([docs/dr.md](../docs/dr.md#the-drill)): so long after the"
            " last drill (`7d`, `12h`), or at a time in UTC (`03:00` every day, `Mon 03:00` every week)"
        ),
    ),
)
