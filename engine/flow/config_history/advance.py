"""The step from one look to the next: which rows it makes, and the state after it. Pure, for the loop and Spark alike.

    state + round (look, writes, conflicts) -> advance -> state, rows
      values   rows of what differs on each side, and of what raymirror wrote
      changes  what changed on the source; is it on the copy now? if not: why, and look again in the next round
      drift    what changed on the copy although raymirror did not write it, and is not as it should be

Nothing is known before the first round: it makes a snapshot, and no changes or drift.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from engine.flow.config_history.expected import UNSET, ExpectedValue, HistoryRules, expected_of
from engine.flow.config_history.look import ConfigLook, Values
from engine.flow.config_history.rows import (
    AGAIN,
    BOTH,
    CONFLICT,
    COPIED,
    COPY,
    EQUAL,
    FAILED,
    LEFT,
    MARK,
    RAYMIRROR,
    SET_RIGHT,
    SOURCE,
    TOPIC_GONE,
    WAITS,
    ConfigValueRow,
    DriftRow,
    HistoryRows,
    SourceChangeRow,
)
from engine.flow.config_history.state import ConfigOf, HistoryState, KnownValue, SideState
from engine.flow.config_history.values import (
    RowMaker,
    WriteTried,
    chosen,
    differing,
    look_rows,
    snapshot_rows,
    write_rows,
)
from policies.model import FlowName
from policies.selection import TopicSelection

MARK_MS = 3_600_000
"""How often a mark is stored while nothing changes: after a kill, a change is known to an hour."""
SNAPSHOT_MS = 30 * 86_400_000
"""How often all values are stored once more, so that rows of earlier times can be removed."""
SYNC_OFF = "sync.topic.configs.enabled = false"
_NO_COPY, _NOT_YET = "the topic has no copy yet", "the next round sets it"


class HistoryFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The flow whose history it is, the names of its copies, its rules."""

    name: FlowName
    selection: TopicSelection
    rules: HistoryRules = HistoryRules()


class SeenRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw between `began_ms` and `at_ms`, and tried to write until `written_ms`, all Unix ms.

    `conflicts`: why config sync does not set a config of a copy.
    """

    began_ms: int
    at_ms: int
    written_ms: int
    look: ConfigLook
    tried: Mapping[ConfigOf, WriteTried] = {}
    conflicts: Mapping[ConfigOf, str] = {}


class HistoryStep(NamedTuple):
    """The state after a round, the rows to store, and those of them that are drift which nobody knew."""

    state: HistoryState
    rows: HistoryRows
    new_drift: tuple[DriftRow, ...] = ()


class _Fate(NamedTuple):
    """What became of a config: the outcome, when it was reached (None: not), by whom, and why it is not as expected."""

    outcome: str
    at_ms: int | None = None
    by: str = ""
    why: str = ""


def first_state(flow: HistoryFlow, seen: SeenRound) -> HistoryState:
    """Return the state after a round before which nothing is known, without rows."""
    look, written_ms = seen.look, max(seen.written_ms, seen.at_ms + 1)
    source, copies = (
        SideState(topics=side.topics, defaults={key: chosen(found) for key, found in side.defaults.items()})
        for side in (look.source, look.copies)
    )
    wrote = write_rows(_maker(flow, written_ms, seen.at_ms), copies, seen.tried)
    return HistoryState(
        seen_from_ms=seen.began_ms,
        at_ms=written_ms if wrote.rows else seen.at_ms,
        marked_ms=seen.at_ms,
        snapshot_ms=seen.at_ms,
        source=source,
        copies=wrote.state,
    )


def advance(flow: HistoryFlow, state: HistoryState | None, seen: SeenRound) -> HistoryStep:
    """Make the rows of a round."""
    known = state or HistoryState(seen_from_ms=0, at_ms=0, marked_ms=0, snapshot_ms=0)
    at_ms = max(seen.at_ms, known.at_ms + 1)  # a clock may be set back
    seen = msgspec.structs.replace(seen, at_ms=at_ms, written_ms=max(seen.written_ms, at_ms + 1))
    make = _maker(flow, at_ms, None if state is None else state.seen_from_ms)
    source = look_rows(make, SOURCE, known.source, seen.look.source)
    copies = look_rows(make, COPY, known.copies, seen.look.copies)
    wrote = write_rows(_maker(flow, seen.written_ms, at_ms), copies.state, seen.tried)
    step = _Step(flow, known, seen, source.state, copies.state)
    changes, drift = ([], []) if state is None else (list(step.changes()), list(step.drift()))
    values, whole = source.rows + copies.rows, state is None or at_ms - known.snapshot_ms >= SNAPSHOT_MS
    if whole and state is not None:
        values += _again(make, values, source.state, copies.state)
    values += wrote.rows
    after = HistoryState(
        seen_from_ms=max(seen.began_ms, known.seen_from_ms),
        at_ms=seen.written_ms if wrote.rows else at_ms,
        marked_ms=known.marked_ms,
        snapshot_ms=at_ms if whole else known.snapshot_ms,
        source=source.state,
        copies=wrote.state,
        changes=step.standing_changes,
        drift=step.standing_drift,
    )
    if values or changes or drift or at_ms - known.marked_ms >= MARK_MS:
        values.append(mark_row(flow, after, at_ms))
        after = msgspec.structs.replace(after, marked_ms=at_ms)
    new_drift = tuple(row for row in drift if row.seen_ms == at_ms)
    return HistoryStep(after, HistoryRows(values=values, changes=changes, drift=drift), new_drift)


def _maker(flow: HistoryFlow, at_ms: int, after_ms: int | None) -> RowMaker:
    return RowMaker(str(flow.name), flow.selection, at_ms, after_ms)


def _again(
    make: RowMaker, rows: Sequence[ConfigValueRow], source: SideState, copies: SideState
) -> Iterator[ConfigValueRow]:
    """Yield a row of every value that has none in this round."""
    for side, state in ((SOURCE, source), (COPY, copies)):
        yield from snapshot_rows(make, side, state, {ConfigOf(row.topic, row.key) for row in rows if row.side == side})


def mark_row(flow: HistoryFlow, state: HistoryState, at_ms: int) -> ConfigValueRow:
    """Make the row that says until when nothing else has changed."""
    return ConfigValueRow(flow=str(flow.name), at_ms=at_ms, after_ms=state.seen_from_ms, side=BOTH, origin=MARK)


class _Step:
    """The changes and the drift of one round; `source` and `copies`: both sides as the round saw them."""

    def __init__(
        self, flow: HistoryFlow, before: HistoryState, seen: SeenRound, source: SideState, copies: SideState
    ) -> None:
        self._flow, self._before, self._seen = flow, before, seen
        self._source, self._copies = source, copies
        self.standing_changes: dict[ConfigOf, SourceChangeRow] = {}
        self.standing_drift: dict[ConfigOf, DriftRow] = {}

    # --- what should be, and what is -------------------------------------------------------------------------

    def _expected(self, place: ConfigOf) -> ExpectedValue:
        own, default = self._source.topics.get(place.topic, {}), self._source.defaults.get(place.key)
        return expected_of(self._flow.rules, own, place.key, default)

    def _is_met(self, place: ConfigOf, expected: ExpectedValue) -> bool:
        copy = self._copies.topics.get(place.topic)
        return copy is not None and expected.is_met(copy, place.key, self._copies.defaults.get(place.key))

    def _written(self, place: ConfigOf) -> WriteTried | None:
        """Return what raymirror wrote in this round."""
        tried = self._seen.tried.get(place)
        return tried if tried is not None and not tried.failure else None

    def _standing(self, place: ConfigOf, expected: ExpectedValue) -> _Fate:
        """Say why a config is not as expected, or not yet."""
        tried = self._seen.tried.get(place)
        if tried is not None:
            return _Fate(FAILED, why=tried.failure)
        if not expected.is_wanted:
            return _Fate(LEFT, why=expected.why)
        if not self._flow.rules.syncs:
            return _Fate(LEFT, why=SYNC_OFF)
        if place in self._seen.conflicts:
            return _Fate(CONFLICT, why=self._seen.conflicts[place])
        return _Fate(WAITS, why=_NOT_YET if place.topic in self._copies.topics else _NO_COPY)

    # --- changes of the source -------------------------------------------------------------------------------

    def changes(self) -> Iterator[SourceChangeRow]:
        """Yield a row of each new change, and of each earlier one of which there is news."""
        new = dict(self._new_changes())
        for place, row in sorted(self._before.changes.items()):
            if place in new:
                yield self._ended(row, AGAIN)
            elif place.topic not in self._source.topics:
                yield self._ended(row, TOPIC_GONE)
            else:
                yield from self._followed(place, row)
        for place, row in new.items():
            yield from self._followed(place, row, is_new=True)

    def _new_changes(self) -> Iterator[tuple[ConfigOf, SourceChangeRow]]:
        for place, old, value in _differences(self._before.source.topics, self._source.topics):
            if KnownValue(SOURCE, place, value) in self._before.stored:
                continue
            yield (
                place,
                SourceChangeRow(
                    flow=str(self._flow.name),
                    topic=place.topic,
                    target=self._flow.selection.target_topic(place.topic),
                    key=place.key,
                    seen_ms=self._seen.at_ms,
                    after_ms=self._before.seen_from_ms,
                    updated_ms=self._seen.at_ms,
                    old=old,
                    new=value,
                    outcome=WAITS,
                ),
            )

    def _followed(self, place: ConfigOf, row: SourceChangeRow, *, is_new: bool = False) -> Iterator[SourceChangeRow]:
        """Note what became of a change; yield its row if it says something new."""
        fate = self._fate_of_change(place)
        now = msgspec.structs.replace(
            row,
            outcome=fate.outcome,
            applied_ms=fate.at_ms,
            latency_ms=None if fate.at_ms is None else max(0, fate.at_ms - row.seen_ms),
            set_by=fate.by,
            why=fate.why,
        )
        if fate.outcome not in (COPIED, LEFT):
            self.standing_changes[place] = now
        if is_new or now != row:
            yield msgspec.structs.replace(now, updated_ms=self._seen.at_ms)

    def _fate_of_change(self, place: ConfigOf) -> _Fate:
        expected, copy = self._expected(place), self._copies.topics.get(place.topic)
        is_met = expected.is_wanted and self._is_met(place, expected)
        if is_met or (expected.why == UNSET and copy is not None and place.key not in copy):
            return _Fate(COPIED, self._seen.at_ms)
        if self._written(place) is not None:
            return _Fate(COPIED, self._seen.written_ms, RAYMIRROR)
        return self._standing(place, expected)

    def _ended(self, row: SourceChangeRow, outcome: str) -> SourceChangeRow:
        return msgspec.structs.replace(row, outcome=outcome, updated_ms=self._seen.at_ms, why="")

    # --- drift of the copies ---------------------------------------------------------------------------------

    def drift(self) -> Iterator[DriftRow]:
        """Yield a row of each new drift, and of each earlier one of which there is news."""
        again = dict[ConfigOf, DriftRow]()
        for place, row in sorted(self._before.drift.items()):
            now = self._settled(place, row)
            if now.outcome == AGAIN:
                again[place] = now
            yield from self._noted(place, now, row)
        for place, row in self._new_drift(again):
            yield from self._noted(place, self._fate_of_drift(place, row), None)

    def _noted(self, place: ConfigOf, now: DriftRow, before: DriftRow | None) -> Iterator[DriftRow]:
        if now.settled_ms is None:
            self.standing_drift[place] = now
        if now != before:
            yield msgspec.structs.replace(now, updated_ms=self._seen.at_ms)

    def _settled(self, place: ConfigOf, row: DriftRow) -> DriftRow:
        """Say what became of a drift that stood."""
        copy = self._copies.topics.get(place.topic)
        if place.topic in self._seen.look.copies.unread:
            return row
        if copy is None:
            return _end(row, TOPIC_GONE, self._seen.at_ms)
        expected, there = self._expected(place), copy.get(place.key)
        if self._is_met(place, expected) if expected.is_wanted else there == row.expected:
            return _end(row, EQUAL, self._seen.at_ms)
        return self._fate_of_drift(place, row) if there == row.found else _end(row, AGAIN, self._seen.at_ms)

    def _fate_of_drift(self, place: ConfigOf, row: DriftRow) -> DriftRow:
        """Say whether a drift was set right in this round, or why not."""
        expected = self._expected(place)
        if self._written(place) is not None:
            fate = _Fate(SET_RIGHT, self._seen.written_ms, RAYMIRROR)
        else:
            fate = self._standing(place, expected)
        return msgspec.structs.replace(
            row,
            expected=expected.value if expected.is_wanted else row.expected,
            outcome=fate.outcome,
            settled_ms=fate.at_ms,
            set_by=fate.by,
            why=fate.why,
        )

    def _new_drift(self, again: Mapping[ConfigOf, DriftRow]) -> Iterator[tuple[ConfigOf, DriftRow]]:
        for place, old, found in _differences(self._before.copies.topics, self._copies.topics):
            is_known = place in self._before.drift and place not in again
            if is_known or place.topic not in self._source.topics or self._is_explained(place, found):
                continue
            yield (
                place,
                DriftRow(
                    flow=str(self._flow.name),
                    topic=place.topic,
                    target=self._flow.selection.target_topic(place.topic),
                    key=place.key,
                    seen_ms=self._seen.at_ms,
                    after_ms=self._before.seen_from_ms,
                    updated_ms=self._seen.at_ms,
                    expected=again[place].expected if place in again else old,
                    before=old,
                    found=found,
                    outcome=WAITS,
                ),
            )

    def _is_explained(self, place: ConfigOf, found: str | None) -> bool:
        """Whether a changed config of a copy is no drift: it is as it should be, or as the source was at the last look.

        The latter is a write of raymirror that no row tells of, because its process was killed before.
        """
        expected = self._expected(place)
        if KnownValue(COPY, place, found) in self._before.stored or (
            expected.is_wanted and self._is_met(place, expected)
        ):
            return True
        former, now = self._before.source, self._source.topics[place.topic]
        own = former.topics.get(place.topic, {})
        if place.key not in self._copies.topics[place.topic]:
            return place.key in own and place.key not in now
        was = expected_of(self._flow.rules, own, place.key, former.defaults.get(place.key))
        return was.is_wanted and was.value == found


def _differences(
    old: Mapping[str, Values], new: Mapping[str, Values]
) -> Iterator[tuple[ConfigOf, str | None, str | None]]:
    """Yield each config that differs, with both values, of topics that were and are there."""
    for topic in sorted(topic for topic in old.keys() & new.keys() if old[topic] != new[topic]):
        for key in differing(old[topic], new[topic]):
            yield ConfigOf(topic, key), old[topic].get(key), new[topic].get(key)


def _end(row: DriftRow, outcome: str, at_ms: int) -> DriftRow:
    return msgspec.structs.replace(row, outcome=outcome, settled_ms=at_ms, set_by="", why="")
