"""Which set ends its copiers, and how the others are kept out of it. Pure; times are seconds of one steady clock.

A copier that ends says nothing of which of its sets was to blame; the first end is nobody's fault. A set whose copier
ends again, less than `SURVIVED_S` after taking it over, is a suspect. Suspects are searched by halves:

1. The suspects of one end are split in two halves, each on a copier of its own with nobody else: a *ward*.
2. A ward whose copier ends has the guilty one in it. It is split again and its other half is let out. So is a half that
   has outlived its trial. Whoever was let out counts on as a suspect, but may be anywhere.
3. A set that has been held for `SURVIVED_S` without an end is cleared, whatever was thought of it.
4. A set that is the only suspect is divided: the search goes on among its partitions (`to_divide`, `divided`).
5. A set that is the only suspect and cannot be divided, at its fifth end in a row or a later one, is quarantined: with
   the reason, tried again, alone, every ten minutes or when the operator says so.

So one guilty set among n is alone after log2(n) + 2 ends. With as many copiers to spare as there are wards (two for one
guilty set), only sets that were with it at its second end fall with it later. Several guilty ones are found side by
side. If suspicion was wrong, the price is a second's wait, and a copier or two more for some seconds.

Somebody may be killing copiers, or a machine fails them. So only a *row* of ends is evidence: the last three while it
was alone, each of the same kind of cause, in between no copier has ended that held no suspect, and one other has lived
through it all. Where none has (there is but one, or all end), it takes a longer row.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

SURVIVED_S = 60.0
"""An end that comes later than this after a set was taken over is not held against that set."""
TRIAL_S = 10.0
TRIAL_FACTOR = 3.0
"""A half is let out when it has lived so many times as long as the copier that put it under suspicion."""
QUARANTINE_ENDS = 5
QUARANTINE_ROW = 3
"""So many of them without company, of one kind, with another copier that lived meanwhile."""
UNWITNESSED_ROW = 8
"""So many where no other copier has lived through them."""
DIVIDE_ENDS = 2
"""A set is not divided at the first end that is held against it."""
RETRY_S = 600.0
MOST_WAIT_S = 60.0
SEARCH_WAIT_S = 4.0
"""The longest wait while a suspect has company: each end of the search halves it, and the innocent wait too."""


class SetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a set has been through. Only sets that have no clean record have one at all."""

    ends: int
    """How many copiers in a row have ended with it, each soon after taking it over (the first at any time)."""
    lived_s: float = 0.0
    """How long the last of them had held it."""
    not_before_s: float = 0.0
    ward: tuple[str, ...] = ()
    """The suspects that may share a copier with it, itself among them; empty: it may be anywhere."""
    other_half: tuple[str, ...] = ()
    """The ward that was split off together with this one."""
    reason: str = ""
    """Why it is in quarantine; empty when it is not."""
    row: int = 0
    """How many of its last ends it was the only suspect at, all of one kind of cause."""
    kind: str = ""
    """That kind: the cause without its numbers."""
    row_since_s: float = 0.0
    """When the first end of the row was."""


Records = Mapping[str, SetRecord]


def after_survival(records: Records, held: Mapping[str, float], now_s: float) -> dict[str, SetRecord]:
    """Let out and clear what has lived long enough. `held`: set -> since when its living copier holds it."""
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
    """Note that a copier has ended unasked. `held`: the sets it really held -> since when; `witness_s`: for how long
    the oldest other copier of the flow has lived.
    """
    left = after_survival(records, held, now_s)
    if not any(left[set_id].ward for set_id in held if set_id in left):
        # copiers end without a suspect too: what came in a row before says less than it seemed
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
    """Before `after_end`: name the set that is to be divided first, because it is the only suspect left."""
    left = after_survival(records, held, now_s)
    suspects = _suspects(left, held)
    return suspects[0] if len(suspects) == 1 and left[suspects[0]].ends >= DIVIDE_ENDS else None


def divided(records: Records, set_id: str, parts: tuple[str, ...]) -> dict[str, SetRecord]:
    """Suspect the parts of a set in its place."""
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
        reason = f"{ends} copiers in a row ended soon after taking it over, the last one with: {cause}"
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
    """Let the other half of a guilty ward out; its ends still count, so that another guilty set is found soon."""
    out = {records[set_id].other_half for set_id in guilty} - {()}
    return {set_id: SetRecord(ends=record.ends) if record.ward in out else record for set_id, record in records.items()}


def released(records: Records, set_id: str) -> dict[str, SetRecord]:
    """Try a quarantined set now, because the operator says so: alone, and with its count begun anew."""
    return {**records, set_id: SetRecord(ends=1, ward=(set_id,))} if set_id in records else dict(records)


def remembered(reason: str, failures: int, set_id: str, now_s: float) -> SetRecord:
    """Go on with the quarantine of an earlier supervisor; its next try is as far away as after an end."""
    return SetRecord(
        ends=max(failures, QUARANTINE_ENDS),
        not_before_s=now_s + RETRY_S,
        ward=(set_id,),
        reason=reason,
        row=UNWITNESSED_ROW - 1,  # one more end, of whatever kind: it is back
    )


def waiting(records: Records, now_s: float) -> frozenset[str]:
    """Name the sets that nobody is to have now."""
    return frozenset(set_id for set_id, record in records.items() if record.not_before_s > now_s)


def wards(records: Records, now_s: float) -> tuple[tuple[str, ...], ...]:
    """List the groups of suspects that need a copier of their own now, the one that came first first."""
    found: defaultdict[tuple[float, tuple[str, ...]], list[str]] = defaultdict(list)
    for set_id, record in sorted(records.items()):
        if record.ward and record.not_before_s <= now_s:
            found[record.not_before_s, record.ward].append(set_id)
    return tuple(tuple(found[key]) for key in sorted(found))


class Apart(msgspec.Struct, frozen=True):
    """Where suspects go; a ward that is not in `owners` waits. In `rooms` nobody else may stay."""

    owners: dict[str, str]
    rooms: frozenset[str]


def place_apart(groups: Sequence[Sequence[str]], owners: Mapping[str, str], copiers: Sequence[str]) -> Apart:
    """Give each ward a copier of its own: the one it is on, else the one with the fewest other sets.

    Whoever else is there has to leave: hand `rooms` to `balance` as `leaving`. With one copier more than wards nobody
    is disturbed; with as many, one ward and the others share; with fewer, wards wait until another is judged.
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
