"""Reads MM2's keys of exactly-once source support: whether a flow copies in transactions, and how often they end."""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader

_POLL_S = 1.0
"""MM2 commits each poll of up to 500 records; here a commit costs two markers and three round trips per partition."""
_LEAST_MS, _MOST_MS = 100, 30_000
"""The upper limit is half of the time that a coordinator lets a transaction stay open; the other half is a reserve."""
_MEANING = (
    "enabled: raymirror copies each partition in its own transactions, together with its position. Readers of committed"
    " records on the target see each record once, but only after its transaction has ended; without transactions they"
    " also see it once, because a restart resumes at the exact record. Readers of uncommitted records may see some"
    " records twice, which does not happen without transactions"
)


def read_commit_s(reader: PropertyReader, keys: FlowKeys, *, flush_s: float, read_committed: bool) -> float:
    """Return how many seconds a transaction of a busy partition stays open; 0: no transactions. Raises ConfigError."""
    switch, level = keys.worker("exactly.once.source.support"), keys.flow("exactly.once.support")
    boundary, interval = keys.flow("transaction.boundary"), keys.flow("transaction.boundary.interval.ms")
    support = reader.choice(switch, ("disabled", "preparing", "enabled"))
    required = reader.choice(level, ("requested", "required")) == "required"
    ends = reader.choice(boundary, ("poll", "interval", "connector"))
    every_ms = reader.number(interval, int(flush_s * 1000), 1, 2**31 - 1)
    if support == "preparing":
        reader.note(switch, "preparing: raymirror has nothing to prepare, so this means disabled")
    if support != "enabled":
        return 0.0
    if required and not read_committed:
        raise reader.error(level, "required, but isolation.level is read_uncommitted", "read committed records, as MM2")
    if ends == "connector":
        raise reader.error(
            boundary, "connector: MM2's connector defines no boundaries", "write poll or interval, as for MM2"
        )
    reader.note(switch, _MEANING)
    if ends == "poll":
        return _POLL_S
    if not _LEAST_MS <= every_ms <= _MOST_MS:
        reader.warn(
            interval, f"{every_ms} ms is not used: raymirror ends transactions after {_LEAST_MS} to {_MOST_MS} ms"
        )
    return min(max(every_ms, _LEAST_MS), _MOST_MS) / 1000
