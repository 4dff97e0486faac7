"""Which stretch of a lane a proof reads: as asked, as map and logs reach, without what is proven already. Pure."""

from typing import NamedTuple

import msgspec

from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.jobs.proof.model import Proven
from engine.jobs.proof.plan import MapColumns, ProofLane
from policies.model import LaneName


class Known(msgspec.Struct, kw_only=True):
    """What is known of a lane: its map, and (begin, readable end) of both logs.

    `runs` reach beyond what is asked, one below it at least. `since`, `until`: source offsets, -1 where none is asked.
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
    """What is to be read, where the proven stretch begins, and how many copied records and offsets are left out."""

    lane: ProofLane
    proven_from: int
    not_comparable: int
    unmapped: int


def asked(begins: MapStart, head: MapHead, since: int, until: int) -> tuple[int, int]:
    """Return the source offsets [from, to) that are asked for, as far as the map reaches."""
    low = max(begins.source, since)
    return low, max(low, head.source_next if until < 0 else min(head.source_next, until))


def stretch_of(known: Known) -> Stretch:
    """Find it. What retention has eaten on one side is left out, and so is what was proven from the same begin on."""
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
    """Begin right behind the copy of what comes before: what lies between belongs to nobody."""
    if start == known.begins.source:
        found = known.begins.target
    else:
        found = known.runs.behind(start, known.runs.target_of(start, target_to))
    return max(found, known.target_bounds[0])
