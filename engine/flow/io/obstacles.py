"""Names the obstacle that stops a lane's fetches or appends, in the order in which an operator would check."""

import msgspec


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The path of a lane's records, from its source broker to its target broker."""

    lease_is_open: bool
    leaderless: str
    """A partition without a leader; empty if all of the lane's partitions have one."""
    source_node: int
    target_node: int
    is_doubted: bool
    """Whether the end offset of the target leader's log is not known yet."""
    has_inbox: bool
    has_outbox: bool
    """Whether the connections to the brokers are open."""
    is_owed_elsewhere: bool
    """Whether the previous target leader has not answered all requests yet."""
    source_throttles: bool
    target_throttles: bool


def obstacle(way: Way) -> str:
    """Return why a lane makes no progress; empty if its path has no obstacle."""
    if not way.lease_is_open:
        return "waits for its lease: the supervisor does not answer, or cannot see that this mirror still owns the flow"
    if way.leaderless:
        return f"no leader for {way.leaderless}"
    if way.is_doubted:
        return f"waits until target broker {way.target_node} reports the end offset of its log"
    if not way.has_outbox:
        return f"no connection to target broker {way.target_node}"
    if way.is_owed_elsewhere:
        return "waits for the last answers of the previous target leader"
    if not way.has_inbox:
        return f"no connection to source broker {way.source_node}"
    if way.target_throttles:
        return f"throttled by the quota of target broker {way.target_node}"
    return f"throttled by the quota of source broker {way.source_node}" if way.source_throttles else ""
