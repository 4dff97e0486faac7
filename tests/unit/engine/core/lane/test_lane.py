"""The lane, step by step; test_interleavings.py has random interleavings."""

import pytest

from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import REMEMBERED, Limits
from engine.core.lane.states import State
from tests.unit.engine.core.lanes import FLOW, NAME, K, Played
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


@pytest.mark.parametrize(("barrier_done", "window", "later"), [(True, 7, 7), (False, 1, REMEMBERED)])
def test_the_window_opens_with_a_barrier_or_the_first_acknowledgement(
    barrier_done: bool, window: int, later: int
) -> None:
    """Without a fence the window stays at what a leader remembers."""
    played = Played(barrier_done=barrier_done, limits=Limits(max_in_flight=7))
    played.feed(*[1] * 12)
    sent = played.send()
    assert len(sent) == window == played.lane.in_flight
    played.answer(sent[0], K.APPENDED, 50)
    played.send()
    assert played.lane.in_flight == later


def test_bytes_waiting_and_runs_bound_what_is_fetched() -> None:
    full = Played(limits=Limits(queue_bytes=1))
    assert full.lane.wants_fetch
    full.feed(1)
    assert not full.lane.wants_fetch
    (sent,) = full.send()
    assert full.lane.wants_fetch, "what is in flight needs no room in the queue"
    full.feed(1)
    full.answer(sent, K.APPENDED, 50)
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


def test_records_that_only_another_replica_has_wait_for_a_position_that_tells_of_them() -> None:
    played = Played()
    played.feed(2)
    (first,) = played.send()
    for count in (3, 2):
        played.source.data(count)
    played.source.clean(2)
    played.take()
    played.durable()  # a position says that offset 5 follows offset 1
    stored = played.lane.position
    played.lane.rewind()
    played.take(late=True)
    assert played.send() == []
    assert played.lane.plan_needed
    played.durable()
    assert [piece.source_base for piece in played.send()] == [2, 5]
    assert (stored.source_of(2), played.lane.position.source_of(2)) == (5, 2)
    assert first.source_base == 0


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
