"""A failback on two clusters in memory: both logs record by record, with D empty and kept, killed at any step."""

from contextlib import suppress

import pytest

from engine.flow.operations.errors import OperationRefused
from policies.dr.operations import OperationState
from policies.model import TopicPartition
from tests.unit.engine.flow.failback.played import Border, Played, failback

P, D, N = [[f"{part}{number}" for number in range(6)] for part in "pdn"]
HERE = TopicPartition("t", 0)


async def failed_over(*, late: bool, leaves: bool = True) -> Played:
    """A flow that was copied and failed over; `late`: the source has records that were never copied."""
    played = Played()
    played.here[0].write(*P[:2])
    await played.copy()
    played.here[0].write(*P[2:])
    await played.copy(leaves=leaves)
    if late:
        played.here[0].write(*D[:4])
        played.here[0].write(*D[4:])
    played.there[0].write(*N[:1])
    played.there[0].write(*N[1:4])
    played.there[0].write(*N[4:])
    return played


def is_right(played: Played, *, late: bool) -> None:
    """Both logs hold every record once: P, D, N on the source and P, N, D on the target."""
    assert played.here[0].names() == [*P, *(D if late else ()), *N]
    assert played.there[0].names() == [*P, *N, *(D if late else ())]
    assert played.settings["A"].own["t"]["retention.ms"] == "5000"
    assert played.guard.says[-1] == "admit"


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("late", [False, True])
async def test_every_record_is_on_both_sides_once_and_only_new_ones_are_written_to_the_source(
    late: bool, leaves: bool
) -> None:
    played = await failed_over(late=late, leaves=leaves)
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert operation.state is OperationState.FINISHED
    is_right(played, late=late)
    facts = {step.name: step.facts for step in operation.steps}
    assert (facts["count"]["diverged"], facts["count"]["new"]) == (6 * late, 6)
    assert played.exported == (["folder: 6"] if late else [])
    assert 0 < facts["close"]["bytes_to_source"] < facts["close"]["bytes_of_full_copy"]
    assert [step.tries for step in operation.steps] == [1] * 10


@pytest.mark.parametrize("late", [False, True])
async def test_it_may_be_killed_between_any_two_of_its_writes(late: bool) -> None:
    border = Border()
    async with (await failed_over(late=late)).failing_back(border) as driver:
        await driver.start(failback())
    for at in range(border.passed):
        played = await failed_over(late=late)
        await killed(played, Border(at))
        await to_the_end(played)
        is_right(played, late=late)


async def killed(played: Played, border: Border) -> None:
    """Drive until the driver is killed."""
    with suppress(BaseException):
        async with played.failing_back(border) as driver:
            await driver.start(failback())


async def to_the_end(played: Played) -> None:
    """Do what an operator does after a kill: resume, or start if nothing was stored."""
    async with played.failing_back() as driver:
        with suppress(OperationRefused):
            await driver.resume("bob")
            return
        with suppress(OperationRefused):  # it was stored as finished
            await driver.start(failback(id="2"))
