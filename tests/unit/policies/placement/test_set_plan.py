"""Sets: stable, few, a hot lane alone if that helps."""

import math

from hypothesis import given
from hypothesis import strategies as st

from policies.model import FlowName, LaneName, TopicPartition
from policies.placement.assignment import IDLE_LANE, LANES_PER_SET, MOST_SOLO_SETS, SetPlan, set_weight, too_heavy

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


SHARED = "A->B/000"
SOLO = "A->B/solo-000"


def weighing(*megabytes: float) -> dict[LaneName, float]:
    return {lane: mb * 1e6 for lane, mb in zip(lanes("t", len(megabytes)), megabytes, strict=True)}


def test_a_hot_lane_gets_a_set_of_its_own_and_no_other_lane_moves() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6), 2)
    after = plan.split_hot(FLOW, weighing(9, 1, 1, 1, 1, 1), 2)
    first, *others = plan.sets[SHARED]
    assert after.sets == {**plan.sets, SHARED: tuple(others), SOLO: (first,)}


def test_a_solo_set_stays_when_its_lane_cools_down_and_takes_no_new_lane() -> None:
    hot = SetPlan().with_lanes(FLOW, lanes("t", 6)).split_hot(FLOW, weighing(9, 1, 1, 1, 1, 1), 2)
    assert hot.split_hot(FLOW, weighing(1, 1, 1, 1, 1, 1), 2) is hot
    assert hot.split_hot(FLOW, weighing(9, 1, 1, 1, 1, 1), 2) is hot
    grown = hot.with_lanes(FLOW, lanes("t", 8))
    assert grown.sets[SOLO] == hot.sets[SOLO]
    assert grown.sets[SHARED] == (*hot.sets[SHARED], *lanes("t", 8)[6:])


def test_the_hottest_goes_first_and_one_at_a_time() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6))
    weights = weighing(1, 6, 1, 8, 1, 7)
    once = plan.split_hot(FLOW, weights, 4)
    assert once.sets[SOLO] == (lanes("t", 6)[3],)
    twice = once.split_hot(FLOW, weights, 4)
    assert twice.sets["A->B/solo-001"] == (lanes("t", 6)[5],)


def test_lanes_that_share_out_evenly_stay_together() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6), 3)
    assert plan.split_hot(FLOW, weighing(1, 1, 1, 1, 1, 1), 3) is plan


def test_half_a_share_is_hot_where_the_set_is_more_than_a_share() -> None:
    # Both busy lanes are in one set: neither is a copier's share of the flow, and no move of sets could part them.
    plan = SetPlan(sets={SHARED: tuple(lanes("t", 2)), "A->B/001": tuple(lanes("u", 2))})
    weights = weighing(4, 3) | dict.fromkeys(lanes("u", 2), 1.5e6)
    assert plan.split_hot(FLOW, weights, 2).sets[SOLO] == (lanes("t", 1)[0],)


def test_a_set_that_one_copier_can_carry_stays_whole() -> None:
    plan = SetPlan(sets={SHARED: tuple(lanes("t", 2)), "A->B/001": tuple(lanes("u", 2))})
    for first, second in ((2, 2), (3, 2), (3.9, 2)):
        weights = weighing(first, second) | dict.fromkeys(lanes("u", 2), 2e6)
        assert plan.split_hot(FLOW, weights, 2) is plan


def test_in_a_flow_that_sleeps_no_lane_is_hot() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 3))
    assert plan.split_hot(FLOW, weighing(0.06, 0.03, 0.03), 3) is plan
    assert plan.split_hot(FLOW, weighing(0.07, 0.03, 0.03), 3) is not plan


def test_lanes_without_a_measured_weight_are_a_load_too() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 1000))
    busy = dict.fromkeys(plan.sets[SHARED][:2], 1e5)
    assert plan.split_hot(FLOW, busy, 4) is plan
    assert plan.split_hot(FLOW, busy, 40) is not plan


def test_a_hot_lane_among_idle_ones_has_what_it_needs() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6))
    assert plan.split_hot(FLOW, {lanes("t", 1)[0]: 1e9}, 2) is plan


def test_one_copier_needs_no_split_and_none_cannot() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 3))
    for copiers in (0, 1):
        assert plan.split_hot(FLOW, weighing(9, 1, 1), copiers) is plan


def test_traffic_of_a_few_bytes_makes_no_lane_hot() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 6), 2)
    assert plan.split_hot(FLOW, {lane: set_weight(n, 0, 1) for n, lane in enumerate(lanes("t", 6))}, 2) is plan


