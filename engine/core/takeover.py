"""How much MM2 copied behind its last position, found by content.

MM2 writes positions now and then (every minute by default), so after a kill its target holds records that no position
tells of. It appends in order, so the target's last k records are the first k behind the position: k is wanted.

    source   .. a b c | d e f g h ..        | MM2's position
    target   .. a b c   d e f               k = 3

Every k for which the target's end equals the source's beginning is a candidate (the borders of Knuth, Morris, Pratt);
the one that also has the records *before* the position in its place is believed, if it is the only one.
"""

from collections.abc import Sequence

import msgspec

from engine.wire.records import Record

CERTAIN = 32
"""Records before the position, all different, that make a candidate certain without a look at all others."""


class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """What the target holds behind the position: `records` of the source; None where that is not certain.

    `doubtful`: where it is not certain, how many records behind the position may be there at most.
    `proven`: whether no longer look at the two logs could find another answer.
    """

    records: int | None
    doubtful: int = 0
    proven: bool = False


def fingerprint(record: Record, *, timed: bool) -> int:
    """Return a number for key, value, headers and (where the target keeps it) timestamp; 64 bits, this process only."""
    return hash((record.key, record.value, record.headers, record.timestamp if timed else None))


def copied_behind(before: Sequence[int], source: Sequence[int], target: Sequence[int]) -> Behind:
    """Find how many records of `source` the target ends with.

    `before`: fingerprints of the source's records up to the position, `source`: from the position on, `target`: of the
    target's last records, each in log order.
    """
    candidates = _borders(source, target)
    joined = [records for records in candidates if _joins(before, target, records)]
    if len(joined) == 1:
        context = min(len(before), len(target) - joined[0])
        certain = context >= CERTAIN and len(set(before[-context:])) == context
        return Behind(records=joined[0], proven=certain)
    if not joined and len(candidates) == 2:
        return Behind(records=candidates[0])  # MM2 began twice at this position: what stands before is its first try
    return Behind(records=None, doubtful=joined[0] if joined else _behind_last(before, target))


def _borders(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """Return every k, longest first and 0 last, for which the last k of `target` are the first k of `source`."""
    fail = [0] * (len(source) + 1)
    longest = 0
    for at in range(1, len(source)):
        longest = _extend(source, fail, longest, source[at])
        fail[at + 1] = longest
    longest = 0
    for one in target:
        longest = _extend(source, fail, longest, one)
    found = [longest]
    while found[-1]:
        found.append(fail[found[-1]])
    return found


def _extend(source: Sequence[int], fail: list[int], matched: int, one: int) -> int:
    while matched and (matched == len(source) or source[matched] != one):
        matched = fail[matched]
    return matched + 1 if matched < len(source) and source[matched] == one else 0


def _joins(before: Sequence[int], target: Sequence[int], records: int) -> bool:
    """Whether the target has the records before the position right before these, as far back as both are known."""
    context = min(len(before), len(target) - records)
    if not context:
        return len(target) == records
    first = len(target) - records - context
    return all(
        one == other
        for one, other in zip(before[len(before) - context :], target[first : first + context], strict=True)
    )


def _behind_last(before: Sequence[int], target: Sequence[int]) -> int:
    """Return how many target records stand behind the last copy of the position's record; all of them without one."""
    for at in range(len(target) - 1, -1, -1):
        if before and target[at] == before[-1]:
            return len(target) - 1 - at
    return len(target)
