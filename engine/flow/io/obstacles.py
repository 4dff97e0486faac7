"""Decides what keeps a lane from being fetched or sent, in the order in which an operator would look for it."""

import msgspec


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The way of a lane's records, from its source broker to its target broker."""

    lease_is_open: bool
    leaderless: str
    """A partition without a leader; empty where all of the lane's partitions have one."""
    source_node: int
    target_node: int
    is_doubted: bool
    """Whether the target's leader has not said yet where its log ends."""
    has_inbox: bool
    has_outbox: bool
    """Whether there are connections to the brokers."""
    is_owed_elsewhere: bool
    """Whether a broker that led before owes answers."""
    source_throttles: bool
    target_throttles: bool


def obstacle(way: Way) -> str:
    """Say what keeps a lane from moving; empty where nothing of its way does."""
    if not way.lease_is_open:
        return "waits for its lease: the supervisor cannot see that the flow is still its own, or does not answer"
    if way.leaderless:
        return f"no leader for {way.leaderless}"
    if way.is_doubted:
        return f"waits to hear from target broker {way.target_node} where its log ends"
    if not way.has_outbox:
        return f"no connection to target broker {way.target_node}"
    if way.is_owed_elsewhere:
        return "waits for the last answers of the target broker that led before"
    if not way.has_inbox:
        return f"no connection to source broker {way.source_node}"
    if way.target_throttles:
        return f"throttled by the quota of target broker {way.target_node}"
    return f"throttled by the quota of source broker {way.source_node}" if way.source_throttles else ""
