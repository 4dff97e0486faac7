"""The keys of MM2's Connect workers that mean something here: positions, transactions, tasks."""

from policies.keys.read_key import ReadKey

TITLE = "Positions, transactions, tasks"
ROWS = (
    ReadKey(
        "offset.storage.topic",
        "storage",
        "`mm2-offsets.A.internal`",
        "the topic of positions, in MM2's format",
        "never copied, whatever its name",
    ),
    ReadKey(
        "raymirror.connector.name",
        "flow",
        "`MirrorSourceConnector`",
        "the connector name in the keys of positions",
        (
            "for an MM2 in a Connect cluster, set the `name` of its source connector, and"
            " `offset.storage.topic` and `group.id` of that cluster"
        ),
    ),
    ReadKey("offset.storage.partitions", "storage", "25", "of that topic and of `raymirror-map.A.internal`"),
    ReadKey(
        "offset.storage.replication.factor",
        "storage",
        "3",
        (
            "of that topic, and of `raymirror-map.A.internal`, `raymirror-state.A.internal`,"
            " `raymirror-events.A.internal` and `raymirror-quarantine.A.internal`; -1: the broker's default"
        ),
    ),
    ReadKey(
        "offset.flush.interval.ms",
        "worker",
        "60000",
        (
            "how often positions are written. The copying itself also writes positions: when a lane is released, at"
            " a hole in the source, and every 16 MiB. Without offset syncs that show how far a lane is, the"
            " interval is at most 5 s"
        ),
    ),
    ReadKey(
        "exactly.once.source.support",
        "worker",
        "disabled",
        "`enabled`: copy partitions in transactions, with their positions in the same ones",
        "`preparing` means `disabled`: raymirror has nothing to prepare",
    ),
    ReadKey("exactly.once.support", "flow", "requested", "`required` refuses `isolation.level = read_uncommitted`"),
    ReadKey(
        "transaction.boundary",
        "flow",
        "poll",
        (
            "`poll`: a busy partition commits once a second, an idle one at once; `interval`: see the next key;"
            " `connector` is refused, as in MM2"
        ),
        "MM2: every poll of up to 500 records",
    ),
    ReadKey(
        "transaction.boundary.interval.ms",
        "flow",
        "the value of `offset.flush.interval.ms`",
        "how long a transaction of a busy partition stays open",
        "values are limited to 100 to 30000",
    ),
    ReadKey(
        "group.id",
        "worker",
        "`A-mm2`",
        (
            "the group of MM2's workers on B; while it has members, raymirror does not take over a flow that MM2"
            " copied. For an MM2 in a Connect cluster, set the `group.id` of that cluster"
        ),
    ),
    ReadKey(
        "tasks.max",
        "flow",
        "1",
        "the most copiers of the flow",
        "MM2: the most tasks. In raymirror the lag decides how many copiers run",
    ),
)
