"""A lane that reads the target's tail to find out which appends arrived."""

import msgspec
import pytest

from engine.core.events.events import TargetGap
from engine.core.lane.actions import Fail, Inspect, Reacquire, ReadTail, Retry
from engine.core.lane.pending_batch import Limits
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapRun
from engine.core.position.target_tail import Tail, TailBatch
from tests.unit.engine.core.lanes import K, Played, as_tail
from tests.unit.engine.core.maps import records_of


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
    assert records_of(played.lane.position.map_tail) == {offset: 50 + offset for offset in range(2 * held)}
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


@pytest.mark.parametrize("left", [(TailBatch(50, 51, 41, 3, 0, 1, False),), ()], ids=["some", "nothing of ours"])
def test_a_target_that_lost_what_it_acknowledged_is_acquired_anew(left: tuple[TailBatch, ...]) -> None:
    played = Played()
    played.feed(2)
    (first,) = played.send()
    played.answer(first, K.APPENDED, 50)
    played.feed(2)
    assert played.answers(played.send(), K.ORDER) == ReadTail(52)
    (action,) = played.lane.on_tail(Tail(log_start=0, end=51, batches=left))
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


def test_a_marker_that_came_between_is_a_gap_of_the_map() -> None:
    played = Played()
    first, second = _settling(played, 2, 3)
    marker = TailBatch(52, 53, 41, 3, -1, 1, True)
    moved = msgspec.structs.replace(second, base_offset=53, next_offset=56)
    played.lane.on_tail(_tail(first, marker, moved))
    assert played.lane.position.map_tail == (MapRun(0, 50, 2), MapRun(2, 53, 3))
