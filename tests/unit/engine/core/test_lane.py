"""The lane, step by step; what random interleavings cannot name is in test_interleavings.py."""

import pytest

from engine.core.actions import Fail, Inspect, Reacquire, ReadTail, Retry, RetryRefused, Split
from engine.core.events import RecordRefused, TargetGap
from engine.core.lane import Lane
from engine.core.outcome import Outcome
from engine.core.piece import Limits
from engine.core.resume import Tail, TailBatch
from engine.core.states import State
from engine.wire.batch import read_header
from engine.wire.records import decode_records, reencode
from tests.fakes.source_log import BORN_MS
from tests.unit.engine.core.lanes import FLOW, NAME, K, Played, as_tail, start
from tests.unit.engine.core.positions import position


def test_a_lane_without_an_owner_has_no_place() -> None:
    lane = Lane(FLOW, NAME)
    assert (lane.source_next, lane.target_next, lane.wants_fetch, lane.idle) == (-1, -1, False, True)
    assert not lane.plan_needed
    lane.rewind()
    assert lane.next_append() is None
    with pytest.raises(AssertionError, match="not owned yet"):
        _ = lane.position
    with pytest.raises(AssertionError, match="not owned yet"):
        _ = lane.plan_version


def test_nothing_is_sent_before_a_position_of_ours_is_durable() -> None:
    played = Played(durable=False)
    assert played.lane.plan_needed
    played.durable()
    played.feed(3)
    assert [piece.sequence for piece in played.send()] == [0]


def test_what_was_appended_moves_the_position() -> None:
    played = Played()
    played.feed(3, 2)
    first, second = played.send()
    assert played.answer(first, K.APPENDED, 50) == ()
    assert (played.lane.source_next, played.lane.target_next) == (3, 53)
    assert played.answer(second, K.APPENDED, 53) == ()
    at = played.lane.position
    assert (at.source_next, at.target_next, at.sequence, at.runs) == (5, 55, 5, ((0, 0),))
    assert (played.lane.records, played.lane.idle, played.lane.queued_bytes, played.leased) == (5, True, 0, 0)


@pytest.mark.parametrize(("barrier_done", "window"), [(True, 5), (False, 1)])
def test_the_window_opens_with_a_barrier_or_the_first_acknowledgement(barrier_done: bool, window: int) -> None:
    played = Played(barrier_done=barrier_done)
    played.feed(*[1] * 8)
    sent = played.send()
    assert len(sent) == window == played.lane.in_flight
    played.answer(sent[0], K.APPENDED, 50)
    played.send()
    assert played.lane.in_flight == 5


def test_bytes_waiting_and_runs_bound_what_is_fetched() -> None:
    full = Played(limits=Limits(queue_bytes=1))
    assert full.lane.wants_fetch
    full.feed(1)
    assert not full.lane.wants_fetch
    torn = Played(limits=Limits(max_runs=2))
    torn.source.data(1)
    torn.source.vanish(1)
    torn.feed(1)
    assert not torn.lane.wants_fetch


@pytest.mark.parametrize("flag", ["paused", "draining"])
def test_a_paused_or_draining_lane_fetches_nothing(flag: str) -> None:
    played = Played()
    setattr(played.lane, flag, True)
    assert not played.lane.wants_fetch


def test_a_break_waits_for_its_plan_and_what_stands_before_it_does_not() -> None:
    played = Played()
    played.source.data(2)
    played.source.vanish(3)
    played.feed(2)
    assert [piece.source_base for piece in played.send()] == [0]
    assert played.lane.plan_needed
    played.durable()
    assert [piece.source_base for piece in played.send()] == [5]


def test_skipped_offsets_belong_to_the_batch_before_them_or_to_the_position() -> None:
    played = Played()
    played.source.aborted_data(2, 7)
    played.take()
    assert played.lane.source_next == 3
    played.feed(2)
    played.durable()
    (piece,) = played.send()
    played.source.aborted_data(1, 7)  # behind a batch in flight
    played.take()
    played.source.data(1)
    played.source.aborted_data(1, 7)  # behind a batch in waiting
    played.take()
    played.answer(piece, K.APPENDED, 50)
    assert played.lane.source_next == 7
    played.durable()
    (piece,) = played.send()
    played.answer(piece, K.APPENDED, 52)
    assert played.lane.source_next == played.source.end == 10


