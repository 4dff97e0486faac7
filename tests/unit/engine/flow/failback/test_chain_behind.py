"""Groups that have read nothing since before a failback: the chain of maps behind it, record by record."""

from collections.abc import Mapping

import pytest

from engine.base.errors import ConnectionLost
from engine.core.offset_map.offset_map import How, Translation
from engine.flow.groups.map_chain import ChainedMaps, KnownStints
from engine.flow.operations.reading import read_copy
from engine.flow.operations.stints import stints_of
from engine.flow.ports.ports import Answers
from policies.dr.failback import FailbackChoice
from policies.sync.topic_configs import ConfigEntry
from tests.unit.engine.flow.failback.played import BACK, FORWARD, Played, failback
from tests.unit.engine.flow.failback.test_anew_steps import parted
from tests.unit.engine.flow.failback.test_failback_steps import HERE, N, P, failed_over, killed
from tests.unit.engine.flow.failback.test_keyed_copies import SHARED, keyed
from tests.unit.engine.flow.operations.staged import Border, Killed

_ANSWERS = (How.RUN, How.REFINED, How.END)


async def chained(played: Played) -> ChainedMaps:
    """Let a mirror run the reverse flow after the failback, and return the maps by which it places groups."""
    await played.copy(flow=BACK)
    stints = stints_of(await read_copy(played.a, BACK), BACK)
    assert stints.topics is not None
    assert stints.topics.positions_topic == f"mm2-offsets.{FORWARD.source}.internal"
    found = ChainedMaps(played.maps("B", played.a), KnownStints(played.maps("A", played.b), stints.chains(str, {}, {})))
    await found.follow([HERE])
    return found


def answer_of(found: Translation) -> int | None:
    return found.offset if found.how in _ANSWERS else None


async def placed(played: Played) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return what groups of each offset read on the other cluster, as far as they have a place: of B, and of A.

    A group reads there exactly what it has not read, whatever the order.
    """
    maps, here, there = await chained(played), played.here[0], played.there[0]
    of_b = {at: answer_of(maps.translate(HERE, at)) for at in range(there.end + 1)}
    of_a = {at: answer_of(maps.source_of(HERE, at)) for at in range(here.end + 1)}
    found = (
        {at: here.names(place) for at, place in of_b.items() if place is not None},
        {at: there.names(place) for at, place in of_a.items() if place is not None},
    )
    for log, reads in zip((there, here), found, strict=True):
        for at, names in reads.items():
            assert sorted(names) == sorted(log.names(at)), f"a group at {at}"
    return found


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("late", [False, True])
async def test_a_group_that_has_read_little_before_a_failback_has_a_place_behind_it(late: bool, leaves: bool) -> None:
    played = await failed_over(late=late, leaves=leaves)
    before = [name for _, name in played.there[0].placed()].index(N[0])
    new = played.there[0].placed()[before][0]
    split = played.here[0].behind(P[-1])
    async with played.failing_back() as driver:
        await driver.start(failback())
    of_b, of_a = await placed(played)
    if leaves:
        assert set(of_b) >= set(range(new)), "all that both had, and its end"
        assert set(of_a) >= set(range(split + 1))
    else:
        assert set(of_b) >= set(range(played.there[0].behind(P[1]))), "what its map had when the copier was killed"
    assert len(of_b) < played.there[0].end if late else leaves <= (len(of_b) == played.there[0].end + 1)


async def test_it_may_be_killed_where_it_stores_that() -> None:
    border = Border()
    async with (await failed_over(late=True)).failing_back(border) as driver:
        await driver.start(failback())
    for at in range(border.passed - 24, border.passed):
        played = await failed_over(late=True)
        await killed(played, Border(at))
        async with played.opened() as store:
            if store.current is not None:
                await played.drives_back(store).resume("bob")
        of_b, _ = await placed(played)
        assert set(of_b) >= set(range(played.there[0].behind(P[-1])))


@pytest.mark.parametrize("loss", [ConnectionLost("a:1"), Killed()])
async def test_a_last_step_that_is_run_again_keeps_where_the_stint_began(loss: BaseException) -> None:
    """The positions have been set by then, so they do not say it any more."""
    played = await failed_over(late=True)
    settings, losses = played.settings["A"], [loss]
    configs = settings.configs

    async def loses(topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        if played.says[-1:] == ["do close"] and losses:
            raise losses.pop()
        return await configs(topics)

    settings.configs = loses  # type: ignore[method-assign]
    await killed(played, Border())
    async with played.opened() as store:
        if store.current is not None:
            await played.drives_back(store).resume("bob")
    assert not losses
    of_b, _ = await placed(played)
    assert set(of_b) >= set(range(played.there[0].behind(P[-1])))


@pytest.mark.parametrize("choice", [FailbackChoice.APPEND, FailbackChoice.DISCARD])
async def test_what_was_before_a_topic_that_was_made_anew_has_no_place(choice: FailbackChoice) -> None:
    played = await parted(choice)
    async with played.failing_back() as driver:
        await driver.start(failback(**played.choices))
    stints = stints_of(await read_copy(played.a, BACK), BACK)
    assert stints.chains(str, {}, {}) == {}
    await placed(played)


@pytest.mark.parametrize("late", [False, True])
async def test_a_compacted_topic_has_them_unless_something_was_copied_by_keys(late: bool) -> None:
    played = await keyed(late=late)
    async with played.failing_back() as driver:
        await driver.start(failback())
    stints = stints_of(await read_copy(played.a, BACK), BACK)
    assert bool(stints.chains(str, {}, {})) is not late
    if not late:
        of_b, _ = await placed(played)
        assert len(of_b) == played.there[0].end + 1
        assert of_b[0] == [*SHARED, "a", "b", "f"]
