"""What consumers have read, held against the source; and which groups they read."""

import asyncio

import pytest

from engine.base.clock import pause
from engine.base.errors import ConnectionLost
from engine.flow.groups.translations import TranslatedOffset
from engine.kafka.groups.stock_consumer import FirstRead, Reads
from engine.services.drill.groups import Places
from engine.services.drill.reading import ReadComparison, consumer_plans, first_records, read_by_own, sampled
from policies.dr.drill import DrillFindingName, shadow_group
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster

LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
RUN = "f00d"
Name = DrillFindingName


def row(source: int, target: int) -> TranslatedOffset:
    return TranslatedOffset(LANE, COPY, source, target, "run")


class World:
    """A source with ten records, and a target with the same ones at the same offsets."""

    def __init__(self) -> None:
        self.source, self.target = FakeCluster("A"), FakeCluster("B")
        self.logs = self.source.source(*LANE), self.target.source(*COPY)
        for log in self.logs:
            log.data(10)
        self.places: Places = {"g": [row(4, 4)]}

    async def reads(self, target: int) -> Reads:
        """Read as a consumer at an offset would."""
        return await read_by_own(self.target, RUN, {"g": [row(0, target)]})

    async def names(self, reads: Reads, *, compacted: bool = False) -> list[Name]:
        comparison = ReadComparison(self.source, self.target, frozenset({"t"} if compacted else ()))
        return [one.name for one in await comparison.compare(RUN, self.places, reads)]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_consumer_that_reads_the_same_record_passes(world: World) -> None:
    assert await world.names(await world.reads(4)) == []


@pytest.mark.parametrize("target", [3, 5])
async def test_a_consumer_at_another_record_is_found(world: World, target: int) -> None:
    assert await world.names(await world.reads(target)) == [Name.WRONG_RECORD]


async def test_the_end_of_the_log_is_the_end_on_both_sides(world: World) -> None:
    world.places = {"g": [row(10, 10)]}
    assert await world.names(await world.reads(10)) == []


async def test_a_record_that_is_on_its_way_is_waited_for(world: World) -> None:
    world.places = {"g": [row(10, 10)]}
    nothing = await world.reads(10)
    world.logs[0].data(1)
    async with asyncio.TaskGroup() as group:
        comparing = group.create_task(world.names(nothing))
        await pause(2.0)
        assert not comparing.done()
        world.logs[1].data(1)
    assert comparing.result() == []


async def test_a_record_that_never_comes_is_found(world: World) -> None:
    world.places = {"g": [row(10, 10)]}
    nothing = await world.reads(10)
    world.logs[0].data(1)
    assert await world.names(nothing) == [Name.NO_RECORD]


async def test_a_record_behind_the_sources_end_is_another_one(world: World) -> None:
    world.places = {"g": [row(10, 9)]}
    assert await world.names(await world.reads(9)) == [Name.WRONG_RECORD]


async def test_what_the_source_has_deleted_is_not_judged(world: World) -> None:
    world.logs[0].start = 6
    assert await world.names(await world.reads(4)) == [Name.NOT_JUDGED]


async def test_logs_that_were_compacted_differently_pass(world: World) -> None:
    world.logs[1].compact(4)
    assert await world.names(await world.reads(4)) == [Name.WRONG_RECORD]
    assert await world.names(await world.reads(4), compacted=True) == []


async def test_a_consumer_that_failed_or_never_ran_is_found(world: World) -> None:
    failed: Reads = {(shadow_group(RUN, "g"), COPY): FirstRead(failed="it cannot log in")}
    assert await world.names(failed) == [Name.CONSUMER]
    assert await world.names({}) == [Name.CONSUMER]


async def test_a_source_that_cannot_be_read_hides_no_other_partition(world: World) -> None:
    def lost(asked: str, _partitions: object) -> None:
        if asked in ("read log", "offsets"):
            raise ConnectionLost("A:1 is down")

    reads = await world.reads(4)
    world.source.fail = lost
    comparison = ReadComparison(world.source, world.target, frozenset())
    (finding,) = await comparison.compare(RUN, world.places, reads)
    assert (finding.name, "A:1 is down" in finding.why) == (Name.CONSUMER, True)


async def test_first_records_are_committed_ones_from_the_offset_on(world: World) -> None:
    assert len(await first_records(world.source, LANE, 4, 3)) == 3
    assert await first_records(world.source, LANE, 10, 3) == ()
    world.logs[0].open_data(2, producer_id=7)
    assert await first_records(world.source, LANE, 10, 3) == ()


# --- the sample ------------------------------------------------------------------------------------------------------


def test_a_sample_is_chosen_by_the_run_and_0_means_all() -> None:
    places: Places = {f"g{number}": [row(number, number)] for number in range(50)}
    assert sampled(places, 0, RUN) == places
    assert sampled(places, 60, RUN) == places
    some = sampled(places, 5, RUN)
    assert len(some) == 5
    assert some == sampled(places, 5, RUN)
    assert any(sampled(places, 5, str(number)).keys() != some.keys() for number in range(5))


def test_a_consumer_has_the_shadow_group_and_its_partitions() -> None:
    (plan,) = consumer_plans(RUN, {"g": [row(4, 4)]})
    assert (plan.group, plan.partitions) == (shadow_group(RUN, "g"), (COPY,))
