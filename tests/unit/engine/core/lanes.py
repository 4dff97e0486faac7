"""A lane with real batches, for tests that go a few steps by hand."""

from engine.core.lane.actions import Action, Actions
from engine.core.lane.intake import stamp, work_for
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import Limits, PendingBatch
from engine.core.lane.stretch_intake import take_in_stretches
from engine.core.position.position import Position
from engine.core.position.target_tail import TailBatch
from engine.wire.batch import read_header
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.source_log import SourceLog
from tests.unit.engine.core.positions import position

FLOW = FlowName("A", "B")
NAME = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
K = OutcomeKind


class Shares:
    """Counts the shares of one receive buffer."""

    def __init__(self) -> None:
        self.count = 1
        self.owned: list[tuple[int, bool, Shares]] = []
        """Size, whether stuck, and shares of what batches have for themselves."""

    def own(self, size: int, *, stuck: bool) -> "Shares":
        self.owned.append((size, stuck, Shares()))
        return self.owned[-1][2]

    def retain(self) -> "Shares":
        self.count += 1
        return self

    def release(self) -> None:
        assert self.count > 0
        self.count -= 1


def _all_owned(shares: Shares) -> list[tuple[int, bool, Shares]]:
    return [row for one in shares.owned for row in (one, *_all_owned(one[2]))]


class Played:
    """A lane from source offset 0 and target offset 50 on, with its source."""

    def __init__(self, *, barrier_done: bool = True, durable: bool = True, limits: Limits | None = None) -> None:
        self.lane = Lane(FLOW, NAME, limits)
        self.source = SourceLog()
        self.shares: list[Shares] = []
        self.lane.own(start(), barrier_done=barrier_done)
        if durable:
            self.durable()

    def durable(self) -> None:
        """Every run known now is durable."""
        self.lane.on_position_durable(self.lane.plan_version)

    def take(self, *, max_batch_bytes: int = 1 << 20, batches: int = 100, late: bool = False) -> None:
        """Fetch whatever the source has, `late`: its replica with a late cleaner."""
        fetched, aborted = self.source.fetch(self.lane.fetch_offset, batches, late=late)
        buffer, shares = bytearray(fetched), Shares()
        self.shares.append(shares)
        view, limit = memoryview(buffer), max_batch_bytes
        work = work_for(self.lane, view, 0, len(view), aborted=aborted, max_batch_bytes=limit)
        take_in_stretches(self.lane, work, shares)
        shares.release()

    def feed(self, *counts: int) -> None:
        """Write batches of so many records at the source and fetch them."""
        for count in counts:
            self.source.data(count)
        self.take()

    def send(self) -> list[PendingBatch]:
        """Send all that may be sent."""
        sent: list[PendingBatch] = []
        while (piece := self.lane.next_append()) is not None:
            stamp(piece, *self.lane.producer)
            sent.append(piece)
        return sent

    def answer(self, piece: PendingBatch, kind: OutcomeKind, base_offset: int = -1, error_code: int = 0) -> Actions:
        return self.lane.on_outcome(piece, Outcome(kind, base_offset, error_code))

    def answers(self, pieces: list[PendingBatch], *kinds: OutcomeKind) -> Action:
        """Answer a window of which the first batch was not appended; return what the lane asks for."""
        asked = [action for piece, kind in zip(pieces, kinds, strict=True) for action in self.answer(piece, kind, 50)]
        (action,) = asked
        return action

    @property
    def leased(self) -> int:
        return sum(shares.count for shares in self.shares)

    def own_bytes(self, *, stuck: bool) -> int:
        """Return the bytes that batches have for themselves."""
        rows = [one for shares in self.shares for one in _all_owned(shares)]
        return sum(size for size, is_stuck, shares in rows if is_stuck is stuck and shares.count)


def start() -> Position:
    """The position that a played lane begins with."""
    return position(0, 50)


def as_tail(piece: PendingBatch, base_offset: int) -> TailBatch:
    """A sent batch as it stands in the target's log."""
    header = read_header(memoryview(piece.payload), 0)
    return TailBatch(
        base_offset,
        base_offset + header.record_count,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
        False,
    )
