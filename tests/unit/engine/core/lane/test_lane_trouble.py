"""A lane whose appends fail: what it forgets, sends again and asks for."""

import pytest

from engine.core.events.events import RecordRefused
from engine.core.lane.actions import Action, Inspect, Reacquire, ReadTail, Retry, RetryRefused, Split
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import REMEMBERED, Limits
from engine.core.lane.states import State
from engine.core.position.target_tail import Tail
from engine.wire.batch import read_header
from engine.wire.records import decode_records, reencode
from tests.fakes.source_log import BORN_MS
from tests.unit.engine.core.lanes import FLOW, NAME, K, Played, as_tail, start


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


@pytest.mark.parametrize("refusal", [K.TOO_LARGE, K.REFUSED])
def test_a_refusal_of_a_batch_that_may_be_there_from_an_earlier_try_asks_the_log(refusal: OutcomeKind) -> None:
    played = Played()
    played.feed(2)
    (piece,) = played.send()
    assert played.answers([piece], K.UNKNOWN) == Retry(1)
    played.lane.on_retry()
    assert played.answers(played.send(), refusal) == ReadTail(50)
    played.lane.on_tail(Tail(log_start=0, end=52, batches=(as_tail(piece, 50),)))
    assert (played.lane.source_next, played.lane.idle) == (2, True)


@pytest.mark.parametrize(("refusal", "asked"), [(K.TOO_LARGE, Split), (K.REFUSED, RetryRefused)])
def test_a_refusal_counts_once_the_log_has_shown_that_the_batch_is_not_there(
    refusal: OutcomeKind, asked: type[Action]
) -> None:
    played = Played()
    played.feed(2)
    (piece,) = played.send()
    played.answers([piece], K.UNKNOWN)
    played.lane.on_retry()
    played.answers(played.send(), refusal)
    played.lane.on_tail(Tail(log_start=0, end=50, batches=()))
    played.lane.on_retry()
    assert isinstance(played.answers(played.send(), refusal), asked)


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


@pytest.mark.parametrize(("before_ms", "expected"), [(0, Retry), (2**62, Reacquire)])
def test_records_older_than_the_target_remembers_producers_are_settled_by_a_new_epoch(
    before_ms: int, expected: type
) -> None:
    played = Played()
    played.lane.forgets_before_ms = before_ms
    played.feed(2, 2)
    sent = played.send()
    assert isinstance(played.answers(sent, K.UNKNOWN, K.UNKNOWN), expected)


def test_a_batch_of_unknown_outcome_that_grew_old_must_not_go_out_again() -> None:
    played = Played()
    played.feed(2, 2)
    sent = played.send()
    assert isinstance(played.answers(sent, K.RETRY, K.UNKNOWN), Retry)
    pieces = played.lane.pieces
    assert not pieces.may_double(BORN_MS)  # young enough
    assert pieces.may_double(2**62)  # one of the two, and that is enough: brokers look at the last batch
    played.lane.on_retry()
    (first,) = played.send()
    played.answer(first, K.RETRY)
    assert pieces.may_double(2**62), "what is known of this request says nothing of the one before"


def test_a_batch_that_was_refused_before_the_append_may_go_out_again_however_old() -> None:
    played = Played()
    played.feed(2, 2)
    assert not played.lane.pieces.may_double(2**62)  # never sent
    played.answers(played.send(), K.RETRY, K.RETRY)
    assert not played.lane.pieces.may_double(2**62)


def test_the_parts_of_a_batch_that_may_be_in_the_log_may_be_there_too() -> None:
    played = Played()
    played.feed(6)
    played.answers(played.send(), K.UNKNOWN)
    played.lane.on_retry()
    played.answers(played.send(), K.TOO_LARGE)
    played.lane.on_tail(Tail(log_start=0, end=50, batches=()))
    played.lane.on_retry()
    action = played.answers(played.send(), K.TOO_LARGE)
    assert isinstance(action, Split)
    _split(played, action, 90)
    assert played.lane.pieces.may_double(2**62)


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


def test_few_batches_are_in_flight_behind_an_old_one_until_a_young_one_is_appended() -> None:
    played = Played()
    played.lane.forgets_before_ms = BORN_MS + 100
    played.feed(2)
    played.source.born_ms = BORN_MS + 1000
    played.feed(*[2] * 20)
    sent = played.send()
    assert len(sent) == REMEMBERED, "the broker forgets the producer behind the first one"
    played.answer(sent[0], K.APPENDED, 50)
    assert len(played.send()) == 1
    played.answer(sent[1], K.APPENDED, 52)
    assert len(played.send()) == 15, "behind a young one the whole window is open"


def test_batches_of_a_lane_in_trouble_count_as_stuck_until_they_are_there() -> None:
    played = Played()
    played.feed(4)
    (piece,) = played.send()
    size = len(piece.payload)
    assert played.own_bytes(stuck=True) == 0
    played.answers([piece], K.UNKNOWN)
    assert (played.leased, played.own_bytes(stuck=True)) == (0, size)
    played.lane.on_retry()
    (again,) = played.send()
    assert again is piece
    played.answers([again], K.UNKNOWN)
    assert played.own_bytes(stuck=True) == size, "once, however often it fails"
    played.lane.on_retry()
    played.answer(played.send()[0], K.APPENDED, 50)
    assert played.own_bytes(stuck=True) == 0


def test_reencoded_batches_count_by_what_they_have_become() -> None:
    played = Played()
    played.source.data(6, holes=frozenset({2}))
    played.take()
    played.durable()
    queued = played.lane.queued_bytes
    assert (played.leased, played.own_bytes(stuck=False)) == (0, queued)
    (piece,) = played.send()
    payload = piece.payload
    played.answers([piece], K.UNKNOWN)
    assert (played.own_bytes(stuck=False), played.own_bytes(stuck=True)) == (0, queued)
    assert piece.payload is payload, "it has bytes of its own already"
    played.lane.disown()
    assert played.own_bytes(stuck=True) == 0


def test_parts_of_a_batch_that_was_too_large_count_instead_of_it() -> None:
    played = Played()
    played.feed(6)
    action = played.answers(played.send(), K.TOO_LARGE)
    assert isinstance(action, Split)
    _split(played, action, 90)
    assert played.own_bytes(stuck=True) == played.lane.queued_bytes > 0
    played.lane.disown()
    assert played.own_bytes(stuck=True) == 0


def test_a_batch_that_its_lane_forgot_is_not_copied_out_any_more() -> None:
    played = Played()
    played.feed(4)
    (piece,) = played.send()
    played.lane.disown()
    payload = piece.payload
    piece.detach()
    piece.drop()
    assert piece.payload is payload
    assert (played.leased, played.own_bytes(stuck=True)) == (0, 0)
