"""Brokers that take requests and answer none: asked last for a while, and in the end no longer taken for connected."""

from engine.base.clock import now_s

_SLOW_S, _DEAD_S = 10.0, 30.0


class Silence:
    """What is known of the silence of a client's brokers."""

    def __init__(self) -> None:
        self._silent: dict[int, tuple[float, float]] = {}
        """Broker -> since when it has answered nothing, and when that was noticed last."""

    def note(self, node: int) -> bool:
        """A broker has not answered in time; return whether it has not for so long that its connection is none."""
        now = now_s()
        since_s, _ = self._silent.get(node, (now, now))
        self._silent[node] = since_s, now
        is_dead = now - since_s > _DEAD_S
        if is_dead:
            del self._silent[node]
        return is_dead

    def over(self, node: int) -> None:
        """A broker has answered."""
        self._silent.pop(node, None)

    def is_fresh(self, node: int) -> bool:
        """Whether a broker kept silent a moment ago."""
        return node in self._silent and now_s() - self._silent[node][1] < _SLOW_S
