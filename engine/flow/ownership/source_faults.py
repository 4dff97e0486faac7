"""Decides what a lane does after a fetch that failed for one partition, or that names another replica."""

import enum

from engine.flow.ports.ports import Slice


class FaultResponse(enum.Enum):
    """What a lane does about a fault at its source."""

    READ_REPLICA = enum.auto()
    """Fetch from the replica that the leader names as the nearest (KIP-392)."""
    ASK_LEADER = enum.auto()
    """Look the leader up and fetch from it: a follower's fault counts only if the leader reports it too."""
    FIND_LEADER = enum.auto()
    """Look the leader up. If the fault continues, the source may have been restored from an earlier state."""
    MEND_DIVERGENCE = enum.auto()
    """The source's history diverges from the copied records (KIP-595's diverging epoch)."""
    CHECK_RANGE = enum.auto()
    """The offset may be outside the log: ask where the log begins and ends."""
    WAIT_FOR_RIGHT = enum.auto()
    """An ACL denies the fetch: try again until it is granted."""
    GIVE_UP = enum.auto()
    """Every further attempt would fail too: the lane stops."""


def respond(found: Slice, *, leader_is_old: bool, reads_replica: bool) -> FaultResponse:
    """Return the response to what a broker said of one partition.

    `leader_is_old`: the broker's leader epoch is lower than that of the copied records, so its answer is ignored.
    """
    fault = found.fault
    if fault is None and found.preferred_replica >= 0:
        return FaultResponse.READ_REPLICA
    if leader_is_old:
        return FaultResponse.FIND_LEADER
    if fault is None:
        return FaultResponse.MEND_DIVERGENCE
    if reads_replica:
        return FaultResponse.ASK_LEADER
    if fault.out_of_range:
        return FaultResponse.CHECK_RANGE
    if fault.denied:
        return FaultResponse.WAIT_FOR_RIGHT
    return FaultResponse.FIND_LEADER if fault.retry else FaultResponse.GIVE_UP
