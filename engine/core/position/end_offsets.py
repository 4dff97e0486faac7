"""Explains why a copy ends at another offset than its source.

    source   |= start ..... |== copied ==|- left out -|== copied ==|- waiting -| end
    target   |= start ..... |== copied ==| marker |======= copied =======| strangers | end

The lane's map gives the copied parts; batch headers show the kind of the offsets outside the map. Every offset of both
logs is in one of these parts, so the difference of the ends is the sum of their sizes.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from engine.core.offset_map.map_runs import MapHead, MapRun, MapStart
from engine.core.position.target_tail import TailBatch
from policies.words import counted


class EndsVerdict(Enum):
    """The result of the comparison of one partition."""

    EQUAL = "equal"
    """Both logs end at the same offset."""
    EXPLAINED = "explained"
    """The logs end at different offsets, and every offset of the difference is accounted for."""
    UNEXPLAINED = "not explained"
    """The copy has offsets that are neither copied records nor markers."""
    UNKNOWN = "unknown"
    """This partition has no map: raymirror has not copied it yet, or the map cannot be read."""


class EndsRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: both end offsets, and the parts of their difference, in offsets.

    `copied`: records in the copy. Source offsets: `left_out` (markers, aborted and compacted records, records that the
    target refused), `waiting` (not copied yet). Target offsets: `markers` (of raymirror's barriers and transactions),
    `rolled_back`, `replayed` (from the quarantine topic), `strangers` (records of other writers), `gone` (no longer in
    the log), `unseen` (too many to inspect). `shift`: target offset minus source offset at the start of the copy.
    """

    topic: str
    partition: int
    target_topic: str
    source_start: int
    source_end: int
    target_start: int = -1
    target_end: int = -1
    copied: int = 0
    left_out: int = 0
    waiting: int = 0
    markers: int = 0
    rolled_back: int = 0
    replayed: int = 0
    strangers: int = 0
    gone: int = 0
    unseen: int = 0
    shift: int = 0
    whole: bool = False
    """Whether the map starts at the start of the copy."""
    verdict: EndsVerdict = EndsVerdict.UNKNOWN
    why: str = ""

    @property
    def fine(self) -> bool:
        """Whether the ends are equal, or their difference is explained."""
        return self.verdict in (EndsVerdict.EQUAL, EndsVerdict.EXPLAINED)


class Holes(msgspec.Struct, frozen=True):
    """Ranges (first offset, end) of the target's log without a copied record."""

    stretches: tuple[tuple[int, int], ...]

    @property
    def offsets(self) -> int:
        """The number of offsets in all ranges."""
        return sum(end - first for first, end in self.stretches)


def target_holes(runs: Iterable[MapRun], first: int, end: int) -> Holes:
    """Find the ranges between the runs of a map, from target offset `first` up to `end`."""
    found: list[tuple[int, int]] = []
    at = first
    for run in runs:
        if run.target >= end:
            break
        if run.target > at:
            found.append((at, run.target))
        at = max(at, run.target + run.count)
    if at < end:
        found.append((at, end))
    return Holes(tuple(found))


class Kinds(msgspec.Struct):
    """The offsets in holes, counted by kind. `replayers`: the producers that replay refused records."""

    replayers: frozenset[int] = frozenset()
    markers: int = 0
    rolled_back: int = 0
    replayed: int = 0
    strangers: int = 0
    gone: int = 0

    def add(self, first: int, end: int, batches: Sequence[TailBatch]) -> None:
        """Count the offsets of one hole by its batch headers; offsets without a batch are `gone`."""
        seen = 0
        for batch in batches:
            size = min(batch.next_offset, end) - max(batch.base_offset, first)
            if size <= 0:
                continue
            seen += size
            if batch.is_marker:
                self.markers += size
            elif batch.is_control:
                self.rolled_back += size
            elif batch.producer_id in self.replayers:
                self.replayed += size
            else:
                self.strangers += size
        self.gone += end - first - seen


def compare_ends(
    row: EndsRow, begins: MapStart, head: MapHead, runs: Sequence[MapRun], kinds: Kinds, unseen: int
) -> EndsRow:
    """Complete `row`, which has the starts and ends of both logs, with the map's counts and the verdict."""
    first, end = max(row.source_start, begins.source), head.source_next
    in_source = sum(max(0, min(run.source + run.count, end) - max(run.source, first)) for run in runs)
    full = msgspec.structs.replace(
        row,
        copied=_on_target(row, runs),
        left_out=max(0, end - first) - in_source,
        waiting=max(0, row.source_end - head.source_next),
        markers=kinds.markers,
        rolled_back=kinds.rolled_back,
        replayed=kinds.replayed,
        strangers=kinds.strangers,
        gone=kinds.gone,
        unseen=unseen,
        shift=begins.target - begins.source,
        whole=begins.first or begins.target == 0,
    )
    verdict = _verdict(full)
    return msgspec.structs.replace(full, verdict=verdict, why=_why(full, verdict))


def _on_target(row: EndsRow, runs: Iterable[MapRun]) -> int:
    return sum(max(0, min(run.target + run.count, row.target_end) - max(run.target, row.target_start)) for run in runs)


def _verdict(row: EndsRow) -> EndsVerdict:
    if row.strangers or row.gone or row.unseen or not row.whole:
        return EndsVerdict.UNEXPLAINED
    return EndsVerdict.EQUAL if row.source_end == row.target_end else EndsVerdict.EXPLAINED


def _why(row: EndsRow, verdict: EndsVerdict) -> str:
    """Name the parts of the difference; empty if there is none."""
    parts = (
        (row.markers, counted(row.markers, "marker")),
        (row.rolled_back, f"{counted(row.rolled_back, 'offset')} of rolled-back transactions"),
        (row.left_out, f"{counted(row.left_out, 'source offset')} without a record to copy"),
        (row.replayed, f"{counted(row.replayed, 'record')} replayed from the quarantine topic"),
        (row.waiting, f"{row.waiting} not copied yet"),
        (row.shift if row.whole else 0, f"the copy starts {abs(row.shift)} {'below' if row.shift < 0 else 'above'}"),
        (row.strangers, f"{counted(row.strangers, 'record')} of another writer"),
        (row.gone, f"{counted(row.gone, 'offset')} no longer in the log"),
        (row.unseen, f"{counted(row.unseen, 'offset')} not inspected"),
        (not row.whole, "the map starts later than the copy"),
    )
    said = ", ".join(text for size, text in parts if size)
    if verdict is EndsVerdict.UNEXPLAINED:
        return f"{said}: run `raymirror verify`"
    return "" if verdict is EndsVerdict.EQUAL and not row.markers else said
