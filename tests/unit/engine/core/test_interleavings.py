"""The lane under random interleavings never loses, repeats or reorders (see simulation.py)."""

import pytest

from engine.core.lane import Lane
from engine.core.runs import RunLine
from tests.unit.engine.core.simulation import World, run

_A_RUN = 400


@pytest.mark.parametrize("start", range(0, 2000, 100))
def test_no_interleaving_loses_repeats_or_reorders(start: int) -> None:
    for seed in range(start, start + 100):
        run(seed, _A_RUN)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100_000, 120_000, 1000))
def test_no_interleaving_of_many_loses_repeats_or_reorders(start: int) -> None:
    for seed in range(start, start + 1000):
        run(seed, _A_RUN if seed % 2 else 3 * _A_RUN)


def _fails(seeds: range) -> bool:
    for seed in seeds:
        try:
            run(seed, _A_RUN)
        except AssertionError:
            return True
    return False


def test_the_simulation_sees_a_lane_that_does_not_wait_for_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunLine, "holds_back", lambda _self, _end: False)
    assert _fails(range(300))


def test_the_simulation_sees_a_lane_that_fetches_again_what_it_had_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewind_all(lane: Lane) -> None:
        while lane._pieces.waiting:
            lane._pieces.settled(lane._pieces.waiting.pop())
        if lane._line is not None:
            lane._continue_behind()

    monkeypatch.setattr(Lane, "rewind", rewind_all)
    assert _fails(range(1000))


def test_the_simulation_sees_a_window_that_is_open_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Lane.own
    monkeypatch.setattr(Lane, "own", lambda lane, position, **_: own(lane, position, barrier_done=True))
    assert _fails(range(0, 3000, 3))


def test_the_simulation_plays_what_it_should() -> None:
    """A simulation in which nothing happens proves nothing: these must all occur often."""
    seen: dict[str, int] = {"kills": 0, "splits": 0, "settles": 0, "acquired again": 0, "records": 0, "wraps": 0}
    for seed in range(100):
        world = World(seed)
        world.seen = seen
        for _ in range(_A_RUN):
            world.step()
            world.keep_owned()
        world.settle_down()
        world.check()
        seen["kills"] += world.kills
        seen["records"] += len(world.target.records())
        seen["wraps"] += any(b.header.base_sequence < 20 and b.header.producer_epoch == 0 for b in world.target.batches)
    assert seen["records"] > 1000
    assert min(seen.values()) > 10, seen
