"""Compares windows of lag with a flow's objective (RPO): reports a breach when it starts, and when it is over."""

from collections.abc import Iterable, Iterator

import msgspec

from engine.core.events.event_base import Event
from engine.core.events.progress_events import RpoBreached, RpoKept
from policies.model import FlowName


class TopicWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The largest lag of a topic's worst partition, in the window that begins at `start_ms` (Unix ms)."""

    topic: str
    start_ms: int
    lag_ms: int


class _Breach(msgspec.Struct):
    since_ms: int
    worst_ms: int


class RpoJudge:
    """The breaches of one flow; an objective of 0 s judges nothing.

    Windows may come again and grow; a window older than the topic's newest one is ignored.
    """

    def __init__(self, flow: FlowName, objective_s: float, window_s: float) -> None:
        self._flow, self._objective_s = flow, objective_s
        self._window_ms = round(window_s * 1000)
        self._breaches: dict[str, _Breach] = {}
        self._seen_ms: dict[str, int] = {}

    def judge(self, windows: Iterable[TopicWindow]) -> Iterator[Event]:
        """Take windows; yield the events of breaches that start or end."""
        if not self._objective_s:
            return
        for window in sorted(windows, key=lambda one: one.start_ms):
            if window.start_ms < self._seen_ms.get(window.topic, 0):
                continue
            self._seen_ms[window.topic] = window.start_ms
            yield from self._one(window)

    def _one(self, window: TopicWindow) -> Iterator[Event]:
        breach = self._breaches.get(window.topic)
        if window.lag_ms > self._objective_s * 1000:
            if breach is not None:
                breach.worst_ms = max(breach.worst_ms, window.lag_ms)
                return
            self._breaches[window.topic] = _Breach(window.start_ms, window.lag_ms)
            yield RpoBreached(
                flow=self._flow,
                topic=window.topic,
                seconds=window.lag_ms / 1000,
                objective_s=self._objective_s,
                since_ms=window.start_ms,
            )
        elif breach is not None and window.start_ms > breach.since_ms:
            del self._breaches[window.topic]
            yield RpoKept(
                flow=self._flow,
                topic=window.topic,
                seconds=(window.start_ms - breach.since_ms) / 1000,
                worst_s=breach.worst_ms / 1000,
                objective_s=self._objective_s,
            )
