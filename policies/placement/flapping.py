"""Finds the set that ends its copiers, and protects the other sets. Pure; times are seconds of one steady clock.

The end of a copier does not show which of its sets caused it; the first end is held against no set. A set whose copier
ends again, less than `SURVIVED_S` after taking it over, is a suspect. The search halves the suspects:

1. The suspects of one end are split into two halves, each on its own copier without other sets: a *ward*.
2. If the copier of a ward ends, the guilty set is in that ward. It is split again, and its other half is released. A
   half that has outlived its trial is released too. A released set is still a suspect, but may be on any copier.
3. A set that its copier has held for `SURVIVED_S` without an end is cleared.
4. If one set is the only suspect, it is divided: the search continues among its partitions (`to_divide`, `divided`).
5. If the only suspect cannot be divided, it is quarantined at its fifth end in a row or a later one. Raymirror reports
   the reason, and tries the set again, alone, every ten minutes or when the operator asks for it.

So one guilty set among n is alone after log2(n) + 2 ends. If a spare copier exists for each ward (two for one guilty
set), only sets that shared its copier at its second end suffer from later ends. Several guilty sets are found in
parallel. If the suspicion was wrong, the cost is a second's wait, and one or two more copiers for some seconds.

Copiers may also end because someone kills them or a machine fails. So only a *row* of ends is evidence: the set's last
three ends while it was alone, all of the same kind of cause, without an end of a copier with no suspect in between, and
with another copier that survived all of them. If no other copier did (there is only one, or all end), the row must be
longer.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

SURVIVED_S = 60.0
"""Seconds. An end that comes later than this after a set was taken over is not held against that set."""
TRIAL_S = 10.0
TRIAL_FACTOR = 3.0
"""A half is released when it has lived this many times as long as the copier whose end made it suspect."""
QUARANTINE_ENDS = 5
QUARANTINE_ROW = 3
"""The number of ends in a row, alone and of one kind, that are needed if another copier survived all of them."""
UNWITNESSED_ROW = 8
"""The number of ends in a row that are needed if no other copier survived all of them."""
DIVIDE_ENDS = 2
"""The number of ends before a set is divided."""
RETRY_S = 600.0
MOST_WAIT_S = 60.0
SEARCH_WAIT_S = 4.0
"""The longest wait in seconds while several sets are suspects: each end halves their number, and all of them wait."""


class SetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a set whose copiers have ended; other sets have no record."""

    ends: int
    """The number of copiers in a row that ended with it, each soon after taking it over (the first at any time)."""
    lived_s: float = 0.0
    """How long the last of these copiers had held it, in seconds."""
    not_before_s: float = 0.0
    ward: tuple[str, ...] = ()
    """The suspects that may share a copier with it, including itself; empty: it may be on any copier."""
    other_half: tuple[str, ...] = ()
    """The ward that was split off together with this one."""
    reason: str = ""
    """Why it is in quarantine; empty if it is not."""
    row: int = 0
    """The number of its last ends at which it was the only suspect, all of one kind of cause."""
    kind: str = ""
    """The kind of these ends: the cause without its numbers."""
    row_since_s: float = 0.0
    """The time of the first end of the row."""


Records = Mapping[str, SetRecord]


def after_survival(records: Records, held: Mapping[str, float], now_s: float) -> dict[str, SetRecord]:
    """Release and clear sets that have lived long enough. `held`: set -> since when its living copier holds it."""
    lived = {set_id: _after_living(record, now_s - held.get(set_id, now_s)) for set_id, record in records.items()}
    return {set_id: record for set_id, record in lived.items() if record is not None}


def _after_living(record: SetRecord, lived_s: float) -> SetRecord | None:
    if lived_s >= SURVIVED_S:
        return None
    if record.other_half and lived_s >= max(TRIAL_S, TRIAL_FACTOR * record.lived_s):
        return SetRecord(ends=record.ends)
    return record


def after_end(
    records: Records, held: Mapping[str, float], now_s: float, cause: str, witness_s: float = math.inf
) -> dict[str, SetRecord]:
    """Note that a copier has ended unexpectedly. `held`: the sets that it really held -> since when; `witness_s`: the
    age of the flow's oldest other copier.
    """
    left = after_survival(records, held, now_s)
    if not any(left[set_id].ward for set_id in held if set_id in left):
        # copiers end without a suspect too, so earlier rows are weaker evidence than they seemed
        left = {
            set_id: record if record.reason else msgspec.structs.replace(record, row=0)
            for set_id, record in left.items()
        }
    suspects = _suspects(left, held)
    if not suspects:
        return left | {set_id: SetRecord(ends=1) for set_id in held}
    middle = (len(suspects) + 1) // 2
    halves = tuple(suspects[:middle]), tuple(suspects[middle:])
    accused = {
        set_id: _accused(left[set_id], now_s, now_s - held[set_id], cause, ward, other_half, witness_s)
        for ward, other_half in (halves, halves[::-1])
        for set_id in ward
    }
    return _let_out(left, suspects) | accused


def _suspects(records: Records, held: Iterable[str]) -> list[str]:
    known = sorted(set_id for set_id in held if set_id in records)
    return [set_id for set_id in known if records[set_id].ward] or known


