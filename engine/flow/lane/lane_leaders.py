"""Stores the leaders of one lane's partitions, and whether the target's leader has every acknowledged record."""

from typing import NamedTuple

from engine.flow.ports.ports import Leader

NOBODY = Leader(-1, -1, "")
_FORGIVEN_S = 30.0
"""After this many seconds without a fault at the source, the count of faults starts again."""


class KnownLeader(NamedTuple):
    """The target leader of a lane, and how often connections to such were lost by then."""

    leader: Leader = NOBODY
    losses: int = 0


class LaneLeaders:
    """The leaders of a lane's source and target partition, `NOBODY` if none is known."""

    def __init__(self) -> None:
        self.source = NOBODY
        self.target = NOBODY
        self.replica: int | None = None
        """The broker with the nearest replica of the source partition, if the leader named one (KIP-392)."""
        self.verified = NOBODY
        """The target leader that is known to have every acknowledged record."""
        self._verified_at = self._earlier_epoch = -1
        """The acknowledged end when it was verified, and the leader epoch of the append before it; -1: not known."""
        self._losses = 0
        self.doubted = False
        """Whether nothing may be appended until the end of the target leader's log is known."""
        self.faults = 0
        """Faults at the source in a row, each of which asked for a look-up of the leader."""
        self._fault_at_s = 0.0

    # --- source ----------------------------------------------------------------------------------------------

    @property
    def source_node(self) -> int:
        """The broker to fetch from: the nearest replica if one was named, else the leader."""
        return self.source.node if self.replica is None else self.replica

    def lead_source(self, leader: Leader) -> None:
        """Note the source leader that a look-up found."""
        self.source = leader

    def lose_source(self) -> None:
        """Forget the source leader: nothing is fetched until the next look-up."""
        self.source, self.replica = NOBODY, None

    def read_from(self, replica: int | None) -> None:
        """Fetch from a replica, or from the leader again (None)."""
        self.replica = replica

    def count_fault(self, now_s: float) -> int:
        """Count a fault at the source; return how many there were in a row."""
        self.faults = self.faults + 1 if now_s - self._fault_at_s < _FORGIVEN_S else 1
        self._fault_at_s = now_s
        return self.faults

    def source_is_older(self, copied_epoch: int) -> bool:
        """Whether the source leader has an older epoch than the copied records: some broker's metadata is old.

        False for a topic without an id: it may have been deleted and created again, and then starts with low epochs.
        """
        return bool(self.source.topic_id) and 0 <= self.source.epoch < copied_epoch

    # --- target ----------------------------------------------------------------------------------------------

    def lead_target(self, leader: Leader) -> None:
        """Note the target leader that a look-up found. It is not verified by that."""
        self.target = leader

    @property
    def target_is_verified(self) -> bool:
        """Whether the target leader is the one that acknowledged the lane's batches.

        After a lost connection only a leader epoch shows that: a leader without one may have restarted.
        """
        return self.target == self.verified and (self.target.epoch >= 0 or not self.doubted)

    def doubt(self, *, is_owned: bool = True) -> None:
        """Let nothing be appended until the target leader is verified; without an owner nothing is appended anyway."""
        self.doubted = is_owned

    def lose(self) -> None:
        """Note that an open connection to the target leader was lost, or is open again."""
        self._losses += 1

    @property
    def known(self) -> KnownLeader:
        """The target leader as it is known now."""
        return KnownLeader(self.target, self._losses)

    def is_still(self, known: KnownLeader) -> bool:
        """Whether the target leader is the same as before, and was not doubted meanwhile."""
        return self.known == known and not self.doubted

    def trust(self, target_next: int) -> bool:
        """Note that the target leader has all up to `target_next`; return whether the lane had to wait for that."""
        self._verified_at, self._earlier_epoch = target_next, self.epoch_at(target_next)
        self.verified, was_doubted, self.doubted = self.target, self.doubted, False
        return was_doubted

    def begin(self, target_next: int, read: KnownLeader, epoch: int = -1) -> None:
        """Note that the log was read up to `target_next`, which another leader may have appended.

        `read`: the leader as it was known before that. A later one, or one that was lost since, must be verified.
        `epoch`: the leader epoch of the last batch before `target_next`; -1: not known.
        """
        self._verified_at, self._earlier_epoch = target_next, epoch
        self.verified, self.doubted = read.leader, self.known != read

    def epoch_at(self, target_next: int) -> int:
        """Return the leader epoch that was known when the last append before `target_next` was acknowledged; -1: none.

        The append may be of a later one that the same leader got without our knowledge, or of an earlier one if the
        acknowledged append was a repetition.
        """
        return self._earlier_epoch if target_next == self._verified_at else self.verified.epoch
