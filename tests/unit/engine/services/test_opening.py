"""Waiting for unreachable clusters: reported, alive, given up on request, ended by errors that waiting cannot fix."""

import asyncio
from collections.abc import Callable

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.services import opening
from engine.services.opening import Opening


class Clusters:
    """Fail as scripted, then answer; after the script, hang if `hangs`."""

    def __init__(self, *failures: Exception, hangs: bool = False) -> None:
        self.failures, self.hangs = list(failures), hangs
        self.tries = self.ticks = 0

    async def reach(self) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.hangs:
            await asyncio.Event().wait()

    def tick(self) -> None:
        self.ticks += 1


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "backoff_s", lambda _attempt: 0.001)
    monkeypatch.setattr(opening, "_TICK_S", 0.001)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the condition is the state of a fake, which tells nobody
            await asyncio.sleep(0.001)


async def test_clusters_that_are_away_are_tried_again_until_they_answer() -> None:
    clusters = Clusters(BrokerUnreachable("a:1", "refused"), ConnectionLost("a:1"), BrokerUnreachable("b:1", "refused"))
    tried = Opening(clusters.reach, clusters.tick)
    assert await tried.run()
    assert (clusters.tries, tried.trouble) == (4, "")


async def test_whom_it_waits_for_is_told_and_it_does_not_look_stuck() -> None:
    clusters = Clusters(BrokerUnreachable("cluster 'a'", "refused"), hangs=True)
    tried = Opening(clusters.reach, clusters.tick)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(tried.run())
        await until(lambda: bool(tried.trouble) and clusters.tries == 2)
        assert tried.trouble == "cluster 'a': cannot connect: refused"
        before = clusters.ticks
        await until(lambda: clusters.ticks > before + 3)
        tried.give_up()
        assert not await running


async def test_given_up_before_it_began_it_opens_nothing() -> None:
    clusters = Clusters(hangs=True)
    tried = Opening(clusters.reach, clusters.tick)
    tried.give_up()
    assert not await tried.run()


async def test_what_waiting_does_not_mend_ends_it_as_it_is() -> None:
    refusal = KafkaRefusal("the configuration of broker 1", 31, "CLUSTER_AUTHORIZATION_FAILED", "allow Describe")
    clusters = Clusters(BrokerUnreachable("a:1", "refused"), refusal)
    with pytest.raises(KafkaRefusal) as raised:
        await Opening(clusters.reach, clusters.tick).run()
    assert raised.value is refusal


async def test_cancelled_it_leaves_nothing_behind() -> None:
    clusters = Clusters(hangs=True)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Opening(clusters.reach, clusters.tick).run())
        await until(lambda: clusters.tries == 1)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
