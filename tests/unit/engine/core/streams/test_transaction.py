"""The transaction of a lane: when it begins, its content, when it ends, and what others read until then."""

import pytest

from engine.core.lane.actions import Reacquire, Retry, Unmarked
from engine.core.lane.outcome import Outcome
from engine.core.lane.pending_batch import PendingBatch
from engine.core.position.position import Position, decode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionWrite
from engine.core.streams.transaction import CommittedPositions, TransactionStage, TransactionStep
from engine.wire.batch import read_header
from engine.wire.records import decode_records
from tests.unit.engine.core.lanes import NAME, K, Played, start

APPENDED = Outcome(K.APPENDED, 7)
EVERY_S = 10.0


class Play:
    """A lane with its transaction, moved by hand."""

    def __init__(self, *, announced: bool = True) -> None:
        self.played = Played(durable=False)
        self.lane = self.played.lane
        self.stream = CommittedPositions(self.lane, PositionKeys("A").encode(NAME.source), lambda: 1234, EVERY_S)
        self.stream.begin()
        if announced:
            self.carry(0.0)

    def step(self, now_s: float, *, caught_up: bool = True) -> TransactionStep | None:
        return self.stream.step(now_s, caught_up=caught_up)

    def write(self) -> PositionWrite:
        write = self.stream.next_write()
        assert write is not None
        return write

    def open(self, now_s: float) -> None:
        """Begin a transaction."""
        assert self.step(now_s) is TransactionStep.BEGIN
        self.stream.begun(now_s)

    def carry(self, now_s: float) -> None:
        """Bring a transaction without records to its end."""
        self.open(now_s)
        self.finish(now_s)

    def finish(self, now_s: float) -> PositionWrite:
        """From sealing on."""
        assert self.step(now_s) is TransactionStep.WRITE
        write = self.write()
        assert self.stream.on_outcome(write, APPENDED) is None
        assert self.step(now_s) is TransactionStep.COMMIT
        self.stream.committed(now_s)
        return write

    def feed(self, now_s: float, count: int = 2) -> PendingBatch:
        """Let one batch be sent in a transaction."""
        self.played.feed(count)
        self.open(now_s)
        (piece,) = self.played.send()
        return piece


def stored(write: PositionWrite) -> Position:
    header = read_header(write.payload, 0)
    (record,) = decode_records(write.payload, 0, header, "positions", 0)
    found = decode_value(record.value)
    assert isinstance(found, Position)
    return found


def test_the_first_position_goes_in_a_transaction_without_records() -> None:
    play = Play(announced=False)
    assert not play.stream.takes_records
    assert play.step(0.0) is TransactionStep.BEGIN
    assert not play.stream.with_records
    assert play.step(0.0) is None, "it is being begun"
    assert play.stream.next_write() is None
    play.stream.begun(0.0)
    assert play.step(0.0) is TransactionStep.WRITE
    assert play.step(0.0) is None
    write = play.write()
    header = read_header(write.payload, 0)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (41, 3, 0)
    assert play.stream.next_write() is None
    play.stream.on_outcome(write, APPENDED)
    assert not play.lane.announced, "it is not committed yet"
    assert play.stream.told_version == -1
    assert play.stream.told_head() is None
    assert play.step(0.0) is TransactionStep.COMMIT
    assert play.step(0.0) is None
    assert not play.stream.settled
    play.stream.committed(0.0)
    assert play.lane.announced
    assert play.stream.settled
    assert play.lane.markers == 0, "the target partition took no part"
    assert play.stream.told_head() == start().map_head
    assert play.step(0.0) is None, "nothing is wanted"


def test_records_begin_a_transaction_that_ends_when_all_is_copied() -> None:
    play = Play()
    piece = play.feed(50.0)
    assert play.stream.with_records
    assert play.step(50.0) is None, "there is one in flight"
    assert play.played.answer(piece, K.APPENDED, 50) == ()
    assert play.stream.told_version < play.lane.position_version, "nobody is told of what may be rolled back"
    write = play.finish(50.0)
    assert (stored(write).source_next, stored(write).target_next) == (2, 52)
    assert play.lane.markers == 1
    assert play.stream.told_version == play.lane.position_version
    assert play.stream.settled


def test_the_commit_marker_is_no_foreign_record() -> None:
    play = Play()
    play.played.answer(play.feed(50.0), K.APPENDED, 50)
    play.finish(50.0)
    assert play.played.answer(play.feed(51.0), K.APPENDED, 53) == ()
    assert play.lane.target_next == 55
    play.finish(52.0)
    assert len(play.played.answer(play.feed(53.0), K.APPENDED, 57)) == 1, "one more than the marker"


