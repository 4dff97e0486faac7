"""A model of a broker's fetch sessions (KIP-227): what it remembers, answers, and omits."""

from typing import NamedTuple

from engine.flow.ports.ports import PartitionFetch
from engine.kafka.client.fetch_session import FetchPlan
from policies.model import TopicPartition

NONE, NOT_FOUND, INVALID_EPOCH, ID_ERROR = 0, 70, 71, 106
LAST_EPOCH = 2**31 - 1


class Ends(NamedTuple):
    """What a broker tells of a partition."""

    high_watermark: int
    log_start: int


class Told(NamedTuple):
    """One partition of an answer: where it was read, how many records came, and its ends."""

    offset: int
    records: int
    ends: Ends


class Answer(NamedTuple):
    """An answer of the model."""

    error_code: int
    session_id: int
    partitions: dict[TopicPartition, Told]


class Session:
    """One slot of the broker's cache."""

    def __init__(self, epoch: int, by_id: bool) -> None:
        self.epoch = epoch
        self.by_id = by_id
        self.members: dict[TopicPartition, tuple[PartitionFetch, Ends | None]] = {}


class Broker:
    """One broker with as many slots as a test gives it."""

    def __init__(self) -> None:
        self.slots = 1
        self.logs: dict[TopicPartition, Ends] = {}
        self.sessions: dict[int, Session] = {}
        self.issued = 0

    def answer(self, plan: FetchPlan) -> Answer:
        """Answer one fetch."""
        if plan.epoch > 0:
            return self._go_on(plan)
        assert not plan.forgotten, "a whole fetch forgets nothing"
        if plan.epoch == 0:
            self.sessions.pop(plan.session_id, None)
        session = Session(1, plan.by_id)
        session.members = {one.partition: (one, None) for one in plan.named}
        found = self._read(session)
        if plan.epoch < 0 or not plan.named or len(self.sessions) >= self.slots:
            return Answer(NONE, 0, found)
        self.issued += 1
        self.sessions[self.issued] = session
        return Answer(NONE, self.issued, found)

    def _go_on(self, plan: FetchPlan) -> Answer:
        session = self.sessions.get(plan.session_id)
        if session is None:
            return Answer(NOT_FOUND, 0, {})
        if session.by_id is not plan.by_id:
            return Answer(ID_ERROR, 0, {})
        if session.epoch != plan.epoch:
            return Answer(INVALID_EPOCH, 0, {})
        session.epoch = 1 if plan.epoch == LAST_EPOCH else plan.epoch + 1
        for one in plan.named:
            session.members[one.partition] = one, session.members.get(one.partition, (one, None))[1]
        for partition in plan.forgotten:
            del session.members[partition]
        if not session.members:
            del self.sessions[plan.session_id]
            return Answer(NONE, 0, {})
        return Answer(NONE, plan.session_id, self._read(session))

    def _read(self, session: Session) -> dict[TopicPartition, Told]:
        found: dict[TopicPartition, Told] = {}
        for partition, (wanted, told) in session.members.items():
            ends = self.logs.get(partition, Ends(-1, -1))
            records = max(0, min(ends.high_watermark - wanted.offset, wanted.max_bytes))
            if records or told != ends:
                found[partition] = Told(wanted.offset, records, ends)
                session.members[partition] = wanted, ends
        return found