def test_the_first_failure_stops_the_window_and_the_same_bytes_go_out_again() -> None:
    played = Played()
    played.feed(2, 2, 2)
    sent = played.send()
    assert played.answer(sent[0], K.UNKNOWN) == ()
    assert (played.lane.state, played.lane.next_append()) == (State.TROUBLED, None)
    before = [bytes(piece.payload) for piece in sent]
    assert played.answer(sent[1], K.UNKNOWN) == ()
    assert played.answer(sent[2], K.ORDER) == (Retry(1),)
    assert (played.lane.state, played.leased) == (State.WAITING, 0)
    played.lane.on_retry()
    (again,) = played.send()  # one at a time until the broker has answered
    assert bytes(again.payload) == before[0]
    played.answer(again, K.APPENDED, 50)
    assert [bytes(piece.payload) for piece in played.send()] == before[1:]


def test_trouble_forgets_what_was_never_sent() -> None:
    played = Played(limits=Limits(max_in_flight=1))
    played.feed(2, 2)
    played.answers(played.send(), K.RETRY)
    assert played.lane.fetch_offset == 2
    assert played.lane.queued_bytes == played.source.batches[0].encode().__len__()
    assert played.leased == 0


def test_attempts_are_counted_until_something_is_appended() -> None:
    played = Played()
    played.feed(1)
    for attempt in (1, 2, 3):
        assert played.answers(played.send(), K.RETRY) == Retry(attempt)
        played.lane.on_retry()
    (piece,) = played.send()
    played.answer(piece, K.APPENDED, 50)
    played.feed(1)
    assert played.answers(played.send(), K.RETRY) == Retry(1)


def test_an_answer_for_a_batch_of_a_former_ownership_is_ignored() -> None:
    played = Played()
    played.feed(2)
    (piece,) = played.send()
    played.lane.disown()
    assert (played.lane.state, played.leased) == (State.ACQUIRING, 0)
    assert played.answer(piece, K.APPENDED, 50) == ()
    assert played.lane.source_next == 0
    played.lane.on_retry()
    assert played.lane.state is State.ACQUIRING


def test_an_append_below_the_acknowledged_end_asks_for_the_owner() -> None:
    played = Played()
    played.feed(2)
    (piece,) = played.send()
    (action,) = played.answer(piece, K.APPENDED, 49)
    assert isinstance(action, Reacquire)
    assert "below the acknowledged end 50" in action.reason
    assert played.lane.source_next == 0


def test_an_append_further_on_asks_for_a_look_at_what_lies_between() -> None:
    played = Played()
    played.feed(2)
    (piece,) = played.send()
    assert played.answer(piece, K.APPENDED, 53) == (Inspect(50, 52),)
    assert played.lane.target_next == 55


@pytest.mark.parametrize(("message", "reason"), [("fenced by x", "fenced by x"), ("", "error 47")])
def test_a_fence_asks_for_the_owner(message: str, reason: str) -> None:
    played = Played()
    played.feed(1)
    (piece,) = played.send()
    assert played.lane.on_outcome(piece, Outcome(K.FENCED, -1, 47, message)) == (Reacquire(reason, fenced=True),)


def test_a_refusal_names_the_source_offset_of_the_record() -> None:
    played = Played()
    played.source.data(2)
    played.source.vanish(5)
    played.source.data(3)
    played.take()
    played.durable()
    first, second = played.send()
    played.answer(first, K.APPENDED, 50)
    (action,) = played.lane.on_outcome(second, Outcome(K.REFUSED, -1, 87, "no key", record_index=2))
    assert isinstance(action, RetryRefused)
    expected = RecordRefused(flow=FLOW, lane=NAME.source, source_offset=9, error_code=87, reason="no key")
    assert (action.attempt, action.event) == (1, expected)
    assert played.lane.state is State.REFUSED
    played.lane.on_retry()
    assert played.send() == [second]


def test_a_refusal_without_words_says_its_kind() -> None:
    played = Played()
    played.feed(1)
    action = played.answers(played.send(), K.REFUSED)
    assert isinstance(action, RetryRefused)
    assert action.event.reason == "refused"


def _split(played: Played, action: Split, limit: int) -> None:
    payload = action.piece.payload
    header = read_header(memoryview(payload), 0)
    parts = reencode(payload, 0, header, "t", 0, wanted_offset=0, max_batch_bytes=limit)
    played.lane.on_split(action.piece, parts)


