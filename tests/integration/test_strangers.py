"""Another producer writes to the target, or topics were replaced: reported, nothing overwritten."""

from typing import Any

import pytest

from engine.core.events.events import ForeignWriter, IdentityChanged
from tests.harness.admin import create_topics, delete_topic
from tests.harness.compare import assert_identical, read_topic
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

FOREIGN = numbered(7, first=9000)


async def values(mirror: Mirror, copied: str) -> list[bytes | None]:
    return [one.value for one in (await read_topic(mirror.target, copied))[0]]


async def between_two_runs(mirror: Mirror, topic: str, *, drain: bool) -> str:
    """Copy 100 records, let a stranger append 7 behind them, leave 100 more to copy; return the target topic."""
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(100))
    async with mirror.run(drain=drain) as run:
        await run.until_copied()
    await produce(mirror.target, copied, 0, FOREIGN)
    await produce(mirror.source, topic, 0, numbered(100, first=100))
    return copied


@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
async def test_a_foreign_writer_between_two_runs_stops_the_lane(mirror: Mirror, drain: bool) -> None:
    topic = f"stop-{drain}"
    copied = await between_two_runs(mirror, topic, drain=drain)
    for _ in range(2):  # it stays stopped, run after run
        async with mirror.run() as run:
            event = await run.until_told(ForeignWriter)
            assert (event.first, event.last, event.stopped) == (100, 106, True)
            await run.until(lambda: run.lane(topic).state == "failed", "stopped")
    assert await values(mirror, copied) == [one.value for one in (*numbered(100), *FOREIGN)]


@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
async def test_a_foreign_writer_between_two_runs_is_stepped_over(cluster_pair: Any, drain: bool) -> None:
    topic = f"continue-{drain}"
    mirror = Mirror(cluster_pair.source, cluster_pair.target, topic.lower(), stop_on_foreign_writer=False)
    await mirror.open()
    copied = await between_two_runs(mirror, topic, drain=drain)
    async with mirror.run() as run:
        event = await run.until_told(ForeignWriter)
        assert (event.first, event.last, event.stopped) == (100, 106, False)
        await run.until_copied()
    expected = [one.value for one in (*numbered(100), *FOREIGN, *numbered(100, first=100))]
    assert await values(mirror, copied) == expected
    async with mirror.run() as run:  # told once: the position is behind it now
        await run.until_copied()
        assert run.told(ForeignWriter) == []
    assert await values(mirror, copied) == expected


@pytest.mark.parametrize("stop", [True, False], ids=["stop", "continue"])
async def test_a_foreign_writer_while_running(cluster_pair: Any, stop: bool) -> None:
    topic = f"amid-{stop}".lower()
    mirror = Mirror(cluster_pair.source, cluster_pair.target, topic, stop_on_foreign_writer=stop)
    await mirror.open()
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(100))
    async with mirror.run() as run:
        await run.until_copied()
        await produce(mirror.target, copied, 0, FOREIGN)
        await produce(mirror.source, topic, 0, numbered(100, first=100))
        event = await run.until_told(ForeignWriter)
        assert (event.last - event.first + 1, event.stopped) == (7, stop)
        if stop:
            await run.until(lambda: run.lane(topic).state == "failed", "stopped")
        else:
            await run.until_copied()
    found = await values(mirror, copied)
    assert found[:107] == [one.value for one in (*numbered(100), *FOREIGN)]
    assert found[107:] == [one.value for one in numbered(200)][100 : len(found) - 7]


async def test_a_target_that_was_not_empty(mirror: Mirror) -> None:
    copied = await mirror.topic("used")
    await produce(mirror.target, copied, 0, FOREIGN)
    await produce(mirror.source, "used", 0, numbered(10))
    async with mirror.run() as run:
        event = await run.until_told(ForeignWriter)
        assert (event.first, event.stopped) == (0, True)
    assert await values(mirror, copied) == [one.value for one in FOREIGN]


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "between runs"])
async def test_a_topic_created_anew_is_another_topic(mirror: Mirror, side: str, running: bool) -> None:
    topic = f"anew-{side}-{running}".lower()
    copied = await mirror.topic(topic)
    cluster, renewed = (mirror.source, topic) if side == "source" else (mirror.target, copied)

    async def renew() -> None:
        await delete_topic(cluster, renewed)
        await create_topics(cluster, {renewed: 1})
        await produce(mirror.source, topic, 0, numbered(200, first=500))

    await produce(mirror.source, topic, 0, numbered(100))
    if running:
        async with mirror.run() as run:
            await run.until_copied()
            await renew()
            event = await run.until_told(IdentityChanged)
    else:
        async with mirror.run() as run:
            await run.until_copied()
        await renew()
        async with mirror.run() as run:
            event = await run.until_told(IdentityChanged)
            await run.until(lambda: run.lane(topic).state == "failed", "stopped")
    assert renewed in event.what
    assert event.severity == "error"
    expected = numbered(100) if side == "source" else []
    assert await values(mirror, copied) == [one.value for one in expected]


async def test_a_renewed_topic_leaves_the_others_alone(mirror: Mirror) -> None:
    await mirror.topic("lost")
    copied = await mirror.topic("kept")
    async with mirror.run(drain=False) as run:  # a drain would wait for the lost one
        await run.until_copied()
        await delete_topic(mirror.target, mirror.copied("lost"))
        await produce(mirror.source, "lost", 0, numbered(10))
        await produce(mirror.source, "kept", 0, numbered(10))
        await run.until_copied("kept")
    assert await assert_identical(mirror.source, mirror.target, "kept", copied) == 10
    assert await values(mirror, copied) == [one.value for one in numbered(10)]
