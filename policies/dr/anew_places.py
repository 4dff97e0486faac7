"""Decides where a group goes in a source topic that was made anew: to the first record that it has not read.

    target, and so the source   P | N .. D .. N     D was copied late, or is discarded

All offsets are those of the new source topic, which has the records of the target in their order. The group's commit on
the target says what it has read of that log. Its earlier commit on the source says what it has read of P and D before.
It skips nothing that it has not read; of D, which lies among N, it may read records again.
"""

import msgspec

from policies.dr.group_moves import SourcePlace
from policies.dr.group_places import PlaceReason


class AnewLog(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a topic that was made anew: where its records of N begin, and where D lies as (first, end)."""

    new_first: int
    late: tuple[tuple[int, int], ...] = ()


def anew_place(log: AnewLog, *, target: int, source: int, discards: bool = False, expired: bool = False) -> SourcePlace:
    """Return the place of a group by its commits, as offsets of the new log (-1: none).

    `target`: the first record that it has not read on the target. `source`: the first one of P and D that it has not
    read on the source; `discards`: it has read records of D that are discarded. `expired`: the target's retention has
    deleted records that it has not read.
    """
    if target < 0 and source < 0:
        return SourcePlace()
    at = max(target, min(source, log.new_first))
    for first, end in log.late:  # what follows is D, and read already
        if first <= at < end:
            at = max(at, min(end, source))
    again = sum(max(0, min(end, source) - max(first, at)) for first, end in log.late)
    return SourcePlace(offset=at, repeats=again, reason=_reason(log, at, source, again, discards, expired))


def _reason(log: AnewLog, at: int, source: int, again: int, discards: bool, expired: bool) -> PlaceReason:
    if expired:
        return PlaceReason.EXPIRED
    if discards:
        return PlaceReason.READ_DISCARDED
    if again:
        return PlaceReason.REPEATS
    is_inside = any(first < at < end for first, end in log.late)
    has_begun = bool(log.late) and log.late[0][0] < source < log.late[-1][1]
    return PlaceReason.INSIDE_DIVERGED if is_inside or has_begun else PlaceReason.EXACT
