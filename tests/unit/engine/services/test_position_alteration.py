"""What could not be written of a change of positions."""

import pickle

from engine.services.position_alteration import PositionsNotAltered


def test_the_partitions_that_failed_are_named() -> None:
    error = PositionsNotAltered("A->B", {"t-0": "denied", "t-1": "no answer"})
    assert str(error) == "positions of flow A->B were not changed: t-0: denied; t-1: no answer; try again"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_of_many_only_the_first_are_named() -> None:
    text = str(PositionsNotAltered("A->B", {f"t-{number}": "denied" for number in range(25)}))
    assert text.count("denied") == 20
    assert text.endswith("t-19: denied; and 5 more; try again")
