"""Seeded schedules of a failback in which one cluster is cut off again and again, at any request, for a while."""

import random
from functools import partial

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.operations.errors import OperationTaken, StepFailed
from policies.dr.operations import DrOperation, OperationState
from tests.unit.engine.flow.failback.played import Played, failback
from tests.unit.engine.flow.operations.staged import renewed

P, D, N = [[f"{part}{number}" for number in range(6)] for part in "pdn"]
MOST_ATTEMPTS = 20


class Cuts:
    """Cuts off one of the clusters at some requests, drawn by a seed."""

    def __init__(self, played: Played, chance: random.Random) -> None:
        self._played, self._chance = played, chance
        self.cuts, self._left = chance.randrange(1, 4), 0
        self._draw()
        for cluster in (played.a, played.b):
            cluster.begun = partial(self.asked, cluster.name)

    def _draw(self) -> None:
        self._in, self._whom = self._chance.randrange(1, 60), self._chance.choice("AB")

    def asked(self, name: str, _what: str) -> None:
        """Raise ConnectionLost while the cluster is cut off."""
        if name != self._whom or not self.cuts:
            return
        self._in -= 1
        if self._in > 0:
            return
        if not self._left:
            self._left = self._chance.randrange(1, 8)
        self._left -= 1
        if not self._left:
            self.cuts -= 1
            self._draw()
        raise ConnectionLost(f"cluster {name} is cut off")


async def failed_over(*, late: bool) -> Played:
    played = Played()
    played.here[0].write(*P)
    await played.copy()
    if late:
        played.here[0].write(*D)
    played.there[0].write(*N)
    return played


async def driven(played: Played) -> DrOperation:
    """Give the command again until the failback has ended."""
    for _ in range(MOST_ATTEMPTS):
        try:
            async with played.opened() as store, renewed(store):
                driver = played.drives_back(store)
                if store.current is not None:
                    return await driver.resume("bob")
                if store.operations:
                    return store.operations[-1]
                return await driver.start(failback())
        except (StepFailed, OperationTaken, ConnectionLost):
            continue
    raise AssertionError("it never ended")


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 100), marks=pytest.mark.full)])
@pytest.mark.parametrize("late", [False, True])
async def test_a_cluster_may_be_cut_off_at_any_request(late: bool, seeds: range) -> None:
    for seed in seeds:
        played = await failed_over(late=late)
        Cuts(played, random.Random(seed))
        operation = await driven(played)
        assert operation.state is OperationState.FINISHED, seed
        assert played.here[0].names() == [*P, *(D if late else ()), *N], seed
        assert played.there[0].names() == [*P, *N, *(D if late else ())], seed
        assert played.settings["A"].own["t"]["retention.ms"] == "5000", seed
        assert played.guard.says[-1] == "admit", seed
