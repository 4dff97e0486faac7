"""Decides where a consumer group goes in a failback, by choice: to the first record that it has not read.

    keep              source  P D N        target  P N D
    append-to-target  both    P N D
    discard           both    P N

A group has read P and D on the source up to its commit there, and P and N on the target up to its commit there. The
parts of a log are read in order, so the group goes to the first part that it has not finished. What it has read of
later parts it reads again (`repeats`). It skips nothing.
"""

from enum import Enum

import msgspec

from policies.dr.failback import FailbackChoice, FailbackPlan
from policies.dr.separation import LogPart, Separation

_P, _D, _N = LogPart.SHARED, LogPart.DIVERGED, LogPart.NEW
_ORDERS = {
    FailbackChoice.KEEP: ((_P, _D, _N), (_P, _N, _D)),
    FailbackChoice.APPEND: ((_P, _N, _D), (_P, _N, _D)),
    FailbackChoice.DISCARD: ((_P, _N), (_P, _N)),
}
"""The parts of the logs afterwards, on the source and on the target."""


class FailbackSide(Enum):
    """One of the two clusters of a flow, and its place in `_ORDERS`."""

    SOURCE = 0
    TARGET = 1


class PlaceReason(Enum):
    """How exact a place is; only EXACT is called equal. The names are stable."""

    EXACT = "exact"
    INSIDE_DIVERGED = "inside-diverged"
    """Inside D, by its own commit on the source."""
    REPEATS = "repeats"
    READ_DISCARDED = "read-discarded"
    """It has read records of D that neither cluster has afterwards."""
    EXPIRED = "expired"
    """Retention has deleted records that it has not read: on the source, or on the target if a topic is made anew."""
    NOT_MAPPED = "not-mapped"
    """Its commit on the target has no exact source offset."""


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The commits of a group on both clusters, -1 for none; `mapped`: the target's as a source offset, by the map."""

    source: int = -1
    target: int = -1
    mapped: int = -1


class GroupPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a group in one log after the failback: the part, and how many of its offsets are behind the group.

    `repeats`: offsets that it reads again, at most.
    """

    part: LogPart
    into: int
    repeats: int
    reason: PlaceReason

    @property
    def is_equal(self) -> bool:
        """Whether the group reads exactly the records that it has not read."""
        return self.reason is PlaceReason.EXACT


def group_place(found: Separation, plan: FailbackPlan, group: GroupProgress, side: FailbackSide) -> GroupPlace:
    """Return the place of a group on one cluster after a failback by a plan that is not refused."""
    order = _ORDERS[plan.choice][side.value]
    read = {_P: _shared_read(found, group), _D: _diverged_read(found, group), _N: _new_read(found, group)}
    part, into, again = LogPart.END, 0, 0
    for one in order:
        size, done = found.size(one), read[one]
        if one is _D and order[-1] is _D and plan.compares_keys and done < size:
            again, done = again + done, 0  # only some keys of D are there, so where the group was is not known
        if part is not LogPart.END:
            again += done
        elif done < size:
            part, into = one, done
    return GroupPlace(part=part, into=into, repeats=again, reason=_reason(found, plan, group, (part, into, again)))


def _shared_read(found: Separation, group: GroupProgress) -> int:
    if group.target >= found.target_next:
        return found.source_next
    return max(0, group.mapped, min(group.source, found.split))


def _diverged_read(found: Separation, group: GroupProgress) -> int:
    return min(max(0, group.source - found.split), found.size(_D))


def _new_read(found: Separation, group: GroupProgress) -> int:
    return min(max(0, group.target - found.target_next), found.size(_N))


def _reason(
    found: Separation, plan: FailbackPlan, group: GroupProgress, place: tuple[LogPart, int, int]
) -> PlaceReason:
    part, into, again = place
    if part is _P and 0 <= group.target < found.target_next and group.mapped < 0:
        return PlaceReason.NOT_MAPPED
    if plan.choice is FailbackChoice.DISCARD and _diverged_read(found, group):
        return PlaceReason.READ_DISCARDED
    if again:
        return PlaceReason.REPEATS
    return PlaceReason.INSIDE_DIVERGED if part is _D and into else PlaceReason.EXACT
