"""Says what the path of a lane carries, if distance is what bounds the lane, and what would lift that bound."""

import math
from typing import Protocol

from engine.flow.io.path_window import PathWindow

FAR_S = 0.02
"""A round trip of as many seconds is a distance, or a busy broker."""
_NEAR_S = 0.003
"""Over a shorter round trip no socket buffer is small: one of 100 KiB, which has 146 KiB under way, carries 47 MiB/s in
3 ms (`checks/distance_check.py`)."""
_RECENT_S = 15.0
"""A broker is near for this time to twice this time after an answer that began at once."""
_MIB = 1024 * 1024


class ShortestTrip:
    """The shortest time lately until a full answer of a broker began: what a lane with a backlog gets.

    A near broker that is busy takes long, but not always. One that reads such records from other machines (tiered
    storage) always does: it is as good as far.
    """

    def __init__(self) -> None:
        self._before_s = self._trip_s = math.inf
        self._since_s = -math.inf

    @property
    def is_near(self) -> bool:
        """Whether more connections to this broker would carry no more, as far as known."""
        return min(self._before_s, self._trip_s) < _NEAR_S

    def began_after(self, trip_s: float, at_s: float) -> None:
        """Note that an answer began at `at_s`, so many seconds after its request."""
        if at_s - self._since_s >= _RECENT_S:
            before_s = self._trip_s if at_s - self._since_s < 2 * _RECENT_S else math.inf
            self._before_s, self._trip_s, self._since_s = before_s, math.inf, at_s
        self._trip_s = min(self._trip_s, trip_s)


class RangePath(Protocol):
    """The path of a lane that is read in ranges. An answer may take many round trips: a range is large."""

    window: PathWindow
    trip_s: float
    """The shortest time in seconds until an answer began."""


def target_bound(node: int, window: PathWindow, *, has_unsent: bool) -> str:
    """Return why a lane is sent no faster; empty if nothing of it waits, or if the broker is near."""
    if not has_unsent or window.round_trip_s < FAR_S:
        return ""
    return (
        f"{_carries('to target', node, window, window.round_trip_s)}. If the sockets of that broker are the limit,"
        " socket.receive.buffer.bytes=-1 there lifts it; copiers near the target need less"
    )


def source_bound(node: int, path: RangePath | None, *, wants_more: bool) -> str:
    """Return why a lane is fetched no faster; empty if it has enough, or is not read in ranges (`path` is None).

    A lane of which nothing is being fetched waits for something else, e.g. for bandwidth.
    """
    if path is None or not wants_more or path.trip_s < FAR_S or not path.window.requests:
        return ""
    carries = _carries("from source", node, path.window, path.trip_s)
    return (
        f"{carries} over {path.window.requests} connections. If the sockets of that broker are the"
        " limit, socket.send.buffer.bytes=-1 there lifts it, or more of raymirror.source.connections"
    )


def _carries(path: str, node: int, window: PathWindow, trip_s: float) -> str:
    rate, trip_ms = window.rate / _MIB, trip_s * 1000
    return f"the path {path} broker {node} carries {rate:.1f} MiB/s at a round trip of {trip_ms:.0f} ms"
