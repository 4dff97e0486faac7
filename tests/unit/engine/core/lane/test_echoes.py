"""Records that came from the target are not copied back, batch by batch; a batch of both kinds stops the lane."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import MalformedBatch
from engine.core.lane.echoes import Echoes, is_echo
from engine.core.lane.pending_batch import Limits
from engine.core.lane.rebatching import rebatch_rules
from engine.wire.batch import BatchHeader
from tests.unit.engine.core.lanes import Played


def batch(first: int, count: int) -> BatchHeader:
    return BatchHeader(first, 88, 0, 2, 0, 0, count - 1, 0, 0, 1, 0, 0, count)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 2)), max_size=12),
)
def test_exactly_the_batches_of_the_ranges_are_echoes(parts: list[tuple[bool, int, int]]) -> None:
    at, ranges, batches = 0, [], []
    for is_ours, count, hole in parts:
        batches.append((is_ours, batch(at, count)))
        if is_ours:
            ranges.append((at, at + count))
        at += count + hole
    joined: list[tuple[int, int]] = []
    for first, end in ranges:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    assert [is_echo(tuple(joined), one, "t", 0) for _, one in batches] == [is_ours for is_ours, _ in batches]


@pytest.mark.parametrize("echoes", [((2, 4),), ((0, 3),), ((3, 9),), ((1, 2), (4, 20))])
def test_a_batch_with_records_of_both_kinds_is_refused(echoes: Echoes) -> None:
    with pytest.raises(MalformedBatch, match="a part of it was copied from the target"):
        is_echo(echoes, batch(1, 4), "t", 0)


@pytest.mark.parametrize("limits", [Limits(), Limits(rebatch=rebatch_rules())])
def test_a_lane_moves_past_echoes_and_copies_the_rest(limits: Limits) -> None:
    played = Played(limits=limits)
    for count in (2, 3, 1, 4):
        played.source.data(count)
    played.lane.echoes = ((2, 5), (6, 10))
    played.take()
    assert played.lane.fetch_offset == 10
    assert sum(len(sent.payload) > 0 for sent in played.send()) >= 1
    assert played.lane.skipped == 2
