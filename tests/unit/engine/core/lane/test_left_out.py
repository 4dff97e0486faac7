"""Refused records that are left out: the rest is sent, nothing else is lost, and the map knows no copy of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.lane.actions import RetryRefused
from engine.core.lane.left_out import kept_stretches, refused_indexes, sources_at
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.lane.pending_batch import PendingBatch
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapRun
from engine.core.position.target_tail import Tail
from engine.wire.batch import read_header
from engine.wire.merging.cut import without
from engine.wire.records import decode_records
from tests.unit.engine.core.lanes import K, Played

pytestmark = pytest.mark.usefixtures("way")


def refuse(played: Played, *indexes: int) -> RetryRefused:
    """Let the target refuse records of the next batch; the batches behind it are out of order."""
    first, *others = played.send()
    asked = list(played.lane.on_outcome(first, Outcome(K.REFUSED, -1, 87, "no key", indexes[0], indexes)))
    for piece in others:
        asked += played.answer(piece, K.ORDER, error_code=45)
    (action,) = asked
    assert isinstance(action, RetryRefused)
    return action


def leave_out(played: Played, action: RetryRefused) -> None:
    payload = memoryview(action.piece.payload)
    rest = without(payload, read_header(payload, 0), action.indexes, "t", 0)
    played.lane.leave_out(action.piece, action.indexes, rest)
    played.lane.on_retry()


def copy_all(played: Played) -> list[int]:
    """Copy what is left; return the source offsets in the order of the appends."""
    copied: list[int] = []
    at = played.lane.target_next
    while True:
        if played.lane.wants_fetch:
            played.take()
        played.durable()
        sent = played.send()
        if not sent:
            return copied
        for piece in sent:
            payload = memoryview(piece.payload)
            copied += [int(one.key or b"") for one in decode_records(payload, 0, read_header(payload, 0), "t", 0)]
            assert played.answer(piece, K.APPENDED, at) == ()
            at += piece.record_count


@pytest.mark.parametrize("indexes", [(0,), (1,), (3,), (0, 3), (0, 1, 2), (1, 2)])
def test_the_others_are_copied_and_mapped(indexes: tuple[int, ...]) -> None:
    played = Played()
    played.feed(4, 2, 3)
    action = refuse(played, *indexes)
    assert action.indexes == indexes
    leave_out(played, action)
    kept = [offset for offset in range(9) if offset not in indexes]
    assert copy_all(played) == kept
    lane = played.lane
    assert (lane.source_next, lane.target_next, lane.left_out) == (9, 50 + len(kept), len(indexes))
    assert lane.map is not None
    runs = [(run.source + nth, run.target + nth) for run in lane.map.runs for nth in range(run.count)]
    assert runs == [(offset, 50 + place) for place, offset in enumerate(kept)]
    assert played.leased == 0


def test_a_batch_of_which_nothing_is_left_only_moves_the_position() -> None:
    played = Played()
    played.feed(2, 3)
    leave_out(played, refuse(played, 0, 1))
    assert (played.lane.source_next, played.lane.fetch_offset, played.lane.target_next) == (2, 2, 50)
    assert played.lane.idle
    assert copy_all(played) == [2, 3, 4]
    assert played.lane.map is not None
    assert played.lane.map.runs == (MapRun(2, 50, 3),)


def test_the_rest_waits_for_a_position_with_its_run() -> None:
    """An owner that finds the rest in the log must know which records it is."""
    played = Played()
    played.feed(3)
    leave_out(played, refuse(played, 1))
    assert played.send() == []
    assert played.lane.plan_needed
    assert played.lane.position.runs == ((0, 0), (1, 2))
    played.durable()
    (piece,) = played.send()
    assert (piece.sequence, piece.record_count) == (0, 2)


def test_what_follows_the_batch_without_records_is_skipped_too() -> None:
    played = Played()
    played.source.data(2)
    played.source.aborted_data(2, 7)
    played.source.data(1)
    played.take()
    leave_out(played, refuse(played, 0, 1))
    assert played.lane.source_next == 5
    assert copy_all(played) == [5]


def test_records_of_a_batch_that_may_still_arrive_stay() -> None:
    """Its sequence belongs to its records: only a new producer epoch frees it."""
    played = Played()
    played.feed(1)
    (piece,) = played.send()
    played.answer(piece, K.UNKNOWN)
    played.lane.on_retry()
    (again,) = played.send()
    played.answer(again, K.REFUSED, error_code=87)
    assert played.lane.state is State.SETTLING
    played.lane.on_tail(Tail(log_start=0, end=50, batches=()))
    played.lane.on_retry()
    (third,) = played.send()
    (action,) = played.answer(third, K.REFUSED, error_code=87)
    assert isinstance(action, RetryRefused)
    assert played.lane.may_leave_out(action.piece) is False
    leave_out(played, action)
    assert (played.lane.source_next, played.lane.left_out) == (0, 0)


def test_a_batch_that_the_lane_has_dropped_stays_as_it_is() -> None:
    played = Played()
    played.feed(1)
    action = refuse(played, 0)
    played.lane.disown()
    assert played.lane.may_leave_out(action.piece) is None
    played.lane.leave_out(action.piece, (0,), None)
    assert played.lane.left_out == 0


def one_of(records: int) -> PendingBatch:
    return PendingBatch(
        sequence=0,
        record_count=records,
        source_base=0,
        source_next=records,
        payload=bytearray(),
        lease=None,
        first_timestamp=0,
        max_timestamp=0,
    )


@pytest.mark.parametrize(
    ("records", "outcome", "wanted"),
    [
        (1, Outcome(OutcomeKind.TOO_LARGE, error_code=10), (0,)),
        (1, Outcome(OutcomeKind.REFUSED, error_code=44), (0,)),
        (3, Outcome(OutcomeKind.REFUSED, error_code=44, record_index=1), ()),
        (3, Outcome(OutcomeKind.REFUSED, error_code=87, record_index=1), (1,)),
        (3, Outcome(OutcomeKind.REFUSED, error_code=32, record_index=1, record_indexes=(1, 0)), (0, 1)),
        (3, Outcome(OutcomeKind.REFUSED, error_code=87, record_index=7, record_indexes=(7, 2)), (2,)),
        (3, Outcome(OutcomeKind.REFUSED, error_code=87), ()),
    ],
)
def test_which_records_are_refused(records: int, outcome: Outcome, wanted: tuple[int, ...]) -> None:
    assert refused_indexes(one_of(records), outcome) == wanted


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=5), st.data())
def test_kept_and_left_out_are_all(jumps: list[tuple[int, int]], data: st.DataObject) -> None:
    stretches, at = [], 0
    for hole, count in jumps:
        stretches.append((at + hole, count))
        at += hole + count
    offsets = [source + nth for source, count in stretches for nth in range(count)]
    indexes = sorted(data.draw(st.sets(st.integers(0, len(offsets) - 1))))
    kept = [source + nth for source, count in kept_stretches(stretches, indexes) for nth in range(count)]
    left_out = sources_at(stretches, indexes)
    assert kept == [offset for offset in offsets if offset not in left_out]
    assert len(left_out) == len(indexes)
    assert all(count > 0 for _, count in kept_stretches(stretches, indexes))
