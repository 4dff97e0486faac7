"""Questions that the tables answer, as SQL: docs/tables.md shows them, and a test asks each one. Pure data."""

from typing import Final

import msgspec


class SqlQuestion(msgspec.Struct, frozen=True):
    """A question, and the query that answers it."""

    asks: str
    sql: str


QUESTIONS: Final = (
    SqlQuestion(
        "What is the worst RPO of the last month, per flow and topic, and when was it?",
        """\
SELECT flow, topic, max(lag_ms_max) / 1000 AS worst_s, epoch_ms(arg_max(window_start_ms, lag_ms_max)) AS at
FROM lag
WHERE topic <> '' AND window_start_ms >= epoch_ms(now() - INTERVAL 1 MONTH)
GROUP BY flow, topic
ORDER BY worst_s DESC NULLS LAST""",
    ),
    SqlQuestion(
        "For how many seconds of each day was a topic more than a minute behind?",
        """\
SELECT flow, topic, epoch_ms(window_start_ms)::DATE AS day, sum(seconds) AS behind_s
FROM (
    SELECT flow, topic, window_start_ms, max(window_end_ms - window_start_ms) / 1000 AS seconds
    FROM lag
    WHERE topic <> '' AND lag_ms_max > 60_000
    GROUP BY flow, topic, window_start_ms
)
GROUP BY flow, topic, day
ORDER BY day, behind_s DESC""",
    ),
    SqlQuestion(
        "Which topics took longest from a record's timestamp to its copy, in the last day?",
        """\
SELECT flow, topic, sum(latency_mean_ms * records) / sum(records) AS mean_ms, sum(records) AS records
FROM lag
WHERE topic <> '' AND records > 0 AND window_start_ms >= epoch_ms(now() - INTERVAL 1 DAY)
GROUP BY flow, topic
ORDER BY mean_ms DESC
LIMIT 10""",
    ),
    SqlQuestion(
        "Which partitions stood still, why, and for how many seconds?",
        """\
SELECT flow, topic, partition, stall_reason, sum(stalled_ms) / 1000 AS stalled_s, epoch_ms(max(window_end_ms)) AS last
FROM lag
WHERE topic <> '' AND stalled_ms > 0
GROUP BY flow, topic, partition, stall_reason
ORDER BY stalled_s DESC""",
    ),
    SqlQuestion(
        "How much does each flow copy per day?",
        """\
SELECT flow, epoch_ms(window_start_ms)::DATE AS day, sum(records) AS records, sum(wire_bytes) / 1e9 AS gigabytes
FROM lag
WHERE topic <> ''
GROUP BY flow, day
ORDER BY flow, day""",
    ),
    SqlQuestion(
        "What was the config of `orders` at a time, on the source and on the copy?",
        """\
SELECT flow, side, key, value, origin
FROM (
    SELECT * FROM configs
    WHERE (topic = '' OR 'orders' IN (topic, target)) AND key <> '' AND at_ms <= epoch_ms(now() - INTERVAL 1 DAY)
    QUALIFY row_number() OVER (PARTITION BY flow, side, topic, key ORDER BY at_ms DESC) = 1
)
WHERE origin NOT IN ('none', 'gone')
QUALIFY row_number() OVER (PARTITION BY flow, side, key ORDER BY topic DESC) = 1
ORDER BY flow, key, side""",
    ),
    SqlQuestion(
        "Who changed the retention of `orders`, on which side, between when and when, from what to what?",
        """\
SELECT epoch_ms(after_ms) AS after, epoch_ms(at_ms) AS at, flow, side, key, before, value,
    if(set_by = '', 'somebody', set_by) AS who
FROM configs
WHERE 'orders' IN (topic, target) AND key LIKE 'retention.%' AND NOT snapshot
ORDER BY at_ms""",
    ),
    SqlQuestion(
        "Which changes of configs on the source took longest to reach the copies, and which did not reach them?",
        """\
SELECT epoch_ms(seen_ms) AS seen, flow, topic, key, old, new, outcome, latency_ms / 1000 AS latency_s, why
FROM config_changes
ORDER BY latency_ms DESC NULLS FIRST, seen_ms DESC
LIMIT 20""",
    ),
    SqlQuestion(
        "Which configs of copies has somebody changed, and which of these changes still stand?",
        """\
SELECT epoch_ms(seen_ms) AS seen, flow, target, key, expected, found, outcome, epoch_ms(settled_ms) AS settled, why
FROM drift
ORDER BY settled_ms IS NULL DESC, seen_ms DESC""",
    ),
    SqlQuestion(
        "What did raymirror change of the retention of `orders`' copy, and why?",
        """\
SELECT epoch_ms(at_ms) AS at, flow, target, name, before, after, who, why, outcome
FROM audit
WHERE 'orders' IN (topic, target) AND name LIKE 'retention.%'
ORDER BY at_ms""",
    ),
    SqlQuestion(
        "Which changes of the copies failed in the last week, and what did the broker say?",
        """\
SELECT flow, topic, change, name, detail, count(*) AS times, epoch_ms(max(at_ms)) AS last
FROM audit
WHERE outcome = 'failed' AND at_ms >= epoch_ms(now() - INTERVAL 7 DAY)
GROUP BY flow, topic, change, name, detail
ORDER BY times DESC""",
    ),
    SqlQuestion(
        "Which proofs found differences?",
        """\
SELECT epoch_ms(began_ms) AS at, flow, run, topic, sum(differences) AS differences, sum(records) AS records_read
FROM proof_lanes
WHERE differences > 0
GROUP BY began_ms, flow, run, topic
ORDER BY began_ms DESC""",
    ),
    SqlQuestion(
        "Which records differ, and how?",
        """\
SELECT flow, topic, partition, kind, what, count(*) AS records, min(source_offset) AS first, max(source_offset) AS last
FROM proof_differences
GROUP BY flow, topic, partition, kind, what
ORDER BY records DESC""",
    ),
    SqlQuestion(
        "How far is each partition proven, and when was that found?",
        """\
SELECT flow, topic, partition, arg_max(proven_to, began_ms) AS proven_to, arg_max(verdict, began_ms) AS verdict,
    epoch_ms(max(began_ms)) AS at
FROM proof_lanes
GROUP BY flow, topic, partition
ORDER BY flow, topic, partition""",
    ),
)
