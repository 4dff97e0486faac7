"""Tracks brokers that accept requests but do not answer: first they are asked last, later they lose the connection."""

from engine.base.clock import now_s

_SLOW_S, _DEAD_S = 10.0, 30.0


class Silence:
    """The silent brokers of one client."""

    def __init__(self) -> None:
        self._silent: dict[int, tuple[float, float]] = {}
        """Broker -> when its silence began, and when it was last noticed (monotonic seconds)."""

    def note(self, node: int) -> bool:
        """Note that a broker did not answer in time; return whether it counts as dead (silent for over 30 s)."""
        now = now_s()
        since_s, _ = self._silent.get(node, (now, now))
        self._silent[node] = since_s, now
        is_dead = now - since_s > _DEAD_S
        if is_dead:
            del self._silent[node]
        return is_dead

    def over(self, node: int) -> None:
        """Note that a broker has answered."""
        self._silent.pop(node, None)

    def is_fresh(self, node: int) -> bool:
        """Whether a broker was silent within the last 10 s."""
        return node in self._silent and now_s() - self._silent[node][1] < _SLOW_S
