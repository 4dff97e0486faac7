"""What plots are made of: lines over time, stretches of it, and the frame that a page's plots share."""

from collections.abc import Iterable, Sequence

import msgspec

_FAR = 2.5
"""Points further apart than so many steps are not joined: there was nothing in between."""
_FINEST = 500
"""What is closer together than the frame's length by this cannot be told apart."""


class Line(msgspec.Struct, frozen=True):
    """One line: points (Unix ms, value) in order of time; None where the value is not known."""

    name: str
    points: Sequence[tuple[int, float | None]]

    def most(self) -> float | None:
        """Give the highest value, None where none is known."""
        return max((value for _, value in self.points if value is not None), default=None)


class Span(msgspec.Struct, frozen=True):
    """A stretch of time."""

    since_ms: int
    until_ms: int


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The stretch of time of all plots of a page, and how far apart points are."""

    since_ms: int
    until_ms: int
    step_ms: int

    def share(self, at_ms: float) -> float:
        """Say which share of the stretch is over at an instant, from 0 to 1."""
        return min(max((at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms), 0.0), 1.0)

    def pieces(self, line: Line) -> list[list[tuple[int, float]]]:
        """Give the points of a line in pieces that are joined."""
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
        """Give the stretches within the frame, those that touch as one: never more than can be told apart."""
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
