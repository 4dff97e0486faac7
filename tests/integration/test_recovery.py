"""A mirror on a real Ray whose processes end and start while records keep coming: nothing lost, nothing doubled.

The tests are steps of one story, in order: a second copier joins, a copier is killed, the supervisor is killed, its
rounds fail, the configuration file is spoiled.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.growing import GrowingMirror
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

PARTITIONS = 40
"""More than one set holds, so that there is something to move."""


@pytest.fixture(scope="module")
def story(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GrowingMirror]:
    folder = tmp_path_factory.mktemp("recovery")
    mirror = GrowingMirror(*cluster_pair, shared_ray, folder, alias="shaky", partitions=PARTITIONS)
    asyncio.run(create_topics(mirror.source, {mirror.topic: PARTITIONS}))
    mirror.submit(copiers=1)
    try:
        asyncio.run(mirror.until(lambda: mirror.is_shared_by(1), "one copier has everything"))
        yield mirror
    finally:
        mirror.close()


async def test_a_second_copier_gets_its_share(story: GrowingMirror) -> None:
    async with story.growing():
        await story.until(lambda: story.is_shared_by(1), "one copier has all")
        (first,), before = story.owners(), await story.all_epochs()
        story.submit(copiers=2)
        await story.until(lambda: story.is_shared_by(2), "two copiers share the partitions")
        await story.until_grown()
    after = await story.epochs()
    assert first in story.owners()
    moved = {number for number in after if after[number] > before[number]}
    assert 0 < len(moved) < PARTITIONS
    assert all(after[number] == before[number] for number in after.keys() - moved)


async def test_the_sets_of_a_killed_copier_move(story: GrowingMirror) -> None:
    async with story.growing():
        await story.until_grown()
        owners, before = story.owners(), await story.epochs()
        victim, *_ = story.processes("CopierActor")
        victim.kill()
        await story.until(lambda: story.is_shared_by(2) and story.owners().keys() != owners.keys(), "two copiers again")
        await story.until_grown()
        (gone,) = owners.keys() - story.owners().keys()
        moved = await story.partitions_of(owners[gone])
    assert any(gone in text for text in story.live.told("its process ended"))
    after = await story.epochs()
    assert moved
    assert all(after[number] > before[number] for number in moved)


async def test_a_killed_supervisor_comes_back_and_moves_nothing(story: GrowingMirror) -> None:
    async with story.growing():
        await story.until_grown()
        owners, before = story.owners(), await story.epochs()
        copiers = {one.pid for one in story.processes("CopierActor")}
        (supervisor,) = story.processes("SupervisorActor")
        began_ms = began(story)
        supervisor.kill()
        await until_led_anew(story, began_ms)
    assert {one.pid for one in story.processes("CopierActor")} == copiers
    assert story.owners() == owners
    assert await story.epochs() == before


def began(story: GrowingMirror) -> float:
    """Say when the supervisor that was heard last began, Unix milliseconds."""
    status = story.live.status
    return float(status["at_ms"] - status["up_s"] * 1000)


async def until_led_anew(story: GrowingMirror, began_ms: float) -> None:
    """Wait until another supervisor than the one that began then leads the copiers, and something was copied since."""
    await story.until(lambda: began(story) > began_ms + 500 and story.is_shared_by(2), "the next one leads the copiers")
    await story.until_grown()


def spoil_rounds(story: GrowingMirror) -> None:
    """Have the rounds of the supervisor raise, in its own process."""
    command = [sys.executable, "-m", "tests.harness.ray_fail", story.live.status["namespace"]]
    subprocess.run(command, env=story.live.env, check=True, capture_output=True, timeout=600)


async def two_share(story: GrowingMirror) -> None:
    """Have two copiers, whether the cases before this one were run or not."""
    if not story.is_shared_by(2):
        story.submit(copiers=2)
        await story.until(lambda: story.is_shared_by(2), "two copiers share the partitions")


@pytest.mark.full
async def test_the_sets_of_a_copier_that_died_with_its_supervisor_go_on_at_once(story: GrowingMirror) -> None:
    """It had got sets of another one that was killed before: at epochs that only their positions tell."""
    async with story.growing():
        await two_share(story)
        await story.until_grown()
        first, *_ = story.processes("CopierActor")
        others = {one.pid for one in story.processes("CopierActor")} - {first.pid}
        owners = story.owners()
        first.kill()
        await story.until(lambda: story.is_shared_by(2) and story.owners().keys() != owners.keys(), "two copiers again")
        await story.until_grown()
        before = await story.epochs()
        (heir,) = (one for one in story.processes("CopierActor") if one.pid not in others)
        (supervisor,) = story.processes("SupervisorActor")
        began_ms = began(story)
        heir.kill()
        supervisor.kill()
        await until_led_anew(story, began_ms)
    after = await story.epochs()
    moved = {number for number in after if after[number] != before[number]}
    assert moved
    assert min(after[number] for number in moved) > max(before.values())
    assert not story.live.told("this copier gave up the lane")


@pytest.mark.full
async def test_a_supervisor_whose_rounds_fail_is_started_again(story: GrowingMirror) -> None:
    async with story.growing():
        await two_share(story)
        await story.until_grown()
        owners, before = story.owners(), await story.epochs()
        copiers = {one.pid for one in story.processes("CopierActor")}
        (failed,) = story.processes("SupervisorActor")
        began_ms = began(story)
        await asyncio.to_thread(spoil_rounds, story)
        await until_led_anew(story, began_ms)
    (supervisor,) = story.processes("SupervisorActor")
    assert supervisor.pid != failed.pid
    assert {one.pid for one in story.processes("CopierActor")} == copiers
    assert story.owners() == owners
    assert await story.epochs() == before


@pytest.mark.full
async def test_a_file_that_was_edited_ends_no_healing(story: GrowingMirror) -> None:
    """A copier, then the supervisor are killed while the file says something else: both go on as they began."""
    async with story.growing():
        await two_share(story)
        await story.until_grown()
        story.config.write_text("clusters = elsewhere\n")
        owners = story.owners()
        victim, *_ = story.processes("CopierActor")
        victim.kill()
        await story.until(lambda: story.is_shared_by(2) and story.owners().keys() != owners.keys(), "two copiers again")
        (supervisor,) = story.processes("SupervisorActor")
        began_ms = began(story)
        supervisor.kill()
        await until_led_anew(story, began_ms)
        await story.until(lambda: story.live.told(f"{story.config} was edited"), "the edit is told")
