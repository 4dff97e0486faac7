"""Sizes the window of a path to a broker: how many bytes of appends, or of fetch answers, may be on their way.

The window is twice what the path holds: the highest rate of the last round trips times the shortest round trip. That is
the model of BBR (draft-ietf-ccwg-bbr): below this size the window limits the rate; above it, requests only wait in a
queue of the path or of the broker. The first factor of two lets the rate grow: while the window is the limit, a window
of twice the measured product doubles the rate at each round trip.

A path that is always full never shows its shortest round trip. So the window shrinks to its least size for one round
trip if no shorter one was seen for ten seconds and thirty round trips.
"""

from collections import deque

import msgspec

_GAIN = 2
_INSTANT_S = 1e-6
_QUEUE = 1.5
"""Requests wait for each other if the last one took this many times the shortest round trip."""
_ROUNDS = 10
"""The highest rate of this many round trips counts."""
_PROBE_S, _PROBE_ROUNDS = 10.0, 30
"""After this many seconds, and this many round trips, the shortest round trip is measured again."""


class SentMark(msgspec.Struct, frozen=True, gc=False):
    """What was known when a request was sent: the instant in seconds, its bytes, and the bytes answered until then."""

    sent_s: float
    size: int
    answered_bytes: int
    was_least: bool
    """Whether no more than the least requests were in flight."""


class PathWindow:
    """The window of one path; `least`: requests that may always be in flight."""

    def __init__(self, least: int) -> None:
        self._least = least
        self.requests = 0
        """Requests in flight."""
        self.in_flight_bytes = 0
        self._answered_bytes = 0
        self._rates: deque[tuple[float, float]] = deque()
        """(instant, bytes per second), rates falling: the first one is the highest that counts."""
        self._shortest_s = 0.0
        self._last_s = 0.0
        self._shortest_at_s = 0.0
        self._is_probing = False

    @property
    def round_trip_s(self) -> float:
        """The shortest time in seconds from a request to its answer; 0 before the first answer."""
        return self._shortest_s

    @property
    def rate(self) -> float:
        """The highest rate in bytes per second over the last round trips; 0 before the first answer."""
        return self._rates[0][1] if self._rates else 0.0

    @property
    def holds(self) -> float:
        """The bytes that the path holds, as far as known; 0 before the first answer."""
        return self.rate * self._shortest_s

    @property
    def goal_bytes(self) -> float:
        """The bytes that should be on their way, as far as known; 0 before the first answer."""
        return _GAIN * self.holds

    @property
    def queues(self) -> bool:
        """Whether requests wait for each other on their way or at the broker: more of them would not be faster."""
        return self.requests > 1 and self._last_s >= _QUEUE * self._shortest_s > 0

    @property
    def request_bytes(self) -> float:
        """The mean size of the requests in flight; 0 without one."""
        return self.in_flight_bytes / self.requests if self.requests else 0.0

    def settle(self, least: int) -> None:
        """Let from now on only so many requests always be in flight: there were more at the start, to learn quickly."""
        self._least = least

    def has_room(self, most_bytes: int) -> bool:
        """Whether another request may be sent; `most_bytes`: the memory for what is on its way."""
        if self.requests < self._least:
            return True
        if self._is_probing:
            return False
        return self.in_flight_bytes < min(most_bytes, self.goal_bytes)

    def sent(self, size: int, now_s: float) -> SentMark:
        """Count a request of `size` bytes; `answered` takes the result."""
        self.requests += 1
        self.in_flight_bytes += size
        return SentMark(now_s, size, self._answered_bytes, self.requests <= self._least)

    def delayed(self, mark: SentMark, now_s: float) -> SentMark:
        """Return the mark of a request that leaves only now, because its connection had to be opened first."""
        return msgspec.structs.replace(mark, sent_s=now_s, answered_bytes=self._answered_bytes)

    def lost(self, mark: SentMark) -> None:
        """Note that a request gets no answer."""
        self.requests -= 1
        self.in_flight_bytes -= mark.size

    def answered(self, mark: SentMark, now_s: float) -> None:
        """Count an answer, and learn from it."""
        self.came(mark, now_s, mark.size, max(now_s - mark.sent_s, _INSTANT_S))

    def came(self, mark: SentMark, now_s: float, size: int, trip_s: float | None) -> None:
        """Count an answer of `size` bytes. `trip_s`: the time that one of usual size takes; None: learn nothing."""
        self.lost(mark)
        self._answered_bytes += size
        if trip_s is not None:
            self._learn_time(trip_s, now_s, is_least=mark.was_least)
            self._learn_rate((self._answered_bytes - mark.answered_bytes) / max(now_s - mark.sent_s, _INSTANT_S), now_s)

    def seed(self, size: int, taken_s: float, trip_s: float, now_s: float) -> None:
        """Learn from an answer that did not belong to this window: `size` bytes in `taken_s` seconds."""
        self._learn_time(trip_s, now_s, is_least=True)
        self._learn_rate(size / max(taken_s, _INSTANT_S), now_s)

    def retime(self, trip_s: float) -> None:
        """Take another shortest time: the requests have another usual size now. No effect before the first answer."""
        if self._shortest_s:
            self._shortest_s = trip_s

    def _learn_time(self, taken_s: float, now_s: float, *, is_least: bool) -> None:
        self._last_s = taken_s
        if not self._shortest_s or taken_s <= self._shortest_s or (self._is_probing and is_least):
            self._shortest_s, self._shortest_at_s, self._is_probing = taken_s, now_s, False
        elif now_s - self._shortest_at_s > max(_PROBE_S, _PROBE_ROUNDS * self._shortest_s):
            self._is_probing = self._is_probing or not is_least
            if is_least:
                self._shortest_s, self._shortest_at_s = taken_s, now_s

    def _learn_rate(self, rate: float, now_s: float) -> None:
        rates = self._rates
        while rates and rates[-1][1] <= rate:
            rates.pop()
        rates.append((now_s, rate))
        before = now_s - max(_ROUNDS * self._shortest_s, 1.0)
        while len(rates) > 1 and rates[0][0] < before:
            rates.popleft()
