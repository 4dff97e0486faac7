"""Keeps which partition set a lane belongs to, and who its owner in this process is to the brokers."""

from engine.flow.ports.ports import Producer


class LaneOwnership:
    """A lane's set, assignment epoch and producer. There is no producer before the lane's first owner."""

    def __init__(self, set_id: str, assignment_epoch: int) -> None:
        self.set_id = set_id
        self.assignment_epoch = assignment_epoch
        self.leaving = False
        """Whether the lane is on its way out of this copier."""
        self.producer: Producer | None = None
        self.alone = False
        """Whether the lane was taken without a barrier: there is nobody to be kept from its target partition."""
        self.resumed_by = ""
        """How the place was found where the lane resumed."""
        self.source_topic_id = ""
        self.target_topic_id = ""
        self.owned_at_s = 0.0

    @property
    def is_fenced(self) -> bool:
        """Whether the target refuses former owners. Without a fence they are only detected."""
        return self.producer is not None and self.producer.fenced

    def assign(self, set_id: str, assignment_epoch: int) -> None:
        """Belong to a set at a new epoch."""
        self.set_id, self.assignment_epoch = set_id, assignment_epoch

    def leave(self) -> None:
        """Begin to leave this copier."""
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
