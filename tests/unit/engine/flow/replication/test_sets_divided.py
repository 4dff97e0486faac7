"""A set divided while it is copied: each lane ends in one set, whatever the order of messages, and copies on."""

from itertools import permutations

import pytest

from tests.fakes.brokers import turns
from tests.unit.engine.flow.stage import Stage, until

DIVIDED = (("home", 1, [0]), ("solo-000", 2, [2]), ("solo-001", 3, [1]))


def held(stage: Stage) -> dict[int, tuple[str, int]]:
    return {lane.lane.partition: (lane.set_id, lane.epoch) for lane in stage.copier.progress().lanes}


@pytest.mark.parametrize("pause", [0, 3])
@pytest.mark.parametrize("order", list(permutations(DIVIDED)), ids=lambda order: "-".join(part[0] for part in order))
async def test_each_lane_of_a_divided_set_has_one_owner_in_any_order_of_arrival(
    order: tuple[tuple[str, int, list[int]], ...], pause: int
) -> None:
    stage = Stage(3)
    for source in stage.sources:
        source.data(3)
    stage.assign(set_id="home", epoch=1)
    async with stage.running():
        await until(lambda: all(map(stage.whole, range(3))))
        for source in stage.sources:
            source.data(3)
        stage.a.grow()
        for set_id, epoch, only in order:
            stage.assign(set_id=set_id, epoch=epoch, only=only)
            await turns(pause)
        await until(lambda: held(stage) == {0: ("home", 1), 1: ("solo-001", 3), 2: ("solo-000", 2)})
        for source in stage.sources:
            source.data(3)
        stage.a.grow()
        await until(lambda: all(map(stage.whole, range(3))))
    assert [stage.copied(partition) for partition in range(3)] == [source.wanted() for source in stage.sources]


async def test_a_lane_that_goes_over_to_a_set_of_a_higher_epoch_is_not_let_go_by_its_old_one() -> None:
    stage = Stage(2)
    stage.assign(set_id="home", epoch=1)
    async with stage.running():
        await until(lambda: all(driver.positions.settled for driver in stage.copier.drivers.values()))
        lane = stage.driver(1).lane
        stage.assign(set_id="solo-000", epoch=2, only=[1])
        stage.assign(set_id="home", epoch=1, only=[0])
        await turns(5)
        assert stage.driver(1).lane is lane, "without a pause"
        assert held(stage) == {0: ("home", 1), 1: ("solo-000", 2)}
