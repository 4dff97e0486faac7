"""The transaction coordinator of a simulated lane: one id, durable decisions, delayed markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakes.target_log import NONE, TargetLog

if TYPE_CHECKING:
    from tests.unit.engine.core.simulation import World

OK, BUSY, FENCED = "ok", "busy", "fenced"


class Coordinator:
    """What is open, what is decided, and the markers that still have to be written (Kafka's `TransactionMetadata`)."""

    def __init__(self, world: World, producer_id: int) -> None:
        self.world, self.producer_id = world, producer_id
        self.open: list[TargetLog] = []
        self.markers: list[tuple[TargetLog, int, bool]] = []
        self.decided = ""

    def init(self) -> int:
        """Give out the next epoch: -1 while a transaction is being ended, which this begins where one is open."""
        if self.open:
            self.world.epoch += 1
            self._decide(committing=False)
        if self.markers:
            return -1
        self.world.epoch += 1
        return self.world.epoch

    def add(self, epoch: int, logs: list[TargetLog]) -> str:
        """Let logs take part, unless the markers of the last transaction are still to come."""
        if epoch != self.world.epoch:
            return FENCED
        if self.markers:
            return BUSY
        for log in logs:
            if log not in self.open:
                self.open.append(log)
            log.takes_part.add(self.producer_id)
        self.decided = ""
        return OK

    def commit(self, epoch: int) -> str:
        """Decide; asked again it says the same once all markers are written."""
        if epoch != self.world.epoch:
            return FENCED
        if self.open:
            self._decide(committing=True)
            return OK
        return BUSY if self.markers else OK if self.decided == "commit" else FENCED

    def time_out(self) -> None:
        """Roll back what was open for too long; its owner is told by every broker from now on."""
        if self.open:
            self.world.count("timed out")
            self.world.epoch += 1
            self._decide(committing=False)

    def _decide(self, *, committing: bool) -> None:
        self.decided = "commit" if committing else "abort"
        self.markers = [(log, self.world.epoch, committing) for log in self.open if not self._leaves_out(log)]
        self.open = []

    def _leaves_out(self, log: TargetLog) -> bool:
        """Whether the target has no leader just now: then it gets no marker, ever (KAFKA-20734)."""
        world = self.world
        if world.calm or not world.leaderless or log is not world.target or world.random.random() < 0.3:
            return False
        world.count("left out")
        return True

    def write_marker(self) -> None:
        """One of the markers arrives at its leader."""
        log, epoch, committing = self.markers.pop(self.world.random.randrange(len(self.markers)))
        assert log.marker(self.producer_id, epoch, committing=committing) == NONE

    def write_markers(self) -> None:
        """All of them arrive."""
        while self.markers:
            self.write_marker()
