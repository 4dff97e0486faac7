"""Decides whether a class of topics may be fetched while a hotter class has a backlog. Pure: the caller has the clock.

A class that is not held back shares nothing out. While a hotter class has a backlog, a colder one gets 1/16 of the
bytes that hotter classes receive, and one fetch a second if that is more. So no class starves, however long the other
one's backlog is, and however slowly it moves.

Rejected: strict priority. A failover topic that never catches up (its target partition is too slow) would stop all
other topics until their retention deletes what was not copied.
"""

from policies.traffic import Priority

PART = 16
"""A colder class gets this part (1/16) of the bytes of hotter classes."""
EVERY_S = 1.0
"""A colder class gets one fetch in so many seconds at least."""
_MOST_BYTES = 4 * 1024 * 1024
"""Most bytes of credit or debt: it does not last longer than the backlogs that it comes from."""


class ClassShares:
    """The credits of the classes, in bytes."""

    def __init__(self) -> None:
        self._credit = dict.fromkeys(Priority, 0.0)
        self._served_s: dict[Priority, float] = {}

    def may_fetch(self, priority: Priority, now_s: float, *, hotter_waits: bool) -> bool:
        """Whether a class may be fetched now. `hotter_waits`: whether a hotter class has a backlog that can move."""
        if not hotter_waits:
            self._credit[priority] = 0.0
            self._served_s[priority] = now_s
            return True
        return self._credit[priority] > 0 or now_s - self._served_s.get(priority, now_s - EVERY_S) >= EVERY_S

    def received(self, priority: Priority, size: int, now_s: float) -> None:
        """Note bytes of a class: colder classes get their part of them."""
        if size:
            self._served_s[priority] = now_s
        self._credit[priority] = max(self._credit[priority] - size, -float(_MOST_BYTES))
        for colder in Priority:
            if colder > priority:
                self._credit[colder] = min(self._credit[colder] + size / PART, float(_MOST_BYTES))
