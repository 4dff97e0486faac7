"""Reads what has moved to the target of a flow from the entries of its state topic."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from engine.state.state import MOVED, MOVED_TOPIC, Key, MovedGroup, MovedTopic, Value

_V = TypeVar("_V", bound=Value)


class Moves(msgspec.Struct, frozen=True, kw_only=True):
    """What has moved, by name."""

    groups: Mapping[str, MovedGroup] = {}
    topics: Mapping[str, MovedTopic] = {}

    @property
    def gone(self) -> frozenset[str]:
        """The groups whose move has ended: their offsets on the target are their own."""
        return frozenset(group for group, one in self.groups.items() if one.has_moved)


def moves_of(entries: Mapping[Key, Value]) -> Moves:
    """Return what has moved; `entries`: of `MOVE_SCOPE`."""
    return Moves(groups=_of(entries, MOVED, MovedGroup), topics=_of(entries, MOVED_TOPIC, MovedTopic))


def _of(entries: Mapping[Key, Value], kind: str, of: type[_V]) -> dict[str, _V]:
    rows: Iterable[tuple[Key, Value]] = sorted(entries.items(), key=lambda row: row[0].subject)
    return {key.subject: one for key, one in rows if key.kind == kind and isinstance(one, of)}
