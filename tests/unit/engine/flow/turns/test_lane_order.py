"""LaneOrder: no lane of a limit has two turns while another one that asks was refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.turns.lane_order import GRACE_S, LaneOrder


def test_who_had_a_turn_waits_for_who_was_refused_since() -> None:
    order = LaneOrder[str]()
    assert order.wait_s("a", 0.0) == 0.0
    order.serve("a")
    order.refuse("b")
    order.refuse("a")
    assert order.wait_s("a", 1.0) == pytest.approx(GRACE_S)
    assert order.wait_s("b", 1.0) == 0.0
    assert order.serve("b"), "nobody else is waited for"
    assert order.wait_s("a", 1.0) == 0.0


def test_who_does_not_come_is_not_waited_for_long() -> None:
    order = LaneOrder[str]()
    order.serve("a")
    order.refuse("b")
    assert order.wait_s("a", 1.0) > 0
    assert order.wait_s("a", 1.0 + GRACE_S) == 0.0
    order.refuse("b")
    order.forget("b")
    assert order.wait_s("a", 2.0) == 0.0


@given(st.integers(2, 6), st.permutations(range(6)), st.integers(1, 30))
def test_lanes_that_always_ask_have_equally_many_turns(lanes: int, asking: list[int], rounds: int) -> None:
    order, turns = LaneOrder[int](), dict.fromkeys(range(lanes), 0)
    for at in range(rounds * lanes):
        used = False  # one turn uses up the limit
        for lane in (one for one in asking if one < lanes):
            if used:
                order.refuse(lane)
            elif not order.wait_s(lane, float(at)):
                order.serve(lane)
                turns[lane] += 1
                used = True
    assert sum(turns.values()) == rounds * lanes
    assert max(turns.values()) - min(turns.values()) <= 1
