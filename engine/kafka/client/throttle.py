"""Remembers until when a cluster takes no changes of topics, because a quota is used up (KIP-599)."""

from math import inf

from engine.base.clock import now_s


class Throttle:
    """The throttle times in the answers of one cluster; a client waits for them itself (KIP-219)."""

    def __init__(self) -> None:
        self._until_s = -inf

    def note(self, seconds: float) -> None:
        """Note the throttle time of an answer that has just come."""
        self._until_s = max(self._until_s, now_s() + seconds)

    def left_s(self) -> float:
        """Return the seconds until the cluster takes changes again; 0 if it does now."""
        return max(0.0, self._until_s - now_s())
