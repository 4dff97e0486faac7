"""Releases and newer orders that cross in one turn of the copier's data loop."""

import asyncio

import msgspec
import pytest

from tests.unit.actors.ray.test_copier_actor import GROUP, OTHER, Boss, end, make


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers without news come soon."""
    monkeypatch.setattr("actors.ray.copier_actor.PATIENCE_S", 0.02)
    monkeypatch.setattr("actors.ray.copier_actor.REST_PATIENCE_S", 0.02)


async def turns(count: int = 5) -> None:
    """Let the loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_two_releases_of_one_set() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP, OTHER))
    await boss.until(lambda report: report.version == boss.orders.version)
    engine.may_let_go.clear()
    once = msgspec.structs.replace(boss.orders, version=boss.orders.version + 1, sets=(OTHER,))
    boss.orders = msgspec.structs.replace(once, version=once.version + 1, wake=1)
    shell._take_orders(once)
    await turns()
    engine.may_let_go.set()  # the release ends in the next turn, and in this one newer orders arrive
    shell._take_orders(boss.orders)
    await turns()
    assert not shell._task.done()
    report = await boss.until(lambda report: report.version == boss.orders.version)
    assert set(report.held) == {OTHER.set_id}
    await end(shell, boss)


async def test_a_set_given_back_before_its_release_has_begun_stays() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP, OTHER))
    await boss.until(lambda report: report.version == boss.orders.version)
    without = msgspec.structs.replace(boss.orders, version=boss.orders.version + 1, sets=(OTHER,))
    again = msgspec.structs.replace(GROUP, epoch=9)
    boss.orders = msgspec.structs.replace(without, version=without.version + 1, sets=(again, OTHER))
    shell._take_orders(without)
    shell._take_orders(boss.orders)  # in the same turn: the first are not followed any more
    await turns()
    report = await boss.until(lambda report: report.version == boss.orders.version)
    assert report.held == {GROUP.set_id: 9, OTHER.set_id: 4}
    assert set(engine.sets) == {GROUP.set_id, OTHER.set_id}
    await end(shell, boss)