def test_an_append_in_the_place_of_the_marker_says_that_there_is_none() -> None:
    """The records are there, or the broker had not taken the sequence behind them: only the marker is not."""
    play = Play()
    play.played.answer(play.feed(50.0), K.APPENDED, 50)
    play.finish(50.0)
    assert play.played.answer(play.feed(51.0), K.APPENDED, 52) == (Unmarked(52),)
    assert play.lane.target_next == 54
    play.finish(52.0)
    assert play.played.answer(play.feed(53.0), K.APPENDED, 55) == ()


def test_an_append_below_the_acknowledged_end_is_a_loss() -> None:
    play = Play()
    play.played.answer(play.feed(50.0), K.APPENDED, 50)
    play.finish(50.0)
    (action,) = play.played.answer(play.feed(51.0), K.APPENDED, 51)
    assert isinstance(action, Reacquire)


@pytest.mark.parametrize(
    ("now_s", "caught_up", "over"), [(50.5, True, False), (51.1, True, True), (51.1, False, False), (60.6, False, True)]
)
def test_a_busy_lane_commits_once_in_an_interval_and_an_idle_one_soon(
    now_s: float, caught_up: bool, over: bool
) -> None:
    play = Play()
    play.played.answer(play.feed(50.0), K.APPENDED, 50)
    play.finish(50.0)
    play.played.answer(play.feed(50.5), K.APPENDED, 53)
    assert (play.step(now_s, caught_up=caught_up) is TransactionStep.WRITE) == over


def test_an_interval_that_is_over_waits_for_what_is_in_flight() -> None:
    play = Play()
    piece = play.feed(50.0)
    assert play.step(60.0) is None
    assert play.stream.stage is TransactionStage.SEALING
    play.played.feed(2)
    assert not play.stream.takes_records, "nothing new goes any more"
    play.played.answer(piece, K.APPENDED, 50)
    write = play.finish(60.0)
    assert stored(write).source_next == 2
    assert play.step(60.0) is TransactionStep.BEGIN, "for what came meanwhile"


def test_what_may_be_there_or_not_goes_again_before_the_position() -> None:
    play = Play()
    piece = play.feed(50.0)
    (action,) = play.played.answer(piece, K.UNKNOWN)
    assert isinstance(action, Retry)
    assert play.step(60.0) is None, "it waits for its turn to go again"
    play.lane.on_retry()
    assert play.step(60.0) is None
    assert play.stream.takes_records
    (again,) = play.played.send()
    assert again is piece
    play.played.answer(again, K.APPENDED, 50)
    assert play.step(60.0) is TransactionStep.WRITE


def test_a_refused_lane_commits_what_is_there() -> None:
    play = Play()
    piece = play.feed(50.0)
    play.played.answer(piece, K.REFUSED)
    write = play.finish(50.0)
    assert stored(write).source_next == 0
    play.stream.flush_asked = False
    assert play.step(51.0) is None, "it has nothing to send while it is refused"
    play.lane.on_retry()
    assert play.step(52.0) is TransactionStep.BEGIN


def test_a_drained_or_paused_lane_does_not_wait_for_more() -> None:
    for hurry in ("draining", "paused"):
        play = Play()
        play.played.answer(play.feed(50.0), K.APPENDED, 50)
        setattr(play.lane, hurry, True)
        assert play.step(51.1, caught_up=False) is TransactionStep.WRITE


def test_a_skipped_stretch_is_written_when_it_is_asked_for() -> None:
    play = Play()
    play.lane.skip_to(5)
    assert play.step(50.0) is None
    play.stream.flush_asked = True
    play.open(50.0)
    assert not play.stream.takes_records
    assert stored(play.finish(50.0)).source_next == 5


def test_a_refreshed_fence_reaches_every_partition() -> None:
    play = Play()
    play.stream.refresh()
    assert play.step(50.0) is TransactionStep.BEGIN
    assert play.stream.whole
    assert play.stream.with_records
    play.stream.begun(50.0)
    play.finish(50.0)
    assert not play.stream.whole
    assert play.lane.markers == 1


def test_a_lane_without_an_owner_does_nothing() -> None:
    play = Play()
    play.played.answer(play.feed(50.0), K.APPENDED, 50)
    play.lane.disown()
    assert play.step(70.0) is None
    play.lane.own(start(), barrier_done=True)
    play.stream.begin()
    assert play.stream.stage is TransactionStage.CLOSED
    assert play.lane.markers == 0
    assert play.stream.told_version == -1
    assert play.step(70.0) is TransactionStep.BEGIN


def test_the_interval_counts_from_the_coordinators_answer() -> None:
    play = Play()
    play.played.feed(2)
    assert play.step(50.0) is TransactionStep.BEGIN
    play.stream.begun(70.0)
    assert play.step(70.0) is None, "or it would end before anything was sent, again and again"
    assert play.stream.takes_records
