"""Stores the set of a lane, and the producer with which this process owns the lane."""

from engine.flow.ports.ports import Producer


class LaneOwnership:
    """A lane's set, assignment epoch and producer. There is no producer before the lane's first owner."""

    def __init__(self, set_id: str, assignment_epoch: int) -> None:
        self.set_id = set_id
        self.assignment_epoch = assignment_epoch
        self.leaving = False
        """Whether the lane is leaving this copier."""
        self.producer: Producer | None = None
        self.alone = False
        """Whether the lane was acquired without a barrier: no previous owner can append to its target partition."""
        self.resumed_by = ""
        """The method that found the offset where the lane resumed."""
        self.source_topic_id = ""
        self.target_topic_id = ""
        self.owned_at_s = 0.0

    @property
    def is_fenced(self) -> bool:
        """Whether the target refuses previous owners. Without a fence they are only detected."""
        return self.producer is not None and self.producer.fenced

    def assign(self, set_id: str, assignment_epoch: int) -> None:
        """Assign the lane to a set at a new epoch."""
        self.set_id, self.assignment_epoch = set_id, assignment_epoch

    def leave(self) -> None:
        """Note that the lane leaves this copier."""
        self.leaving = True

    def watch(self, source_topic_id: str, target_topic_id: str) -> None:
        """Continue at a stored position, without an owner."""
        self.resumed_by = "position"
        self.source_topic_id, self.target_topic_id = source_topic_id, target_topic_id

    def begin(
        self, producer: Producer, resumed_by: str, topic_ids: tuple[str, str], *, alone: bool, now_s: float
    ) -> None:
        """Begin as an owner; `topic_ids`: of the source and the target topic."""
        self.producer, self.resumed_by, self.alone = producer, resumed_by, alone
        self.source_topic_id, self.target_topic_id = topic_ids
        self.owned_at_s = now_s
