"""A lane whose broker is silent: the bytes of a wide window are given up behind the fifth batch."""

import pytest

from engine.core.lane.actions import Reacquire, Retry
from engine.core.lane.pending_batch import REMEMBERED, PendingBatch
from engine.core.lane.states import State
from tests.unit.engine.core.lanes import K, Played

COUNT = 9


def silent(played: Played) -> list[PendingBatch]:
    """Send a wide window, and take it out of the receive buffers as an outbox does."""
    played.feed(*[2] * COUNT)
    sent = played.send()
    assert len(sent) == COUNT
    for index, piece in enumerate(sent):
        if index < REMEMBERED:
            piece.detach()
        else:
            piece.let_go()
    return sent


def test_bytes_that_are_given_up_use_no_memory() -> None:
    played = Played()
    sent = silent(played)
    assert played.leased == 0
    assert played.own_bytes(stuck=True) == sum(len(piece.payload) for piece in sent[:REMEMBERED])
    assert [piece.is_gone for piece in sent] == [False] * REMEMBERED + [True] * (COUNT - REMEMBERED)


def test_what_is_acknowledged_needs_no_bytes() -> None:
    played = Played()
    sent = silent(played)
    sizes = [len(piece.payload) for piece in sent]
    for index, piece in enumerate(sent):
        assert played.answer(piece, K.APPENDED, 50 + 2 * index) == ()
    lane = played.lane
    assert (lane.source_next, lane.target_next, lane.wire_bytes) == (2 * COUNT, 50 + 2 * COUNT, sum(sizes))
    assert (lane.queued_bytes, played.own_bytes(stuck=True)) == (0, 0)
    played.feed(2)
    (piece,) = played.send()
    assert not piece.is_gone


@pytest.mark.parametrize("acknowledged", range(COUNT))
def test_what_may_be_in_the_log_is_settled_by_a_new_barrier(acknowledged: int) -> None:
    played = Played()
    sent = silent(played)
    for index, piece in enumerate(sent[:acknowledged]):
        played.answer(piece, K.APPENDED, 50 + 2 * index)
    rest = sent[acknowledged:]
    assert isinstance(played.answers(rest, *[K.UNKNOWN] * len(rest)), Reacquire)
    assert played.send() == []
    played.lane.disown()
    assert (played.lane.state, played.own_bytes(stuck=True)) == (State.ACQUIRING, 0)


def test_what_is_surely_not_in_the_log_is_fetched_again() -> None:
    played = Played()
    sent = silent(played)
    assert played.answers(sent, *[K.RETRY] * COUNT) == Retry(1)
    assert played.lane.fetch_offset == 2 * REMEMBERED
    played.lane.on_retry()
    (again,) = played.send()
    assert not again.is_gone


def test_a_batch_without_its_bytes_is_never_sent_again() -> None:
    """If fewer than five are left, and the first has no bytes, the lane is acquired again, whatever the answer says."""
    played = Played()
    sent = silent(played)
    for index, piece in enumerate(sent[:6]):
        played.answer(piece, K.APPENDED, 50 + 2 * index)
    assert isinstance(played.answers(sent[6:], *[K.RETRY] * 3), Reacquire)
    assert played.send() == []


def test_a_batch_that_has_failed_once_keeps_its_bytes() -> None:
    played = Played()
    played.source.data(6, holes=frozenset({2}))
    played.take()
    played.durable()
    (piece,) = played.send()
    before = bytes(piece.payload)
    piece.detach()
    piece.let_go()
    assert (bytes(piece.payload), piece.is_gone, piece.detached) == (before, False, True)
