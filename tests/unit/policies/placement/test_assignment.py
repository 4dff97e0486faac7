"""Owners of sets: sticky, weighed, few moves, and no moves once it is even enough."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.placement.assignment import Assignment, Move, balance, steady_weights


def loads(weights: dict[str, float], owners: dict[str, str], copiers: list[str]) -> dict[str, float]:
    return {copier: sum(weights[set_id] for set_id, owner in owners.items() if owner == copier) for copier in copiers}


def settle(weights: dict[str, float], owners: dict[str, str], copiers: list[str]) -> tuple[dict[str, str], int]:
    """Call until nothing moves; how many moves that took."""
    moves = 0
    while True:
        found = balance(weights, owners, copiers)
        if not found.moves:
            return found.owners, moves
        owners, moves = found.owners, moves + len(found.moves)
        assert moves <= 50 * len(weights), "it never comes to rest"


def test_nobody_owns_anything_where_nobody_is() -> None:
    assert balance({"s1": 1.0}, {"s1": "gone"}, []) == Assignment({})


def test_free_sets_go_to_who_carries_least_the_heaviest_first() -> None:
    weights = {"s1": 5.0, "s2": 1.0, "s3": 4.0, "s4": 3.0}
    found = balance(weights, {"s1": "a", "s3": "dead"}, ["a", "b"], most_moves=0)
    assert found == Assignment({"s1": "a", "s3": "b", "s4": "b", "s2": "a"})


def test_only_finding_owners_moves_nothing_however_uneven() -> None:
    assert balance({"s1": 1.0, "s2": 1.0}, {"s1": "a", "s2": "a"}, ["a", "b"], most_moves=0).moves == ()


def test_a_new_copier_gets_its_share_a_few_moves_at_a_time() -> None:
    weights = {f"s{n}": 1.0 for n in range(9)}
    owners = {f"s{n}": "ab"[n % 2] for n in range(9)}
    first = balance(weights, owners, ["a", "b", "c"], most_moves=1)
    assert first.moves == (Move("s0", "a", "c"),)
    second = balance(weights, first.owners, ["a", "b", "c"], most_moves=9)
    assert Counter(second.owners.values()) == {"a": 3, "b": 3, "c": 3}
    assert len(second.moves) == 2


def test_within_the_tolerance_nothing_moves() -> None:
    weights = {"s1": 5.0, "s2": 5.0, "s3": 1.0, "s4": 9.0}
    owners = {"s1": "a", "s2": "a", "s3": "a", "s4": "b"}
    assert balance(weights, owners, ["a", "b"], tolerance=0.2).moves == ()
    assert balance(weights, owners, ["a", "b"], tolerance=0.19).moves == (Move("s3", "a", "b"),)


def test_a_set_that_would_only_change_sides_stays() -> None:
    assert balance({"hot": 10.0}, {"hot": "a"}, ["a", "b"]).moves == ()


def test_a_copier_with_nothing_fitting_is_passed_over() -> None:
    weights = {"hot": 100.0, "s1": 10.0, "s2": 10.0}
    found = balance(weights, {"hot": "a", "s1": "b", "s2": "b"}, ["a", "b", "c"])
    assert found.moves == (Move("s1", "b", "c"),)


def test_the_set_moves_that_makes_the_two_most_alike() -> None:
    weights = {"light": 1.0, "fitting": 6.0, "heavy": 10.0, "other": 5.0}
    owners = {"light": "a", "fitting": "a", "heavy": "a", "other": "b"}
    assert balance(weights, owners, ["a", "b"]).moves == (Move("fitting", "a", "b"),)


def test_a_copier_that_leaves_gives_everything_away_first_and_gets_nothing() -> None:
    weights = {"s1": 1.0, "s2": 3.0, "s3": 2.0, "s4": 9.0, "s5": 1.0}
    owners = {"s1": "a", "s2": "a", "s3": "a", "s4": "b"}
    first = balance(weights, owners, ["a", "b", "c"], leaving=frozenset({"a"}), most_moves=2)
    assert first.moves == (Move("s2", "a", "c"), Move("s3", "a", "c"))
    assert first.owners == {"s1": "a", "s2": "c", "s3": "c", "s4": "b", "s5": "c"}
    last = balance(weights, first.owners, ["a", "b", "c"], leaving=frozenset({"a", "d"}))
    assert last.moves == (Move("s1", "a", "c"),)


def test_a_set_that_leaves_a_copier_moves_once() -> None:
    """Which copier has room for it is known only when all who leave are empty; it has a barrier for each move."""
    weights = {"a": 1.0, "b": 3.0, "aa": 2.0}
    found = balance(weights, {"a": "p", "b": "q"}, ["p", "q", "r", "s"], leaving=frozenset({"p", "q"}), most_moves=3)
    assert found.moves == (Move("a", "p", "s"), Move("b", "q", "s"))


def test_when_all_leave_sets_stay_where_they_are() -> None:
    assert balance({"s1": 1.0, "s2": 1.0}, {"s1": "a"}, ["a"], leaving=frozenset({"a"})) == Assignment({"s1": "a"})


@pytest.mark.parametrize(
    ("measured", "kept"), [(100.0, 100.0), (124.0, 100.0), (126.0, 126.0), (81.0, 100.0), (79.0, 79.0)]
)
def test_a_weight_that_only_trembles_stays(measured: float, kept: float) -> None:
    assert steady_weights({"s1": 100.0, "gone": 1.0}, {"s1": measured}) == {"s1": kept}


def test_a_new_set_weighs_what_was_measured() -> None:
    assert steady_weights({}, {"s1": 7.0, "s2": 0.0}) == {"s1": 7.0, "s2": 0.0}


NAMES = st.text("abcdef", min_size=1, max_size=2)
COPIERS = st.sets(st.sampled_from("pqrst"), min_size=1).map(sorted)
WEIGHTS = st.dictionaries(NAMES, st.just(0.0) | st.floats(1, 1e9), max_size=30)
OWNERS = st.dictionaries(NAMES, st.sampled_from("pqrsx"))


@given(WEIGHTS, OWNERS, COPIERS, st.sets(st.sampled_from("pqr")), st.integers(0, 5))
def test_every_set_has_a_living_owner_and_few_move(
    weights: dict[str, float], owners: dict[str, str], copiers: list[str], leaving: set[str], most: int
) -> None:
    found = balance(weights, owners, copiers, leaving=frozenset(leaving), most_moves=most)
    staying = set(copiers) - leaving
    assert found.owners.keys() == (weights.keys() if staying else {s for s in weights if owners.get(s) in copiers})
    moved = {
        set_id: (owners[set_id], owner)
        for set_id, owner in found.owners.items()
        if owners.get(set_id) in copiers and owners[set_id] != owner
    }
    assert moved == {move.set_id: (move.giver, move.taker) for move in found.moves}
    assert len(moved) == len(found.moves) <= most
    changed = [owner for set_id, owner in found.owners.items() if owners.get(set_id) != owner]
    assert staying.issuperset(changed)
    shuffled = dict(sorted(weights.items(), reverse=True))
    assert balance(shuffled, owners, copiers[::-1], leaving=frozenset(leaving), most_moves=most) == found


@given(WEIGHTS, OWNERS, COPIERS)
def test_no_move_makes_the_fullest_fuller(
    weights: dict[str, float], owners: dict[str, str], copiers: list[str]
) -> None:
    placed = balance(weights, owners, copiers, most_moves=0).owners
    for move in balance(weights, placed, copiers, most_moves=9).moves:
        before = loads(weights, placed, copiers)
        assert placed[move.set_id] == move.giver
        placed[move.set_id] = move.taker
        after = loads(weights, placed, copiers)
        assert max(after[move.giver], after[move.taker]) < before[move.giver]
        assert max(after.values()) <= max(before.values())


@given(WEIGHTS, OWNERS, COPIERS)
def test_it_comes_to_rest_and_stays(weights: dict[str, float], owners: dict[str, str], copiers: list[str]) -> None:
    rest, _ = settle(weights, owners, copiers)
    assert balance(weights, rest, copiers) == Assignment(rest)


@given(st.lists(st.floats(1e4, 1e8), min_size=1, max_size=60), COPIERS, st.integers(0, 2**32))
def test_at_rest_noise_of_ten_percent_moves_nothing(rates: list[float], copiers: list[str], seed: int) -> None:
    noise = random.Random(seed)

    def tremble() -> dict[str, float]:
        return {f"s{n}": rate * noise.uniform(0.9, 1.1) for n, rate in enumerate(rates)}

    weights = steady_weights({}, tremble())
    owners, _ = settle(weights, {}, copiers)
    for _ in range(30):
        weights = steady_weights(weights, tremble())
        assert balance(weights, owners, copiers) == Assignment(owners)


@given(st.integers(1, 40), st.integers(1, 6))
def test_idle_sets_are_shared_out_by_number(sets: int, copiers: int) -> None:
    owners, _ = settle({f"s{n:02d}": 4096.0 for n in range(sets)}, {}, [f"c{n}" for n in range(copiers)])
    held = Counter(owners.values())
    assert max(held.values()) - min(held[f"c{n}"] for n in range(copiers)) <= max(1, sets // copiers // 5)


@given(st.lists(st.floats(1e4, 1e8), min_size=1, max_size=60), COPIERS)
def test_at_rest_it_is_as_even_as_single_moves_can_make_it(rates: list[float], copiers: list[str]) -> None:
    weights = {f"s{n}": rate for n, rate in enumerate(rates)}
    owners, _ = settle(weights, dict.fromkeys(weights, copiers[0]), copiers)
    carried = loads(weights, owners, copiers)
    emptiest = min(carried.values())
    for set_id, owner in owners.items():
        gap = carried[owner] - emptiest
        assert gap <= 0.2 * sum(rates) / len(copiers) * 1.000001 or weights[set_id] * 1.1 >= gap * 0.999999


def test_a_pinned_set_stays_but_leaves_with_its_copier() -> None:
    sets, owners = {"s1": 10.0, "s2": 10.0}, {"s1": "p", "s2": "p"}
    assert balance(sets, owners, ["p", "q"], pinned={"s1"}).owners == {"s1": "p", "s2": "q"}
    assert balance(sets, owners, ["p", "q"], pinned={"s1", "s2"}).moves == ()
    assert balance(sets, owners, ["p", "q"], pinned={"s1", "s2"}, leaving=frozenset({"p"})).owners == dict.fromkeys(
        sets, "q"
    )


def test_of_two_sets_that_even_out_alike_the_lighter_one_moves() -> None:
    found = balance({"heavy": 32.0, "light": 8.0}, {"heavy": "p", "light": "p"}, ["p", "q"])
    assert found.moves == (Move("light", "p", "q"),)


def test_a_set_that_was_free_does_not_move_on_although_a_copier_that_leaves_has_changed_the_loads() -> None:
    found = balance(
        {"a": 2.0, "b": 1.0, "aa": 1.0}, {"a": "p"}, ["p", "q", "r"], leaving=frozenset({"p"}), most_moves=2
    )
    assert found.moves == (Move("a", "p", "q"),)
