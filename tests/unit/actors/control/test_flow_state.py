"""Lanes to sets, in the supervisor's data structures."""

from actors.control.flow_state import plan_sets
from tests.unit.actors.fakes import FLOW, lanes


def test_as_many_sets_as_hands() -> None:
    sets = plan_sets(FLOW, lanes("t", 6), {}, 3)
    assert {set_id: len(held) for set_id, held in sets.items()} == {"A->B/000": 2, "A->B/001": 2, "A->B/002": 2}


def test_lanes_keep_their_set_when_others_come() -> None:
    before = plan_sets(FLOW, lanes("t", 6), {}, 2)
    after = plan_sets(FLOW, (*lanes("a", 4), *lanes("t", 6)), before, 2)
    for set_id, held in before.items():
        assert set(held) <= set(after[set_id])
    assert sum(len(held) for held in after.values()) == 10


def test_nothing_to_copy_is_no_set() -> None:
    assert plan_sets(FLOW, (), {}, 2) == {}
