"""The state of a flow's history: the newest value of every config, and what is not as it should be. Pure.

It is what the tables say, so it is rebuilt from their rows after a restart.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from engine.flow.config_history.look import DefaultValue, Values
from engine.flow.config_history.rows import (
    BOTH,
    COPY,
    EXISTS,
    GONE,
    NONE,
    SOURCE,
    STANDING_CHANGES,
    STANDING_DRIFT,
    TOPIC,
    ConfigValueRow,
    DriftRow,
    SourceChangeRow,
)

R = TypeVar("R", SourceChangeRow, DriftRow)


class ConfigOf(NamedTuple):
    """A config of a topic, by its name on the source."""

    topic: str
    key: str


class KnownValue(NamedTuple):
    """A change of the source, or a drift, that is stored already: which value a config had then."""

    side: str
    config: ConfigOf
    value: str | None


class SideState(msgspec.Struct, frozen=True, kw_only=True):
    """One side: the overrides of the topics that exist, and the defaults of the cluster."""

    topics: Mapping[str, Values] = {}
    defaults: Mapping[str, DefaultValue] = {}


class HistoryState(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides as the last row says, and when that was; `changes` and `drift`: what stands, by config.

    `seen_from_ms`: when the last look began. `at_ms`: the newest time in any row. `marked_ms`: up to where the rows say
    that nothing else has changed. `snapshot_ms`: when every value was last stored. `stored`: changes and drift that are
    in their tables, although the values behind them are not: a process was killed between two commits.
    """

    seen_from_ms: int
    at_ms: int
    marked_ms: int
    snapshot_ms: int
    source: SideState = SideState()
    copies: SideState = SideState()
    changes: Mapping[ConfigOf, SourceChangeRow] = {}
    drift: Mapping[ConfigOf, DriftRow] = {}
    stored: frozenset[KnownValue] = frozenset()


class StoredValue(NamedTuple):
    """The columns of a ConfigValueRow that make the state."""

    side: str
    topic: str
    key: str
    at_ms: int
    after_ms: int | None
    value: str | None
    origin: str
    snapshot: bool


def stored_value(row: ConfigValueRow) -> StoredValue:
    """Return those columns of a row."""
    return StoredValue(row.side, row.topic, row.key, row.at_ms, row.after_ms, row.value, row.origin, row.snapshot)


def restored(
    values: Iterable[StoredValue], changes: Iterable[SourceChangeRow], drift: Iterable[DriftRow]
) -> HistoryState | None:
    """Rebuild the state from rows in any order; `values`: at least those since the last snapshot. None without any."""
    newest, at_ms, seen_from_ms, marked_ms, snapshot_ms = dict[tuple[str, str, str], StoredValue](), 0, 0, 0, 0
    for one in values:
        at_ms = max(at_ms, one.at_ms)
        snapshot_ms = max(snapshot_ms, one.at_ms) if one.snapshot else snapshot_ms
        if one.side == BOTH:
            marked_ms, seen_from_ms = max(marked_ms, one.at_ms), max(seen_from_ms, one.after_ms or 0)
            continue
        place = one.side, one.topic, one.key
        if place not in newest or newest[place].at_ms < one.at_ms:
            newest[place] = one
    if not at_ms:
        return None
    last_changes, last_drift = _last(changes), _last(drift)
    stored = {KnownValue(SOURCE, place, row.new) for place, row in last_changes.items() if row.seen_ms > at_ms}
    stored |= {KnownValue(COPY, place, row.found) for place, row in last_drift.items() if row.seen_ms > at_ms}
    return HistoryState(
        seen_from_ms=seen_from_ms,
        at_ms=at_ms,
        marked_ms=marked_ms,
        snapshot_ms=snapshot_ms,
        source=_side(SOURCE, newest),
        copies=_side(COPY, newest),
        changes={place: row for place, row in last_changes.items() if row.outcome in STANDING_CHANGES},
        drift={place: row for place, row in last_drift.items() if row.outcome in STANDING_DRIFT},
        stored=frozenset(stored),
    )


def _last(rows: Iterable[R]) -> dict[ConfigOf, R]:
    """Return the last row of each config: by when it was seen, then by when it was written."""
    found: dict[ConfigOf, R] = {}
    for row in rows:
        place = ConfigOf(row.topic, row.key)
        if place not in found or (found[place].seen_ms, found[place].updated_ms) < (row.seen_ms, row.updated_ms):
            found[place] = row
    return found


def _side(side: str, newest: Mapping[tuple[str, str, str], StoredValue]) -> SideState:
    gone_ms: dict[str, int] = {}
    for one in newest.values():
        if one.side == side and one.origin == GONE:
            gone_ms[one.topic] = max(gone_ms.get(one.topic, 0), one.at_ms)
    topics, defaults = dict[str, dict[str, str | None]](), dict[str, DefaultValue]()
    for one in newest.values():
        if one.side != side or one.at_ms <= gone_ms.get(one.topic, -1):
            continue
        if not one.topic:
            defaults[one.key] = DefaultValue(one.value, one.origin)
        elif one.origin == TOPIC:
            topics.setdefault(one.topic, {})[one.key] = one.value
        elif one.origin in (NONE, EXISTS):
            topics.setdefault(one.topic, {})
    shared: dict[tuple[tuple[str, str | None], ...], Values] = {}
    return SideState(
        topics={topic: shared.setdefault(tuple(sorted(values.items())), values) for topic, values in topics.items()},
        defaults=defaults,
    )
