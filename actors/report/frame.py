"""The parts of plots: lines over time, spans of time, and the frame that a page's plots share."""

from collections.abc import Iterable, Sequence

import msgspec

_FAR = 2.5
"""Points further apart than this many steps are not joined: no value exists in between."""
_FINEST = 500
"""Spans closer together than the frame's length divided by this number cannot be distinguished."""


class Line(msgspec.Struct, frozen=True):
    """One line: points (Unix ms, value) in order of time; None if the value is unknown."""

    name: str
    points: Sequence[tuple[int, float | None]]

    def most(self) -> float | None:
        """Return the highest value; None if no value is known."""
        return max((value for _, value in self.points if value is not None), default=None)


class Span(msgspec.Struct, frozen=True):
    """A span of time."""

    since_ms: int
    until_ms: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The span of time of all plots of a page, and how far apart points are."""

    since_ms: int
    until_ms: int
    step_ms: int

    def share(self, at_ms: float) -> float:
        """Return the position of a time (Unix ms) in the frame, from 0 to 1."""
        return min(max((at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms), 0.0), 1.0)

    def pieces(self, line: Line) -> list[list[tuple[int, float]]]:
        """Split a line into pieces whose points are joined."""
        pieces: list[list[tuple[int, float]]] = [[]]
        for at_ms, value in line.points:
            if value is None:
                pieces.append([])
                continue
            if pieces[-1] and at_ms - pieces[-1][-1][0] > _FAR * self.step_ms:
                pieces.append([])
            pieces[-1].append((at_ms, value))
        return [piece for piece in pieces if piece]

    def joined(self, spans: Iterable[Span]) -> list[Span]:
        """Return the spans within the frame; spans that touch become one, so all of them can be distinguished."""
        near_ms = (self.until_ms - self.since_ms) // _FINEST
        found: list[Span] = []
        for span in sorted(spans, key=lambda one: one.since_ms):
            since, until = max(span.since_ms, self.since_ms), min(span.until_ms, self.until_ms)
            if until < since:
                continue
            if found and since <= found[-1].until_ms + near_ms:
                found[-1] = Span(found[-1].since_ms, max(found[-1].until_ms, until))
            else:
                found.append(Span(since, until))
        return found
