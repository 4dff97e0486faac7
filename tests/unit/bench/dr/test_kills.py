"""Seeds kill every process at every step once, and the same seed kills the same."""

import pytest

from bench.dr.kills import EVERY, MOST_DELAY_S, kill_of, seeds_of
from bench.dr.operations import OPERATIONS, cells
from policies.dr.operation_steps import FAILBACK, SWITCHOVER


@pytest.mark.parametrize("cell", list(cells()))
def test_as_many_seeds_as_there_are_pairs_have_each_pair_once(cell: str) -> None:
    operation, _, _ = cells()[cell]
    count = len(operation.moments) * len(operation.victims)
    kills = [kill_of(cell, seed, operation.moments, operation.victims) for seed in range(count)]
    assert len({(kill.moment.name, kill.victim) for kill in kills}) == count
    assert all(0.0 <= kill.delay_s <= MOST_DELAY_S for kill in kills)
    assert kills == [kill_of(cell, seed, operation.moments, operation.victims) for seed in range(count)]
    assert kill_of(cell, count, operation.moments, operation.victims).victim == kills[0].victim


def test_the_moments_are_the_steps_of_the_product() -> None:
    for name, rules in (("switchover", SWITCHOVER), ("failback-keep", FAILBACK)):
        assert [one.name for one in OPERATIONS[name].moments] == [rule.name for rule in rules]
    assert OPERATIONS["switchover"].victims == OPERATIONS["drill"].victims == EVERY


def test_seeds_are_lists_and_ranges() -> None:
    assert list(seeds_of("0-3,7")) == [0, 1, 2, 3, 7]
    for wrong in ("", "a", "1-x"):
        with pytest.raises(ValueError, match=r"invalid literal"):
            list(seeds_of(wrong))
