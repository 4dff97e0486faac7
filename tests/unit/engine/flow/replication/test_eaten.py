"""Copies deleted by the target's retention: checked now and then, every lane by itself."""

import asyncio
from collections.abc import Sequence

from engine.base.errors import KafkaRefusal
from engine.core.events.events import TargetEaten
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import Stage, until


async def filled(stage: Stage) -> None:
    for source in stage.sources:
        source.data(2)
    stage.a.grow()
    lanes = range(len(stage.sources))
    await until(lambda: all(stage.whole(one) and stage.driver(one).lane.records == 2 for one in lanes))


async def test_a_topic_that_is_refused_hides_no_other() -> None:
    stage = Stage(3)

    def refuse(asked: str, partitions: Sequence[TopicPartition]) -> None:
        if asked == "offsets" and TopicPartition("A.t", 1) in partitions:
            raise KafkaRefusal("offsets", 29, "TopicAuthorizationFailed", "")

    stage.assign()
    async with stage.running():
        await filled(stage)
        stage.b.fail = refuse
        stage.targets[2].retain_from(stage.targets[2].end)
        await until(lambda: stage.told(TargetEaten))
        (event,) = stage.told(TargetEaten)
        assert isinstance(event, TargetEaten)
        assert event.target == TopicPartition("A.t", 2)


async def test_a_look_that_waits_for_a_broker_is_the_only_one() -> None:
    stage, speak, asked = Stage(), asyncio.Event(), 0
    offsets = stage.b.offsets

    async def slow(partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        nonlocal asked
        asked += 1
        await speak.wait()
        return await offsets(partitions, timestamp_ms)

    stage.assign()
    async with stage.running():
        await filled(stage)
        stage.b.offsets = slow  # type: ignore[method-assign]
        beat = stage.copier.progress().beat
        await until(lambda: asked and stage.copier.progress().beat > beat + 4)  # flushed twice at least
        assert asked == 1
        speak.set()
