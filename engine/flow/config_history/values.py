"""Rows of values: how the configs of one side differ between the state and a look, and what raymirror wrote. Pure.

state + look -> look_rows -> state + rows;  state of the copies + writes -> write_rows -> state + rows
Applying the rows to the state before gives the state after: `restored` of `state.py` does that with stored rows.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from engine.flow.config_history.look import DefaultValue, SideLook, Values
from engine.flow.config_history.rows import COPY, EXISTS, GONE, NONE, RAYMIRROR, TOPIC, ConfigValueRow
from engine.flow.config_history.state import ConfigOf, SideState
from policies.selection import TopicSelection


class WriteTried(NamedTuple):
    """What raymirror tried to set (None: to remove) on a copy; `failure` is empty if it succeeded."""

    value: str | None
    failure: str = ""


class RowMaker(NamedTuple):
    """The columns that the rows of one look share."""

    flow: str
    selection: TopicSelection
    at_ms: int
    after_ms: int | None
    """When the state before was seen; None: nothing was known, so every row is part of a snapshot."""

    def row(
        self, side: str, place: ConfigOf, before: str | None, value: str | None, origin: str, *, snapshot: bool = False
    ) -> ConfigValueRow:
        """Make a row."""
        return ConfigValueRow(
            flow=self.flow,
            topic=place.topic,
            target=self.selection.target_topic(place.topic) if place.topic else "",
            key=place.key,
            at_ms=self.at_ms,
            after_ms=self.after_ms,
            side=side,
            before=before,
            value=value,
            origin=origin,
            snapshot=snapshot or self.after_ms is None,
        )


class SideStep(NamedTuple):
    """The state of a side after a look, and the rows of what differs."""

    state: SideState
    rows: list[ConfigValueRow]


def look_rows(make: RowMaker, side: str, old: SideState, look: SideLook) -> SideStep:
    """Compare one side. What a look could not read stays as it was."""
    topics = {**{topic: old.topics[topic] for topic in look.unread if topic in old.topics}, **look.topics}
    rows: list[ConfigValueRow] = []
    if topics != old.topics:
        changed = (name for name in topics.keys() | old.topics.keys() if topics.get(name) != old.topics.get(name))
        for topic in sorted(changed):
            rows += _topic(make, side, topic, old.topics.get(topic), topics.get(topic))
    defaults = {**old.defaults}
    for key, found in sorted(look.defaults.items()):
        known = old.defaults.get(key)
        if known is None or known not in found:
            one = defaults[key] = chosen(found)
            rows.append(make.row(side, ConfigOf("", key), known and known.value, one.value, one.origin))
    return SideStep(SideState(topics=topics, defaults=defaults), rows)


def _topic(make: RowMaker, side: str, topic: str, old: Values | None, new: Values | None) -> Iterator[ConfigValueRow]:
    before = old or {}
    if new is None:
        for key in ("", *sorted(before)):
            yield make.row(side, ConfigOf(topic, key), before.get(key), None, GONE)
        return
    if old is None and not new:
        yield make.row(side, ConfigOf(topic, ""), None, None, EXISTS)
    for key in differing(before, new):
        origin = TOPIC if key in new else NONE
        yield make.row(side, ConfigOf(topic, key), before.get(key), new.get(key), origin)


def chosen(found: frozenset[DefaultValue]) -> DefaultValue:
    """Choose one of the defaults that brokers have, the same one each time."""
    return min(found, key=lambda default: (default.value or "", default.origin))


def differing(old: Values, new: Values) -> list[str]:
    """Return the configs that two sets of overrides do not share."""
    return sorted(
        key for key in old.keys() | new.keys() if (key in old) != (key in new) or old.get(key) != new.get(key)
    )


def snapshot_rows(make: RowMaker, side: str, state: SideState, but: set[ConfigOf]) -> Iterator[ConfigValueRow]:
    """Yield every value of a side once more, except those that have a row already."""
    for topic, values in sorted(state.topics.items()):
        places = [ConfigOf(topic, key) for key in sorted(values)] or [ConfigOf(topic, "")]
        for place in places:
            if place not in but:
                value = values.get(place.key)
                yield make.row(side, place, value, value, TOPIC if place.key else EXISTS, snapshot=True)
    for key, default in sorted(state.defaults.items()):
        if (place := ConfigOf("", key)) not in but:
            yield make.row(side, place, default.value, default.value, default.origin, snapshot=True)


def write_rows(make: RowMaker, copies: SideState, tried: Mapping[ConfigOf, WriteTried]) -> SideStep:
    """Apply to the copies what raymirror wrote; topics whose copies were not read are left out."""
    rows, changed = list[ConfigValueRow](), dict[str, dict[str, str | None]]()
    for place, write in sorted(tried.items()):
        own = changed[place.topic] if place.topic in changed else copies.topics.get(place.topic)
        if write.failure or own is None or (write.value is not None and own.get(place.key) == write.value):
            continue
        if write.value is None and place.key not in own:
            continue
        values = changed.setdefault(place.topic, dict(own))
        before = values.pop(place.key, None)
        if write.value is not None:
            values[place.key] = write.value
        row = make.row(COPY, place, before, write.value, NONE if write.value is None else TOPIC)
        rows.append(msgspec.structs.replace(row, set_by=RAYMIRROR))
    return SideStep(msgspec.structs.replace(copies, topics={**copies.topics, **changed}), rows)
