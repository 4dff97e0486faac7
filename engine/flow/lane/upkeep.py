"""Stores when a lane's transactional id was last kept alive, and how many bytes were copied at its last position."""


class Upkeep:
    """State of the periodic work on one lane."""

    def __init__(self) -> None:
        self.kept_alive_at_s = 0.0
        self.flushed_bytes = 0

    def begin(self, now_s: float, copied_bytes: int) -> None:
        """Begin with a new owner, whose id and position are fresh."""
        self.kept_alive_at_s, self.flushed_bytes = now_s, copied_bytes

    def kept_alive(self, at_s: float) -> None:
        """Note when the id was kept alive; 0: keep it alive at the next tick."""
        self.kept_alive_at_s = at_s

    def flushed(self, copied_bytes: int) -> None:
        """Note that the position is being written."""
        self.flushed_bytes = copied_bytes