def test_a_batch_that_is_too_large_goes_in_parts_with_the_same_sequences() -> None:
    played = Played()
    played.source.data(6)
    played.source.aborted_data(1, 7)
    played.take()
    action = played.answers(played.send(), K.TOO_LARGE)
    assert isinstance(action, Split)
    _split(played, action, 90)
    played.lane.on_retry()
    sequences: list[int] = []
    base = 50
    while sent := played.send():
        for piece in sent:
            records = decode_records(memoryview(piece.payload), 0, read_header(memoryview(piece.payload), 0), "t", 0)
            sequences += range(piece.sequence, piece.sequence + len(records))
            assert [int(record.key or b"") for record in records] == list(
                range(piece.source_base, piece.source_base + len(records))
            )
            played.answer(piece, K.APPENDED, base)
            base += len(records)
    assert sequences == list(range(6))
    assert played.lane.source_next == played.source.end
    assert (played.lane.queued_bytes, played.lane.idle) == (0, True)


def test_parts_are_kept_through_trouble_as_their_whole_would_have_been() -> None:
    """The whole may still turn up in the log, so its sequences must not come to mean other records."""
    played = Played()
    played.feed(6)
    action = played.answers(played.send(), K.TOO_LARGE)
    assert isinstance(action, Split)
    _split(played, action, 90)
    played.lane.on_retry()
    (part,) = played.send()
    played.answer(part, K.UNKNOWN)
    played.lane.rewind()
    assert played.lane.fetch_offset == 6
    assert played.lane.queued_bytes > len(part.payload)


def test_parts_of_a_batch_that_was_forgotten_meanwhile_are_ignored() -> None:
    played = Played()
    played.feed(6)
    action = played.answers(played.send(), K.TOO_LARGE)
    assert isinstance(action, Split)
    played.lane.disown()
    _split(played, action, 90)
    assert played.lane.idle
    played.lane.own(start(), barrier_done=True)
    played.durable()
    played.take()
    _split(played, action, 90)
    assert len(played.send()) == 1


def _settling(played: Played, *counts: int) -> list[TailBatch]:
    """Bring a lane into SETTLING; return its batches as the target would hold them from offset 50 on."""
    played.feed(*counts)
    sent = played.send()
    action = played.answers(sent, *[K.ORDER] * len(sent))
    assert action == ReadTail(50)
    tail: list[TailBatch] = []
    for piece in sent:
        tail.append(as_tail(piece, tail[-1].next_offset if tail else 50))
    return tail


def _tail(*batches: TailBatch, end: int | None = None, start: int = 0) -> Tail:
    reached = batches[-1].next_offset if batches else 50
    return Tail(log_start=start, end=reached if end is None else end, batches=batches)


@pytest.mark.parametrize("held", [0, 1, 2, 3])
def test_what_the_log_holds_is_acknowledged_and_the_rest_goes_out_again(held: int) -> None:
    played = Played()
    tail = _settling(played, 2, 2, 2)[:held]
    assert played.lane.on_tail(_tail(*tail)) == (Retry(1),)
    assert (played.lane.source_next, played.lane.target_next) == (2 * held, 50 + 2 * held)
    assert played.lane.state is State.WAITING
    played.lane.on_retry()
    again = played.send()
    assert [piece.source_base for piece in again] == ([2 * held] if held < 3 else [])


def test_a_tail_with_another_writers_records_is_looked_into() -> None:
    played = Played()
    (ours,) = _settling(played, 2)
    foreign = TailBatch(52, 55, -1, -1, -1, 3, False)
    assert played.lane.on_tail(_tail(ours, foreign)) == (Retry(1), Inspect(52, 54))
    assert played.lane.target_next == 55


def test_a_tail_that_nobody_asked_for_is_ignored() -> None:
    assert Played().lane.on_tail(_tail()) == ()


def test_a_target_that_lost_what_it_acknowledged_is_acquired_anew() -> None:
    played = Played()
    played.feed(2)
    (first,) = played.send()
    played.answer(first, K.APPENDED, 50)
    played.feed(2)
    assert played.answers(played.send(), K.ORDER) == ReadTail(52)
    (action,) = played.lane.on_tail(Tail(log_start=0, end=51, batches=(TailBatch(50, 51, 41, 3, 0, 1, False),)))
    assert isinstance(action, Reacquire)
    assert "lost records" in action.reason


