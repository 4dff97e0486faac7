"""Seeded schedules of drills that are killed or cut off anywhere: the next drill takes everything away."""

import random
from collections.abc import Sequence

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import Listed
from policies.dr.drill import scratch_topic, shadow_group
from tests.unit.engine.services.drill.test_record import FakeMade, World


class Killed(BaseException):
    """The drill's process has ended."""


class StruckMade(FakeMade):
    """A target on which drills make one thing after the other, and may be struck before and behind each of them."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.strikes = 0

    def strike(self) -> None:
        """Raise what a kill or a lost connection raises, as long as strikes are left."""
        if self.strikes and self._chance.random() < 0.2:
            self.strikes -= 1
            raise self._chance.choice([Killed(), ConnectionLost("B:1 is cut off")])

    def make(self, run_id: str) -> None:
        for group in ("billing", "g", "h"):
            self.strike()
            self.groups.add(shadow_group(run_id, group))
        self.strike()
        self.topics.add(scratch_topic(run_id))
        self.strike()

    async def list_groups(self) -> Listed:
        self.strike()
        return await super().list_groups()

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        self.strike()
        for group in groups:
            self.strike()
            await super().delete_groups([group])
        return {}

    async def delete_topic(self, topic: str) -> None:
        self.strike()
        await super().delete_topic(topic)
        self.strike()


async def drilled(world: World, made: StruckMade, run_id: str) -> None:
    """Drill as the service does: clean, record, make, take away; whatever it meets ends it."""
    record = world.record(run_id)
    await record.clean()
    made.strike()
    await record.begin()
    made.make(run_id)
    await record.take_away(run_id)


@pytest.mark.parametrize("drills", [1, 3])
async def test_what_killed_drills_have_left_is_taken_away_by_the_next(drills: int) -> None:
    left = 0
    for seed in range(100):
        world, chance = World(), random.Random(seed)
        world.made = made = StruckMade(chance)
        before = set(made.groups), set(made.topics)
        for number in range(drills):
            made.strikes = chance.randrange(3)
            try:
                await drilled(world, made, f"run{number}")
            except (Killed, ConnectionLost):
                left += (made.groups, made.topics) != before
        made.strikes = 0
        await world.record().clean()
        assert (made.groups, made.topics) == before, seed
        assert await world.runs() == set(), seed
    assert left > 20
