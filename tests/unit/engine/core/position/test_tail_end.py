"""A long tail, known from its last batches: the right answer, or none."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.position.position import SEQUENCE_SPAN, Position
from engine.core.position.resume import read_tail
from engine.core.position.tail_end import from_end
from engine.core.position.target_tail import Tail, TailBatch
from tests.unit.engine.core.positions import position

OURS = (41, 3)


def ours(base: int, sequence: int, count: int, producer: tuple[int, int] = OURS) -> TailBatch:
    return TailBatch(base, base + count, *producer, sequence % SEQUENCE_SPAN, count, False)


def marker(base: int) -> TailBatch:
    return TailBatch(base, base + 1, 41, 4, -1, 1, True)


def test_the_last_batch_tells_what_lies_between() -> None:
    assert from_end(position(), [ours(53, 3, 2), marker(55)]) == (ours(50, 0, 3), ours(53, 3, 2), marker(55))


def test_the_first_batch_behind_the_position_needs_nothing_before_it() -> None:
    assert from_end(position(), [ours(50, 0, 5), marker(55)]) == (ours(50, 0, 5), marker(55))


def test_an_open_batch_tells_nothing() -> None:
    assert from_end(position(), [msgspec.structs.replace(ours(53, 3, 2), is_open=True)]) is None


def test_sequences_wrap_between() -> None:
    sequence = SEQUENCE_SPAN - 2
    at = position(100, 50, sequence)
    assert from_end(at, [ours(57, sequence + 7, 1)]) == (ours(50, sequence, 7), ours(57, sequence + 7, 1))


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [marker(55)],
        [ours(54, 3, 2)],
        [ours(53, 4, 2)],
        [ours(48, -2, 4), marker(52)],
        [ours(53, 3, 2, (41, 2))],
        [ours(53, 3, 2, (-1, -1))],
    ],
    ids=[
        "nothing",
        "only a marker",
        "a marker or another writer between",
        "records missing between",
        "across the position",
        "of an older epoch",
        "of another writer",
    ],
)
def test_what_does_not_tell_is_not_believed(batches: list[TailBatch]) -> None:
    assert from_end(position(), batches) is None


@st.composite
def tails(draw: st.DrawFn) -> tuple[Position, list[TailBatch]]:
    """Some tail with holes in the source, markers, and other writers, and a position before it."""
    kinds = draw(st.lists(st.sampled_from(["ours", "ours", "ours", "gap", "marker", "foreign"]), max_size=12))
    at, sequence, source = 50, 0, 100
    runs, batches = [(0, 100)], []
    for kind in kinds:
        count = draw(st.integers(1, 4))
        if kind == "gap":
            source += count
            runs = [*(runs[:-1] if runs[-1][0] == sequence else runs), (sequence, source)]
        elif kind == "marker":
            batches.append(marker(at))
            at += 1
        elif kind == "foreign":
            batches.append(ours(at, 0, count, (-1, -1)))
            at += count
        else:
            batches.append(ours(at, sequence, count))
            at, sequence, source = at + count, sequence + count, source + count
    return position(100, 50, 0, tuple(runs)), batches


@given(tails(), st.data())
def test_the_end_tells_the_same_as_the_whole(tail: tuple[Position, list[TailBatch]], data: st.DataObject) -> None:
    at, batches = tail
    end = batches[-1].next_offset if batches else at.target_next
    known = from_end(at, batches[data.draw(st.integers(0, len(batches))) :])
    if known is not None:
        told = read_tail(at, Tail(log_start=0, end=end, batches=known))
        assert told == read_tail(at, Tail(log_start=0, end=end, batches=tuple(batches)))
