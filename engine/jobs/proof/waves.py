"""Compares lanes in waves: first one digest per range, then record by record in ranges whose digests differ."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

import msgspec

from engine.base.clock import now_s
from engine.jobs.proof import rules
from engine.jobs.proof.align import AlignedPair, Content, FoundDifference, align, gone
from engine.jobs.proof.model import DifferenceKind, ProofOptions, ProofStopped
from engine.jobs.proof.place import ProofPlace, Row, Stretch, Table
from engine.jobs.proof.plan import LanePart, ProofLane, expected, piece_of, waves
from engine.jobs.runtime.core_budget import CoreBudget

AROUND = 5_000
"""Offsets before and after a stretch that are read with it: if all records moved, their copies may lie there."""
MOST_ROUNDS = 8
"""Comparisons record by record per wave; a lane's stretches that are left then are compared as one."""
TURN_RECORDS = 500_000
"""Source offsets that one task reads if the number of tasks is limited for the sake of streams: some seconds."""


class LaneCount(msgspec.Struct, kw_only=True):
    """The result of one lane; `bad_from` is the first source offset that is not proven, -1: none."""

    records: int = 0
    payload_bytes: int = 0
    not_comparable: int = 0
    left_out: int = 0
    replayed: int = 0
    found: list[FoundDifference] = []
    more: int = 0
    bad_from: int = -1
    note: str = ""

    @property
    def differences(self) -> int:
        """Count the records that differ, whether named or not."""
        return sum(one.records for one in self.found) + self.more


