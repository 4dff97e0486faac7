"""raymirror's own keys of a flow: processes, memory, bandwidth, faults, starts."""

from policies.keys.read_key import ReadKey

TITLE = "Copying"
ROWS = (
    ReadKey(
        "raymirror.site",
        "cluster",
        "the alias",
        "the site of the cluster: a region, a zone, a data centre. `raymirror.copiers.near` uses it",
    ),
    ReadKey("raymirror.copiers", "flow", "1", "the fewest copiers (processes that share the partitions of a flow)"),
    ReadKey(
        "raymirror.copiers.max",
        "flow",
        "`tasks.max`, but at least `raymirror.copiers`",
        "the most copiers of the flow",
    ),
    ReadKey(
        "raymirror.copiers.near",
        "flow",
        "any",
        (
            "on which Ray nodes the copiers of the flow run: `target` or `source` (nodes in the site of that"
            " cluster), or `any`. If no such node has a free CPU, the flow waits, and `status` says for what"
            " ([docs/placement.md](../docs/placement.md))"
        ),
    ),
    ReadKey(
        "raymirror.target.drain.seconds",
        "flow",
        "600",
        "raymirror adds copiers while the lag would take longer than this to copy",
    ),
    ReadKey("raymirror.shrink.after.seconds", "flow", "900", "after this time without lag, one copier is removed"),
    ReadKey(
        "raymirror.copier.memory.bytes",
        "flow",
        "67108864",
        (
            "memory for all batches of one copier: received, rewritten, and of lanes in trouble; above the default,"
            " a copier asks Ray for this plus 256 MiB"
        ),
    ),
    ReadKey(
        "raymirror.source.connections",
        "flow",
        "64",
        (
            "the most additional connections of one copier to one source broker, 1 to 1024. A partition with a"
            " backlog at a distant broker is read over several of them at once, because one connection brings no"
            " more per round trip than the broker's socket buffers hold. 1: no partition is read so"
        ),
    ),
    ReadKey(
        "raymirror.bandwidth.bytes",
        "flow",
        "no limit",
        (
            "`bytes, pattern@bytes, ...`: how many bytes per second are fetched, of the whole flow (without a"
            " pattern) and of the topics of a pattern together ([rules](#bandwidth-and-priority))"
        ),
    ),
    ReadKey(
        "raymirror.priority",
        "flow",
        "normal",
        (
            "`pattern@class, ...`: `high`, `normal` or `low`: topics of a hotter class are copied first"
            " ([rules](#bandwidth-and-priority))"
        ),
    ),
    ReadKey(
        "raymirror.batch.inflated.bytes",
        "flow",
        "67108864",
        (
            "the most bytes that one batch may inflate to if it must be opened and rewritten (log-append time, gaps"
            " of compaction, formats 0 and 1, more than the target's `max.message.bytes`). A larger batch stops its"
            " lane with an event. A copier inflates one such batch at a time, and needs about three times its size"
            " in addition to `raymirror.copier.memory.bytes`"
        ),
    ),
    ReadKey(
        "raymirror.rebatch",
        "flow",
        "on",
        (
            "`on` or `off`: batches of at most 16 KiB (lz4, snappy: 4 KiB; gzip, zstd: 512 bytes; without the"
            " native module 1 KiB, compressed 512 bytes) of one partition that wait together are sent as one batch,"
            " up to the target topic's `max.message.bytes`. Records keep timestamp, key, value, headers and order."
            " A batch that is alone leaves unopened, at once. Merged batches have the codec of the first compressed"
            " batch in them, and none if all are plain"
        ),
    ),
    ReadKey(
        "raymirror.foreign.writer",
        "flow",
        "stop",
        "`stop` or `continue` a lane if another producer writes to its target partition",
    ),
    ReadKey(
        "raymirror.source.gap",
        "flow",
        "fail",
        (
            "`pattern@choice, ...`, or one choice for all topics: what to do with a partition if its source lost"
            " records that were not copied yet, or if its history differs from what was copied: `fail` or"
            " `continue` ([rules](#topics-that-are-not-what-they-were))"
        ),
        "MM2 continues silently",
    ),
    ReadKey(
        "raymirror.topic.recreated",
        "flow",
        "fail",
        (
            "the same for a topic that was deleted and created again, on A or B: `fail`, `append`, or `re-create`,"
            " which deletes the copy on B"
        ),
        "MM2 continues silently",
    ),
    ReadKey(
        "raymirror.refused",
        "flow",
        "stop",
        (
            "`pattern@choice, ...`, or one choice for all topics: what to do with a record that the target refuses for"
            " good (too large, a bad timestamp, no key in a compacted topic, a policy): `stop` waits until the target"
            " takes it; `skip` leaves it out and notes that; `quarantine` leaves it out once it is durable in"
            " `raymirror-quarantine.A.internal` on B ([docs/quarantine.md](../docs/quarantine.md))"
        ),
        "MM2's task fails",
    ),
    ReadKey(
        "raymirror.start",
        "flow",
        "none",
        "`pattern@start, ...`: earliest, latest, an instant, `-PT6H`, or `partition:offset;...`",
    ),
    ReadKey(
        "raymirror.progress.interval.seconds",
        "flow",
        "5 with Spark on and a storage, else 0",
        (
            "how often copiers write progress samples to `raymirror-progress.A.internal` on B; Spark makes the"
            " history of lag of them; 0: never"
        ),
    ),
    ReadKey(
        "raymirror.rpo.seconds",
        "flow",
        "0",
        (
            "how many seconds of records a loss of A may cost; the history of lag names topics that are further"
            " behind; 0: not set"
        ),
    ),
    ReadKey(
        "raymirror.same.cluster",
        "flow",
        "refuse",
        (
            "what to do if both aliases lead to one cluster: `refuse`; `allow` (copy within it, with prefixes,"
            " without topics that would be copied again and again); `ignore` (they are two clusters, and one was"
            " created from the other's disks, so topic ids prove nothing)"
        ),
        "MM2 copies in a circle",
    ),
)
