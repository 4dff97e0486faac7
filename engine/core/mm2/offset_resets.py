"""Folds the events of groups whose offsets go back again and again: counts repeats, and groups beyond a limit."""

from collections.abc import Iterator

import msgspec

from engine.core.events.group_events import GroupWentBack
from policies.model import FlowName

WINDOW_S = 60.0
NAMED = 20
"""The number of groups that get events of their own within one window; the others share one event for each cause."""
OTHERS = "consumer groups"


class _Held(msgspec.Struct):
    """A group and cause with an event in this window: until `until_s` its repeats are only counted."""

    until_s: float
    times: int = 0
    partitions: int = 0


class _Rest(msgspec.Struct):
    """Groups without events of their own, and their counts."""

    groups: set[str]
    times: int = 0
    partitions: int = 0


class OffsetResets:
    """Folds the events of one flow: sends the first of a group and a cause at once, then one a minute with a count."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._held: dict[tuple[str, str], _Held] = {}
        self._rest: dict[str, _Rest] = {}
        self._rest_at_s = self._named_until_s = float("-inf")
        self._named = 0

    def admit(self, event: GroupWentBack, now_s: float) -> GroupWentBack | None:
        """Return the event if it is to be sent now; None if it is only counted."""
        key = event.group, event.why
        held = self._held.get(key)
        if held is not None:
            held.times += event.times
            held.partitions = max(held.partitions, event.partitions)
            return None
        if self._may_name(now_s):
            self._held[key] = _Held(now_s + WINDOW_S)
            return event
        self._leave(event)
        return None

    def due(self, now_s: float) -> Iterator[GroupWentBack]:
        """Yield one event for each count whose window has ended, and forget groups that did not go back again."""
        for (group, why), held in list(self._held.items()):
            if now_s < held.until_s:
                continue
            if not held.times:
                del self._held[group, why]
                continue
            event = GroupWentBack(flow=self._flow, group=group, partitions=held.partitions, why=why, times=held.times)
            if self._may_name(now_s):
                self._held[group, why] = _Held(now_s + WINDOW_S)
                yield event
            else:
                del self._held[group, why]
                self._leave(event)
        if self._rest and now_s >= self._rest_at_s:
            self._rest_at_s = now_s + WINDOW_S
            for why, rest in self._rest.items():
                yield GroupWentBack(
                    flow=self._flow,
                    group=OTHERS,
                    partitions=rest.partitions,
                    why=why,
                    times=rest.times,
                    groups=len(rest.groups),
                )
            self._rest.clear()

    def _may_name(self, now_s: float) -> bool:
        if now_s >= self._named_until_s:
            self._named_until_s, self._named = now_s + WINDOW_S, 0
        self._named += 1
        return self._named <= NAMED

    def _leave(self, event: GroupWentBack) -> None:
        rest = self._rest.setdefault(event.why, _Rest(set()))
        rest.groups.add(event.group)
        rest.times += event.times
        rest.partitions = max(rest.partitions, event.partitions)