def test_only_sets_that_are_too_heavy_need_looking_at() -> None:
    sets = {SHARED: 13e6, "A->B/001": 7e6, SOLO: 40e6, "A->B/002": 0.0}
    assert too_heavy(sets, 5) == []
    assert too_heavy(sets, 6) == [SHARED], "a solo set cannot be split"
    assert too_heavy({}, 0) == []


def test_solo_sets_are_bounded_and_an_empty_one_is_used_again() -> None:
    solo = {f"A->B/solo-{n:03d}": (lane,) for n, lane in enumerate(lanes("old", MOST_SOLO_SETS))}
    full = SetPlan(sets={SHARED: tuple(lanes("t", 3)), **solo})
    weights = weighing(9e3, 9e2, 9e2)
    assert full.split_hot(FLOW, weights, 2) is full
    room = full.with_lanes(FLOW, [*lanes("t", 3), *lanes("old", MOST_SOLO_SETS)[:7], *lanes("old", MOST_SOLO_SETS)[8:]])
    assert room.split_hot(FLOW, weights, 9).sets["A->B/solo-007"] == (lanes("t", 1)[0],)


def test_weight_is_rate_and_lag_and_something_for_each_lane() -> None:
    assert set_weight(1e6, 6e8, 0) == 2e6
    assert set_weight(1e6, -1, 0) == 1e6
    assert 0 < set_weight(0, 0, 1) * 32 == set_weight(0, 0, 32) < 1e6


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


@given(FEW_LANES, st.integers(1, 6), st.lists(st.floats(0, 1e9), min_size=1, max_size=40))
def test_splitting_comes_to_an_end_and_moves_one_lane_at_a_time(
    found: list[tuple[str, int]], copiers: int, rates: list[float]
) -> None:
    plan = SetPlan().with_lanes(FLOW, named(found), copiers)
    weights = {lane: set_weight(rate, 0, 1) for lane, rate in zip(named(found), rates, strict=False)}
    for _ in range(2 * copiers + 1):
        after = plan.split_hot(FLOW, weights, copiers)
        by_set = {
            set_id: math.fsum(weights.get(lane, IDLE_LANE) for lane in held) for set_id, held in plan.sets.items()
        }
        crowded = {lane: weights.get(lane, IDLE_LANE) for one in too_heavy(by_set, copiers) for lane in plan.sets[one]}
        total = math.fsum(weights.values()) + IDLE_LANE * (len(found) - len(weights))
        assert plan.split_hot(FLOW, crowded, copiers, total) == after
        if after is plan:
            break
        changed = {set_id for set_id, held in after.sets.items() if plan.sets.get(set_id) != held}
        (solo,) = changed - plan.sets.keys()
        (home,) = changed - {solo}
        assert set(plan.sets[home]) - set(after.sets[home]) == set(after.sets[solo])
        plan = after
    # A lane is hot at half a share, so there are never more of them than twice the shares.
    assert plan.split_hot(FLOW, weights, copiers) is plan
    assert sorted(lane for held in plan.sets.values() for lane in held) == sorted(named(found))


def test_a_set_is_divided_into_wards_that_no_new_lane_joins() -> None:
    plan = SetPlan().with_lanes(FLOW, lanes("t", 5))
    once = plan.divide(FLOW, SHARED)
    assert {set_id: len(held) for set_id, held in once.sets.items()} == {
        SHARED: 0,
        "A->B/ward-000": 3,
        "A->B/ward-001": 2,
    }
    twice = once.divide(FLOW, "A->B/ward-000")
    assert twice.sets["A->B/ward-002"] + twice.sets["A->B/ward-003"] == once.sets["A->B/ward-000"]
    grown = twice.with_lanes(FLOW, lanes("t", 9))
    assert sorted(grown.sets[SHARED]) == lanes("t", 9)[5:]
    assert grown.divide(FLOW, "A->B/ward-001").sets["A->B/ward-000"], "the id of an empty ward is used again"
    single = SetPlan(sets={SHARED: tuple(lanes("t", 1))})
    assert single.divide(FLOW, SHARED) is single


def test_wards_are_bounded() -> None:
    wards = {f"A->B/ward-{n:03d}": (lane,) for n, lane in enumerate(lanes("old", 2 * MOST_SOLO_SETS))}
    full = SetPlan(sets={SHARED: tuple(lanes("t", 3)), **wards})
    assert full.divide(FLOW, SHARED) is full
