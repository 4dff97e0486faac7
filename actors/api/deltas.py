"""Turns the mirror, looked at again and again, into the messages of the stream: only what has changed."""

import enum
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from actors.api.entities import ApiStruct, FlowSummary, MirrorPage, MirrorSummary
from actors.api.series import SeriesRing
from actors.model.status import EventLine, fresh

EVENTS_AT_FIRST: Final = 100
"""How many of the last events follow a snapshot."""


class MessageKind(enum.StrEnum):
    """The kinds of messages of the stream."""

    SNAPSHOT = "snapshot"
    MIRROR = "mirror"
    FLOW = "flow"
    EVENT = "event"
    POINT = "point"
    END = "end"


class StreamMessage(msgspec.Struct, frozen=True):
    """A message: its kind, and its body as JSON."""

    kind: MessageKind
    data: bytes


def message(kind: MessageKind, body: ApiStruct | EventLine) -> StreamMessage:
    """Return a message with a body."""
    return StreamMessage(kind, msgspec.json.encode(body))


def snapshot(page: MirrorPage, events: tuple[EventLine, ...]) -> list[StreamMessage]:
    """Return what a new reader gets: everything, then the last events."""
    last = events[-EVENTS_AT_FIRST:]
    return [message(MessageKind.SNAPSHOT, page), *(message(MessageKind.EVENT, event) for event in last)]


class DeltaMaker:
    """Remembers the mirror as it was last seen."""

    def __init__(self) -> None:
        self._page: MirrorPage | None = None
        self._events: tuple[EventLine, ...] = ()
        self._point_ms: dict[str, int] = {}
        """By flow, when its last point was (Unix ms)."""

    def changes(self, page: MirrorPage, events: tuple[EventLine, ...], ring: SeriesRing) -> list[StreamMessage]:
        """Return what has changed since the last call; of the first one, nothing but points."""
        before, self._page = self._page, page
        new_events, self._events = fresh(self._events, events), events
        found = list(self._points(page, ring))
        if before is None:
            return found
        if before.clusters != page.clusters or _names(before) != _names(page):
            return [*snapshot(page, events), *found]
        return [*_page_changes(before, page), *(message(MessageKind.EVENT, event) for event in new_events), *found]

    def _points(self, page: MirrorPage, ring: SeriesRing) -> Iterator[StreamMessage]:
        known, self._point_ms = self._point_ms, {}
        for flow in page.flows:
            last = ring.last(flow.flow)
            if last is not None:
                self._point_ms[flow.flow] = last.at_ms
                for point in ring.after(flow.flow, known.get(flow.flow, last.at_ms - 1)):
                    yield message(MessageKind.POINT, point)


def _page_changes(before: MirrorPage, page: MirrorPage) -> Iterator[StreamMessage]:
    if _timeless(before.mirror) != _timeless(page.mirror):
        yield message(MessageKind.MIRROR, page.mirror)
    for was, now in zip(before.flows, page.flows, strict=True):
        if _timeless_flow(was) != _timeless_flow(now):
            yield message(MessageKind.FLOW, now)


def _names(page: MirrorPage) -> list[str]:
    return [flow.flow for flow in page.flows]


def _timeless(mirror: MirrorSummary) -> MirrorSummary:
    """Return a summary without what changes only because time passes."""
    return replace(mirror, at_ms=0, up_seconds=0.0, worst_rpo=replace(mirror.worst_rpo, since_ms=0))


def _timeless_flow(flow: FlowSummary) -> FlowSummary:
    proof = replace(flow.proof, age_seconds=None) if flow.proof is not None else None
    return replace(flow, proof=proof, worst_rpo=replace(flow.worst_rpo, since_ms=0))
