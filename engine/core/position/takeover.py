"""Finds how many records MM2 copied after its last position, by their content.

MM2 writes positions from time to time (every minute by default), so after a kill its target holds records that no
position counts. MM2 appends in order, so the target's last k records are the first k after the position. This module
finds k.

    source   .. a b c | d e f g h ..        | MM2's position
    target   .. a b c   d e f               k = 3

Every k for which the target's end equals the source's beginning is a candidate (the borders of Knuth, Morris, Pratt).
A candidate is accepted if the target also has the records *before* the position right before these k, and if it is the
only such candidate. If no record before the position is known, equal content is no proof: on a target with log-append
times all records of a topic may be alike.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import msgspec

from engine.wire.records import Record

CERTAIN = 32
"""The number of records, all different, that make a candidate certain: before the position, without checking other
candidates; after the position, if no record before it is known."""


class BehindPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The number of source `records` that the target holds after the position; None if that is not certain.

    `doubtful`: if it is not certain, the most records after the position that the target may have.
    `proven`: reading more of the two logs could not change the answer.
    """

    records: int | None
    doubtful: int = 0
    proven: bool = False


def fingerprint(record: Record, *, timed: bool) -> int:
    """Hash key, value, headers and (if the target keeps it) timestamp to 64 bits; valid in this process only."""
    return hash((record.key, record.value, record.headers, record.timestamp if timed else None))


def copied_behind(
    before: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    *,
    whole: bool = False,
    timed: bool = False,
) -> BehindPosition:
    """Find with how many records of `source` the target ends.

    `before`: fingerprints of the source's records up to the position, `source`: from the position on, `target`: of the
    target's last records, each in log order. `whole`: `before` and `target` begin with the first records that their
    logs ever had. `timed`: the fingerprints include timestamps, so one record that occurs only once is proof enough.
    """
    candidates = _borders(source, target)
    joined = [records for records in candidates if _joins(before, target, records)]
    if len(joined) == 1:
        records = joined[0]
        context = _context(before, target, records)
        certain = context >= CERTAIN and len(set(before[-context:])) == context
        if context or whole or _telling(before, source, target, records) >= (1 if timed else CERTAIN):
            return BehindPosition(records=records, proven=certain)
    if not joined and len(candidates) == 2 and _began_again(before, source, target, candidates[0], whole=whole):
        return BehindPosition(records=candidates[0])
    return BehindPosition(records=None, doubtful=joined[0] if joined else _behind_last(before, target))


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
    """Whether the target has the records before the position right before these `records`, as far as both are known."""
    context = _context(before, target, records)
    if not context:
        return len(target) == records
    first = len(target) - records - context
    return all(
        one == other
        for one, other in zip(before[len(before) - context :], target[first : first + context], strict=True)
    )


def _context(before: Sequence[int], target: Sequence[int], records: int) -> int:
    """Return how many records before these `records` are known on both sides."""
    return min(len(before), len(target) - records)


def _telling(before: Sequence[int], source: Sequence[int], target: Sequence[int], records: int) -> int:
    """Count the records that occur only once on each side: unknown older records are hardly equal to them."""
    here, there = Counter(chain(before, source)), Counter(target)
    return sum(here[one] == there[one] == 1 for one in source[:records])


def _began_again(
    before: Sequence[int], source: Sequence[int], target: Sequence[int], records: int, whole: bool
) -> bool:
    """Whether these records come after an earlier try of MM2 that began at this position or at an earlier one.

    After a try from an earlier position, the position's record is right before these records. After a try from this
    position, it is right before that try.
    """
    rest, last = target[: len(target) - records], before[-1:]
    if last and target[-1:] == last:
        return False  # the target may also end with the position's record itself
    if last and rest[-1:] == last:
        return True
    first_try = _borders(source, rest)[0]
    start = len(rest) - first_try
    return first_try > 0 and ((whole and not start) or (bool(last) and rest[start - 1 : start] == last))


def _behind_last(before: Sequence[int], target: Sequence[int]) -> int:
    """Return how many target records follow the last copy of the position's record; all of them if there is none."""
    for at in range(len(target) - 1, -1, -1):
        if before and target[at] == before[-1]:
            return len(target) - 1 - at
    return len(target)
