"""Chooses the stretch of a lane that a proof reads: as requested, within map and logs, minus the proven part. Pure."""

from typing import NamedTuple

import msgspec

from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.jobs.proof.model import Proven
from engine.jobs.proof.plan import MapColumns, ProofLane
from policies.model import LaneName


class Known(msgspec.Struct, kw_only=True):
    """The input for one lane: its map, and (start, readable end) of both logs.

    `runs` reach beyond the requested stretch, at least one run below it. `since`, `until`: source offsets, -1: not set.
    """

    name: LaneName
    begins: MapStart
    head: MapHead
    runs: MapColumns
    source_bounds: tuple[int, int]
    target_bounds: tuple[int, int]
    since: int = -1
    until: int = -1
    before: Proven | None = None


class Stretch(NamedTuple):
    """The stretch to read, the start of the proven stretch, and how many copied records and offsets are left out."""

    lane: ProofLane
    proven_from: int
    not_comparable: int
    unmapped: int


def asked(begins: MapStart, head: MapHead, since: int, until: int) -> tuple[int, int]:
    """Return the requested source offsets [from, to), as far as the map reaches."""
    low = max(begins.source, since)
    return low, max(low, head.source_next if until < 0 else min(head.source_next, until))


def stretch_of(known: Known) -> Stretch:
    """Find the stretch, without what retention deleted on one side, and without what was proven from the same start."""
    begins, head = known.begins, known.head
    wanted_from, wanted_to = asked(begins, head, known.since, known.until)
    whole = known.runs.clip(wanted_from, wanted_to)
    low = max(wanted_from, known.source_bounds[0])
    if known.target_bounds[0] > begins.target:
        low = max(low, whole.source_of(known.target_bounds[0], wanted_to))
    low = min(low, wanted_to)
    proven_from = start = low
    before = known.before
    if before is not None and before.source_from <= low <= before.source_to:
        proven_from, start = before.source_from, min(before.source_to, wanted_to)
    target_to = head.target_next
    if wanted_to < head.source_next:
        target_to = known.runs.behind(wanted_to, begins.target)
    lane = ProofLane(
        name=known.name,
        runs=known.runs.clip(start, wanted_to),
        source_from=start,
        source_to=wanted_to,
        target_from=_target_from(known, start, target_to),
        target_to=max(target_to, known.target_bounds[0]),
        source_bounds=known.source_bounds,
        target_bounds=known.target_bounds,
    )
    below = 0 if begins.first else max(0, begins.source - known.source_bounds[0])
    return Stretch(lane, proven_from, whole.clip(wanted_from, low).records, below)


def _target_from(known: Known, start: int, target_to: int) -> int:
    """Start right behind the copy of the records before, so that records in between, which are no copies, are read."""
    if start == known.begins.source:
        found = known.begins.target
    else:
        found = known.runs.behind(start, known.runs.target_of(start, target_to))
    return max(found, known.target_bounds[0])