def test_a_tail_that_does_not_tell_the_end_fails_the_lane() -> None:
    played = Played()
    _settling(played, 2)
    (action,) = played.lane.on_tail(_tail(end=60, start=60))
    assert isinstance(action, Fail)
    assert isinstance(action.event, TargetGap)
    assert (action.event.expected, action.event.found) == (50, 60)
    assert played.lane.state is State.FAILED


def test_a_log_that_holds_half_a_batch_of_ours_fails_the_lane() -> None:
    played = Played()
    _settling(played, 4)
    (action,) = played.lane.on_tail(_tail(TailBatch(50, 52, 41, 3, 0, 2, False)))
    assert isinstance(action, Fail)
    assert "a part of a batch" in action.event.text()


def test_a_lane_takes_a_newer_assignment_epoch_into_its_next_position() -> None:
    lane = Played().lane
    before = lane.position_version
    lane.adopt_epoch(9)
    assert (lane.position.assignment_epoch, lane.position_version) == (9, before + 1)


def test_a_drained_lane_finishes_what_is_in_flight_and_forgets_the_rest() -> None:
    played = Played(limits=Limits(max_in_flight=1))
    played.feed(2, 2)
    (piece,) = played.send()
    played.lane.drain()
    assert (played.lane.fetch_offset, played.lane.wants_fetch) == (2, False)
    played.answer(piece, K.APPENDED, 50)
    assert played.lane.idle
    played.lane.stop()
    assert (played.lane.state, played.leased) == (State.STOPPED, 0)


def test_a_failed_lane_gives_its_buffers_back_and_may_be_owned_again() -> None:
    played = Played()
    played.feed(2)
    played.lane.fail()
    assert (played.lane.state, played.leased) == (State.FAILED, 0)
    played.lane.disown()
    played.lane.own(position(1, 51), barrier_done=True)
    assert played.lane.fetch_offset == 1
    assert played.lane.producer == (41, 3)


def test_a_log_that_never_shows_what_the_broker_says_ends_in_a_new_acquisition() -> None:
    played = Played(limits=Limits(settlements=3))
    played.feed(2)
    for _ in range(3):
        (piece,) = played.send()
        assert played.answers([piece], K.ORDER) == ReadTail(50)
        assert isinstance(played.lane.on_tail(Tail(log_start=0, end=50, batches=()))[0], Retry)
        played.lane.on_retry()
    (piece,) = played.send()
    assert isinstance(played.answers([piece], K.ORDER), Reacquire)


@pytest.mark.parametrize(("before_ms", "expected"), [(0, Retry), (2**62, Reacquire)])
def test_records_older_than_the_target_remembers_producers_are_settled_by_a_new_epoch(
    before_ms: int, expected: type
) -> None:
    played = Played()
    played.lane.forgets_before_ms = before_ms
    played.feed(2, 2)
    sent = played.send()
    assert isinstance(played.answers(sent, K.UNKNOWN, K.UNKNOWN), expected)


def test_a_lane_that_watches_asks_for_the_source_and_for_nothing_else() -> None:
    lane = Lane(FLOW, NAME)
    lane.watch(position(7, 50))
    assert (lane.state, lane.fetch_offset, lane.source_next, lane.target_next) == (State.WATCHING, 7, 7, 50)
    assert lane.wants_fetch
    assert lane.listens
    assert (lane.next_append(), lane.idle, lane.plan_needed) == (None, True, False)
    lane.paused = True
    assert not lane.wants_fetch
    lane.paused = False
    lane.drain()
    assert (lane.wants_fetch, lane.listens) == (False, False)
    lane.wake()
    assert lane.state is State.ACQUIRING


def test_behind_old_records_one_batch_goes_alone_until_the_broker_shows_that_it_knows_us() -> None:
    played = Played()
    played.lane.forgets_before_ms = BORN_MS + 100
    played.feed(2, 2, 2)
    sent = played.send()
    assert len(sent) == 3  # the barrier is of today
    for number, piece in enumerate(sent):
        played.answer(piece, K.APPENDED, 50 + 2 * number)
    played.source.born_ms = BORN_MS + 1000
    played.feed(2, 2)
    (young,) = played.send()  # the last ones were old, and time has passed
    played.answer(young, K.APPENDED, 56)
    assert len(played.send()) == 1
    played.answer(played.lane.pieces.in_flight[0], K.APPENDED, 58)
    played.feed(2, 2)
    assert len(played.send()) == 2  # behind young ones the whole window is open
