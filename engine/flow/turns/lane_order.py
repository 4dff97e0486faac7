"""Lets the lanes of one limit take turns, so that none uses up the whole limit. Pure: the caller has the clock.

Whoever asks first when a limit has room may use all of it: a reader asks in a fixed order, and a lane that is read in
ranges asks for many at once. So a lane that has had its turn waits for the lanes that were refused since, at most
GRACE_S from when the limit had room again: a lane may not ask any more, because it has no room or is being fetched.
That is longer than the round trip to a distant broker, until which a lane that is being fetched cannot ask. The limit
saves up what is not used in that time, so nothing is lost of its rate.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Lane = TypeVar("Lane", bound=Hashable)
GRACE_S = 0.5
"""So many seconds others wait for lanes that were refused."""


class LaneOrder(Generic[Lane]):
    """Who was refused by a limit, and who had a turn since."""

    def __init__(self) -> None:
        self._refused: set[Lane] = set()
        self._served: set[Lane] = set()
        self._room_since_s: float | None = None

    def refuse(self, lane: Lane) -> None:
        """Note that the limit has no room for a lane."""
        self._room_since_s = None
        if lane not in self._served:
            self._refused.add(lane)

    def wait_s(self, lane: Lane, now_s: float) -> float:
        """Return for how many seconds a lane must wait for others, now that the limit has room; 0: it may go."""
        if self._room_since_s is None:
            self._room_since_s = now_s
        left_s = self._room_since_s + GRACE_S - now_s
        if left_s <= 0:
            self._refused.clear()
        return left_s if self._refused and lane in self._served else 0.0

    def serve(self, lane: Lane) -> bool:
        """Note that a lane has its turn; return whether it was the last one that others waited for."""
        was_last = self._refused == {lane}
        self._refused.discard(lane)
        if not self._refused:
            self._served.clear()
        self._served.add(lane)
        return was_last

    def forget(self, lane: Lane) -> None:
        """Forget a lane that has left."""
        self._refused.discard(lane)
        self._served.discard(lane)
