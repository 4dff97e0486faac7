"""Queues groups that need a retry before the next round of all groups: when it is due, and since when they wait."""

_FIRST_S = 0.25
_DOUBLINGS = 16


class RetryQueue:
    """Retries by group, with pauses that double up to `most_s`."""

    def __init__(self) -> None:
        self._due_at_s: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._since_ms: dict[str, int] = {}

    def moved(self, group: str, at_ms: int) -> None:
        """Note that a group has committed: its pauses start small again; its wait counts from its first open commit."""
        self._tries.pop(group, None)
        self._since_ms.setdefault(group, at_ms)

    def again(self, group: str, at_s: float, most_s: float) -> None:
        """Schedule the next retry of a group."""
        tries = self._tries.get(group, 0)
        self._tries[group] = min(tries + 1, _DOUBLINGS)
        self._due_at_s[group] = at_s + min(most_s, _FIRST_S * 2.0**tries)

    def settle(self, group: str) -> int | None:
        """Remove a group; return since when its commits waited (Unix ms), None if it had no commits waiting."""
        self._due_at_s.pop(group, None)
        self._tries.pop(group, None)
        return self._since_ms.pop(group, None)

    def due(self, at_s: float) -> list[str]:
        """Return the groups whose time has come."""
        return [group for group, due_at_s in self._due_at_s.items() if due_at_s <= at_s]

    def next_at_s(self) -> float:
        """Return when the first retry is due; infinity if there is none."""
        return min(self._due_at_s.values(), default=float("inf"))