def to_divide(records: Records, held: Mapping[str, float], now_s: float) -> str | None:
    """Return the set to divide before `after_end`, because it is the only suspect left; None if none."""
    left = after_survival(records, held, now_s)
    suspects = _suspects(left, held)
    return suspects[0] if len(suspects) == 1 and left[suspects[0]].ends >= DIVIDE_ENDS else None


def divided(records: Records, set_id: str, parts: tuple[str, ...]) -> dict[str, SetRecord]:
    """Replace a suspect set by its parts."""
    record = records[set_id]
    inherited = SetRecord(ends=record.ends, ward=parts, other_half=record.other_half)
    return {known: kept for known, kept in records.items() if known != set_id} | dict.fromkeys(parts, inherited)


def _kind(cause: str) -> str:
    return re.sub(r"[0-9]+", "#", cause)


def _accused(
    record: SetRecord,
    now_s: float,
    lived_s: float,
    cause: str,
    ward: tuple[str, ...],
    other_half: tuple[str, ...],
    witness_s: float,
) -> SetRecord:
    ends, reason, kind, alone = record.ends + 1, "", _kind(cause), not other_half
    row = (record.row if record.kind in (kind, "") else 0) + 1 if alone else 0
    row_since_s = record.row_since_s if row > 1 else now_s
    needed = QUARANTINE_ROW if witness_s >= now_s - row_since_s else UNWITNESSED_ROW
    wait_s = min(SEARCH_WAIT_S if other_half else MOST_WAIT_S, 2.0 ** min(ends - 2, 10))
    if alone and ends >= QUARANTINE_ENDS and row >= needed:
        wait_s = RETRY_S
        reason = f"{ends} copiers in a row ended soon after taking it over; cause of the last end: {cause}"
    return SetRecord(
        ends=ends,
        lived_s=lived_s,
        not_before_s=now_s + wait_s,
        ward=ward,
        other_half=other_half,
        reason=reason,
        row=row,
        kind=kind,
        row_since_s=row_since_s,
    )


def _let_out(records: Records, guilty: Sequence[str]) -> dict[str, SetRecord]:
    """Release the other half of a guilty ward; its ends still count, so that another guilty set is found soon."""
    out = {records[set_id].other_half for set_id in guilty} - {()}
    return {set_id: SetRecord(ends=record.ends) if record.ward in out else record for set_id, record in records.items()}


def released(records: Records, set_id: str) -> dict[str, SetRecord]:
    """Try a quarantined set now, because the operator asks for it: alone, and with its count reset."""
    return {**records, set_id: SetRecord(ends=1, ward=(set_id,))} if set_id in records else dict(records)


def remembered(reason: str, failures: int, set_id: str, now_s: float) -> SetRecord:
    """Continue the quarantine of an earlier supervisor; its next try comes after RETRY_S, as after an end."""
    return SetRecord(
        ends=max(failures, QUARANTINE_ENDS),
        not_before_s=now_s + RETRY_S,
        ward=(set_id,),
        reason=reason,
        row=UNWITNESSED_ROW - 1,  # one more end of any kind quarantines it again
    )


def waiting(records: Records, now_s: float) -> frozenset[str]:
    """Return the sets that no copier may have now."""
    return frozenset(set_id for set_id, record in records.items() if record.not_before_s > now_s)


def wards(records: Records, now_s: float) -> tuple[tuple[str, ...], ...]:
    """Return the groups of suspects that need their own copier now, the oldest first."""
    found: defaultdict[tuple[float, tuple[str, ...]], list[str]] = defaultdict(list)
    for set_id, record in sorted(records.items()):
        if record.ward and record.not_before_s <= now_s:
            found[record.not_before_s, record.ward].append(set_id)
    return tuple(tuple(found[key]) for key in sorted(found))


class Apart(msgspec.Struct, frozen=True):
    """The copiers of suspects; a ward that is not in `owners` waits. No other set may stay on a copier in `rooms`."""

    owners: dict[str, str]
    rooms: frozenset[str]


def place_apart(groups: Sequence[Sequence[str]], owners: Mapping[str, str], copiers: Sequence[str]) -> Apart:
    """Give each ward its own copier: its present one, else the copier with the fewest other sets.

    Other sets must leave that copier: pass `rooms` to `balance` as `leaving`. With more copiers than wards, no ward
    shares a copier. With equal numbers, one ward shares its copier with the other sets. With fewer copiers, wards wait
    until another ward is judged.
    """
    suspects = {set_id for group in groups for set_id in group}
    others = Counter(owner for set_id, owner in owners.items() if set_id not in suspects)
    free = sorted(copiers, key=lambda copier: (others[copier], copier))
    shared = free[-1:]
    placed: dict[str, str] = {}
    at_home_first = sorted(groups, key=lambda group: owners.get(group[0], "") not in free)
    for group in at_home_first[: len(copiers)]:
        home = owners.get(group[0], "")
        room = home if home in free else free[0]
        free.remove(room)
        placed.update(dict.fromkeys(group, room))
    return Apart(placed, frozenset(placed.values()) - frozenset(() if free else shared))