class Prover(Generic[Table]):
    """Compares lanes at a place, and calls `tell` with the source offsets done and the differences found.

    It calls `tell` after each wave, and also during a wave if the place reports its reading.
    `share`: the core budget, asked for each wave; without one, all cores.
    """

    def __init__(
        self,
        place: ProofPlace[Table],
        options: ProofOptions,
        lanes: Sequence[ProofLane],
        tell: Callable[[int, int], None] = lambda _done, _found: None,
        stopped: Callable[[], bool] = lambda: False,
        share: CoreBudget | None = None,
    ) -> None:
        self._place, self._options, self._lanes = place, options, lanes
        self._tell, self._stopped, self._share = tell, stopped, share or CoreBudget(streams=False)
        self.tallies = [LaneCount() for _ in lanes]
        self.read_s, self._done = 0.0, 0

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""
        return self._place.cores

    def run(self) -> None:
        """Prove all lanes. Raises ProofStopped."""
        options, most_tasks = self._options, self._share.most_tasks
        records = min(options.wave_records, most_tasks * TURN_RECORDS or options.wave_records)
        done = 0
        for wave in waves(self._lanes, records, options.wave_runs, options.wave_lanes):
            with self._share.turn:
                if self._stopped():
                    raise ProofStopped
                began_s = now_s()
                self._wave(wave)
                self.read_s += now_s() - began_s
            done += sum(piece.offsets for piece in wave)
            self._done = done
            self._advance(0)

    def _advance(self, offsets: int) -> None:
        """Report the progress after `offsets` more source offsets were read."""
        self._done += offsets
        self._tell(self._done, sum(one.differences for one in self.tallies))

    # --- a digest per range ----------------------------------------------------------------------------------

    def _wave(self, wave: Sequence[LanePart]) -> None:
        began_s, most_tasks = now_s(), self._share.most_tasks
        self._place.share(most_tasks)
        rows = self._digests(wave, most_tasks)
        self._place.measured(sum(one["records"] for _, one in rows), now_s() - began_s)
        bad: dict[int, list[Stretch]] = {}
        for piece in wave:
            ours, theirs = ([row for side, row in rows if (row["lane"], side) == (piece.lane, n)] for n in (0, 1))
            tally = self.tallies[piece.lane]
            tally.records += sum(row["records"] for row in ours)
            tally.payload_bytes += sum(row["bytes"] for row in ours)
            stretches = self._stretches(piece, self._differing(piece, ours, theirs))
            if stretches:
                bad[piece.lane] = stretches
        while bad:
            some = list(bad)[: self._options.looked_at_once]
            self._look_into({lane: bad[lane].pop(0) for lane in some})
            bad = {lane: stretches for lane, stretches in bad.items() if stretches}

    def _digests(self, wave: Sequence[LanePart], most_tasks: int) -> list[tuple[int, Row]]:
        """Compute the digests of both sides, each with the number of its side (0: source, 1: target)."""
        place, ends = self._place, {piece.lane: (piece.source_to, piece.target_to) for piece in wave}
        source, target = place.records(wave, ends, few=True, advance=self._advance)
        steps = place.table(rules.STEPS, [(piece.lane, piece.source_from) for piece in wave])
        ranged = rules.ranged(self._options.range_records)
        ours, theirs = (place.query(ranged, records=side, steps=steps) for side in (source, target))
        return place.sides(ours, theirs, rules.digests(place.dialect), most_tasks)

    def _differing(self, piece: LanePart, ours: Sequence[Row], theirs: Sequence[Row]) -> set[int]:
        """Return the numbers of ranges that differ, or in which the source has fewer records than the map counts."""
        size = self._options.range_records
        one, other = ({row["range"]: (row["records"], row["d1"], row["d2"]) for row in rows} for rows in (ours, theirs))
        other.pop(rules.NO_RANGE, None)
        bad = {number for number in one.keys() | other.keys() if one.get(number) != other.get(number)}
        if not self._lanes[piece.lane].compacts:  # Spark skips what it cannot read, and both logs may be cut
            counts = {number: records for number, (records, _, _) in one.items()}
            bad |= {number for number, count in enumerate(expected(piece, size)) if counts.get(number, 0) < count}
        for row in theirs:
            if row["range"] == rules.NO_RANGE:  # another producer's records, between two of raymirror's
                first = piece.runs.source_before(row["first"], piece.source_from)
                last = min(piece.runs.source_of(row["last"], piece.source_to), piece.source_to - 1)
                bad |= set(range((first - piece.source_from) // size, (last - piece.source_from) // size + 1))
        return bad

    def _stretches(self, piece: LanePart, bad: set[int]) -> list[Stretch]:
        """Join neighbouring ranges; if a log compacts, or if they are too many, join all remaining ones into one."""
        size, found = self._options.range_records, list[list[int]]()
        for number in sorted(bad):
            most = 1 if self._lanes[piece.lane].compacts else MOST_ROUNDS
            if found and (number == found[-1][1] or len(found) == most):
                found[-1][1] = number + 1
            else:
                found.append([number, number + 1])
        start = piece.source_from
        return [(start + first * size, min(start + last * size, piece.source_to)) for first, last in found]

    # --- record by record ------------------------------------------------------------------------------------

    def _look_into(self, stretches: Mapping[int, Stretch]) -> None:
        """Name the differences in one stretch of each lane."""
        wide, ends, windows = list[LanePart](), dict[int, Stretch](), list[tuple[int, ...]]()
        cores: dict[int, LanePart] = {}
        for number, (first, last) in stretches.items():
            lane = self._lanes[number]
            core = cores[number] = piece_of(number, lane, first, last)
            low, high = max(0, first - AROUND), last + AROUND
            beside = max(0, core.target_from - AROUND), core.target_to + AROUND
            wide.append(
                LanePart(number, low, high, *beside, lane.runs.clip(low, lane.source_to if lane.compacts else high))
            )
            ends[number] = (lane.source_bounds[1], lane.target_bounds[1]) if lane.compacts else (high, beside[1])
            windows.append((number, low, high, *beside, first, last))
        source, target = self._place.records(wide, ends)
        rows = self._unlike(source, target, windows, list(stretches))
        share = self._options.most_looked_into
        for number, core in cores.items():
            mine = [row for row in rows if row["lane"] == number]
            self._judge(core, mine, cut=sum(row["at"] is not None for row in mine) == share)

    def _unlike(self, source: Table, target: Table, windows: Sequence[tuple[int, ...]], lanes: list[int]) -> list[Row]:
        """Pair the records of both sides; if a log compacts, leave out equal and excused pairs, and count the excused.

        A stretch of a log that compacts may be wide. Elsewhere equal pairs are needed too, to detect wrong order.
        """
        place, first = self._place, rules.first_of(self._options.most_looked_into)
        source = self._accepted(source, windows)
        window = place.table(rules.WINDOWS, windows)
        ours = place.query(rules.inside("s"), records=source, windows=window)
        theirs = place.query(rules.inside("t"), records=target, windows=window)
        left = place.query(rules.paired(), source=ours, target=theirs)
        compacting = [
            (n, self._lanes[n].source_compacts, self._lanes[n].target_compacts)
            for n in lanes
            if self._lanes[n].compacts
        ]
        if not compacting:
            return place.rows(place.query(first, left=place.query(rules.unexcused(), left=left)))
        table = place.table(rules.COMPACTING, compacting)
        left = place.query(rules.unequal(), left=left, compacting=table)
        last = place.query(rules.latest(), source=source, target=target)
        with place.kept(place.query(rules.superseded(), left=left, last=last, compacting=table)) as judged:
            for row in place.rows(place.query(rules.excused(), left=judged, windows=window)):
                self.tallies[row["lane"]].not_comparable += row["excused"]
            return place.rows(place.query(first, left=judged))

    def _accepted(self, source: Table, windows: Sequence[tuple[int, ...]]) -> Table:
        """Take the refused records of logs that compact out of the source, and count them.

        Else a later record of the same key would excuse them, and they would excuse earlier ones.
        """
        refused = list[tuple[int, int]]()
        for number, *_, first, last in windows:
            if self._lanes[number].compacts:
                left_out = self._lanes[number].left_out
                refused += [(number, offset) for offset in sorted(left_out)]
                self.tallies[number].left_out += sum(first <= offset < last for offset in left_out)
        if not refused:
            return source
        return self._place.query(rules.accepted(), records=source, refused=self._place.table(rules.REFUSED, refused))

    def _judge(self, core: LanePart, rows: Sequence[Row], *, cut: bool) -> None:
        lane, tally = self._lanes[core.lane], self.tallies[core.lane]
        first, last = core.source_from, core.source_to
        places = self._without_refused(core, [_pair(row) for row in rows])
        if cut:
            last = max(first + 1, max(one.at for one in places) - AROUND)
            tally.note = f"too much differs from source offset {last} on: the rest was not compared record by record"
        known = [one for one in places if first <= one.at < last and not one.equal]
        aligned = align(places, lambda offset: lane.runs.target_of(offset, lane.target_to))
        behind = core.target_to if not cut else lane.runs.target_of(last, lane.target_to)
        found = [one for one in aligned.found if _counts(one, (first, last), (core.target_from, behind))]
        if not lane.compacts:
            found += gone(lane.runs.clip(first, last), (one.at for one in places))
        tally.not_comparable += aligned.stamped
        if not found and len(known) > aligned.stamped and tally.bad_from < 0:
            start = min(known, key=lambda one: one.at)
            place = lane.runs.target_of(start.at, lane.target_to)
            found = [
                FoundDifference(
                    DifferenceKind.SHIFTED, start.at, place, "it and those behind it are not where the map says"
                )
            ]
        if found or cut:
            tally.bad_from = first if tally.bad_from < 0 else min(tally.bad_from, first)
        told = max(0, self._options.most_told - sum(len(one.found) for one in self.tallies))
        tally.found = [*tally.found, *found[:told]]
        tally.more += sum(one.records for one in found[told:])

    def _without_refused(self, core: LanePart, places: Sequence[AlignedPair]) -> list[AlignedPair]:
        """Take out, and count, records that were left out of the copy, and those that were replayed behind it.

        Else a record with the same contents could be taken for the copy of one that was left out.
        """
        lane, tally, kept = self._lanes[core.lane], self.tallies[core.lane], list[AlignedPair]()
        for one in places:
            if one.theirs is None and one.source in lane.left_out:
                tally.left_out += core.source_from <= one.source < core.source_to
            elif one.ours is None and one.target in lane.replayed:
                tally.replayed += core.target_from <= one.target < core.target_to
            else:
                kept.append(one)
        return kept


def _pair(row: Row) -> AlignedPair:
    ours, theirs = (_content(row, side) for side in ("s", "t"))
    source, target, at = (-1 if row[name] is None else row[name] for name in ("s_offset", "t_offset", "at"))
    return AlignedPair(source, target, at, ours, theirs)


def _content(row: Row, side: str) -> Content | None:
    if row[f"{side}_offset"] is None:
        return None
    return Content(*(row[f"{side}_{name}"] for name in ("h1", "h2", *rules.FIELDS)))


def _counts(one: FoundDifference, source: Stretch, target: Stretch) -> bool:
    """Whether a difference lies within the stretch, not around it."""
    if one.kind is DifferenceKind.EXTRA:
        return target[0] <= one.target < target[1]
    return source[0] <= one.source < source[1]
