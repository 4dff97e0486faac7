"""Sets and owners: stable, even, few moves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

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


NAMES = st.text("abcdef", min_size=1, max_size=2)
FEW_LANES = st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 99)), max_size=120, unique=True)


def named(found: list[tuple[str, int]]) -> list[LaneName]:
    return [LaneName(TopicPartition(topic, n), TopicPartition(f"A.{topic}", n)) for topic, n in found]


@given(FEW_LANES, FEW_LANES, st.integers(1, 6), st.integers(1, 6))
def test_every_lane_has_one_set_and_keeps_it(
    first: list[tuple[str, int]], second: list[tuple[str, int]], hands: int, more: int
) -> None:
    before = SetPlan().with_lanes(FLOW, named(first), hands)
    after = before.with_lanes(FLOW, named(second), more)
    held = [lane for lanes_of_set in after.sets.values() for lane in lanes_of_set]
    assert sorted(held) == sorted(named(second))
    assert all(len(lanes_of_set) <= LANES_PER_SET for lanes_of_set in after.sets.values())
    stayed = set(named(first)) & set(named(second))
    set_before = {lane: set_id for set_id, lanes_of_set in before.sets.items() for lane in lanes_of_set}
    set_after = {lane: set_id for set_id, lanes_of_set in after.sets.items() for lane in lanes_of_set}
    assert {lane: set_before[lane] for lane in stayed} == {lane: set_after[lane] for lane in stayed}
    assert after.with_lanes(FLOW, reversed(named(second)), more) == after


@given(st.sets(NAMES), st.dictionaries(NAMES, st.sampled_from("pqrs")), st.sets(st.sampled_from("pqrst"), min_size=1))
def test_owners_are_even_and_no_set_moves_without_need(
    sets: set[str], owners: dict[str, str], copiers: set[str]
) -> None:
    found = assign(sorted(sets), owners, sorted(copiers))
    assert found.keys() == sets
    load = {copier: sum(1 for owner in found.values() if owner == copier) for copier in copiers}
    assert max(load.values()) - min(load.values()) <= 1
    # An even share is the floor or the ceiling; whoever had more must give, nobody else.
    share, rest = divmod(len(sets), len(copiers))
    had = sorted((sum(1 for name in sets if owners.get(name) == copier) for copier in copiers), reverse=True)
    most_that_can_stay = sum(min(owned, share + (rank < rest)) for rank, owned in enumerate(had))
    assert sum(1 for name in sets if found[name] == owners.get(name)) == most_that_can_stay
    assert assign(sorted(sets, reverse=True), found, sorted(copiers)) == found
