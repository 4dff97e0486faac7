"""Sets and owners: stable, even, few moves."""

from collections import Counter

from policies.assignment import LANES_PER_SET, SetPlan, assign
from policies.model import FlowName, LaneName, TopicPartition

FLOW = FlowName("A", "B")


def lanes(topic: str, count: int) -> list[LaneName]:
    return [LaneName(TopicPartition(topic, n), TopicPartition(f"A.{topic}", n)) for n in range(count)]


def test_as_many_sets_as_are_asked_for() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6), 3)
    assert {set_id: len(held) for set_id, held in plan.sets.items()} == {"A->B/000": 2, "A->B/001": 2, "A->B/002": 2}


def test_a_set_opens_when_all_are_full() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", LANES_PER_SET + 1))
    assert sorted(len(held) for held in plan.sets.values()) == [1, LANES_PER_SET]


def test_lanes_keep_their_set_and_new_ones_join_the_smallest() -> None:
    before = SetPlan().with_lanes(FLOW, lanes("t", 3), 2)
    after = before.with_lanes(FLOW, [*lanes("t", 3), *lanes("a", 2)], 2)
    for set_id, held in before.sets.items():
        assert after.sets[set_id][: len(held)] == held
    assert sorted(map(len, after.sets.values())) == [2, 3]


def test_lanes_that_are_gone_leave() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 3)).with_lanes(FLOW, lanes("t", 1))
    assert plan.sets == {"A->B/000": tuple(lanes("t", 1))}


def test_a_plan_with_holes_gives_no_id_twice() -> None:
    known = SetPlan(sets={"A->B/001": tuple(lanes("t", 1))})
    plan = known.with_lanes(FLOW, lanes("t", 2), 2)
    assert plan.sets == {"A->B/001": tuple(lanes("t", 1)), "A->B/000": tuple(lanes("t", 2)[1:])}


def test_nobody_owns_anything_without_copiers() -> None:
    assert assign(["s1"], {"s1": "gone"}, []) == {}


def test_sets_of_the_dead_go_to_those_who_have_least() -> None:
    owners = {"s1": "a", "s2": "a", "s3": "dead", "s4": "b"}
    assert assign(["s1", "s2", "s3", "s4", "s5"], owners, ["a", "b"]) == {
        "s1": "a",
        "s2": "a",
        "s3": "b",
        "s4": "b",
        "s5": "a",
    }


def test_a_new_copier_gets_its_share_and_no_more_moves() -> None:
    sets = [f"s{n}" for n in range(7)]
    before = assign(sets, {}, ["a", "b"])
    after = assign(sets, before, ["a", "b", "c"])
    assert sorted(Counter(after.values()).values()) == [2, 2, 3]
    assert sum(1 for set_id in sets if before[set_id] != after[set_id]) == 2
    assert assign(sets, after, ["a", "b", "c"]) == after
