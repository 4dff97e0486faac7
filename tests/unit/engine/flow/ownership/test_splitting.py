"""Batches that the target refuses as too large although its topic config allows them: halved until they fit."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.events.events import RecordRefused
from engine.core.lane.states import State
from engine.flow.ownership import failure_handler as failure_handler
from engine.wire.batch import read_header
from policies.model import TopicPartition
from tests.unit.engine.flow.stage import Stage, until


def records_in(payload: bytes) -> int:
    """Let a batch be as large as it has records, whatever its bytes: as if each grew on the target."""
    return read_header(memoryview(payload), 0).record_count


def fails_with(error: Exception) -> Callable[[str, Sequence[TopicPartition]], None]:
    def fail(asked: str, _partitions: Sequence[TopicPartition]) -> None:
        if asked == "configs":
            raise error

    return fail


@pytest.mark.parametrize(
    "configs",
    [{"max.message.bytes": "1000000", "segment.bytes": "2000000"}, {"max.message.bytes": "1000000"}, {}],
    ids=["both", "one", "none"],
)
async def test_a_batch_that_grows_on_the_target_is_halved_until_it_fits(configs: dict[str, str]) -> None:
    stage = Stage()
    stage.b.configs["A.t"] = configs
    stage.targets[0].max_bytes, stage.targets[0].size_of = 3, records_in
    stage.sources[0].data(40)
    stage.assign()
    async with stage.running():
        await until(stage.whole)
        assert stage.told(RecordRefused) == []
        narrow = stage.driver().limit.bytes
        assert narrow < stage.driver().limit.configured
        stage.sources[0].data(40)  # learned: cut before it is sent
        stage.a.grow()
        await until(stage.whole)


@pytest.mark.parametrize("error", [ConnectionLost("b"), KafkaRefusal("configs", 29, "TopicAuthorizationFailed", "")])
async def test_where_the_target_cannot_be_asked_it_is_halved_too(error: Exception) -> None:
    stage = Stage()
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        stage.b.fail = fails_with(error)
        stage.targets[0].max_bytes, stage.targets[0].size_of = 3, records_in
        stage.sources[0].data(10)
        stage.a.grow()
        await until(stage.whole)
        assert stage.told(RecordRefused) == []


async def test_only_a_single_record_is_refused_for_its_size() -> None:
    stage = Stage()
    stage.targets[0].size_of = lambda payload: 100 if b"5" in bytes(payload)[61:] else 0
    stage.targets[0].max_bytes = 10
    stage.sources[0].data(10)
    stage.assign()
    async with stage.running():
        await until(lambda: stage.told(RecordRefused))
        assert stage.copied() == [0, 1, 2, 3, 4]
        stage.targets[0].max_bytes = 1000
        await until(stage.whole)


async def test_batches_are_cut_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they inflate to is beside the memory budget."""
    stage = Stage(4)
    at_once, most, cut = 0, 0, failure_handler._cut

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.05)  # in a thread: others would begin meanwhile
        at_once -= 1
        return cut(*args, **kwargs)

    monkeypatch.setattr(failure_handler, "_cut", watched)
    for number in range(4):
        stage.targets[number].max_bytes, stage.targets[number].size_of = 3, records_in
        stage.sources[number].data(40)
    stage.assign()
    async with stage.running():
        await until(lambda: all(stage.whole(number) for number in range(4)))
    assert most == 1


async def test_a_lane_that_was_stopped_meanwhile_splits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.targets[0].max_bytes = 10
    stage.assign()
    async with stage.running():
        await until(lambda: stage.state() is State.COPYING)
        configs = stage.b.topic_configs

        async def slow(topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
            stage.copier._failures.reacquire(stage.driver(), "meanwhile", fenced=False)
            stage.targets[0].max_bytes = 1 << 20
            monkeypatch.setattr(stage.b, "topic_configs", configs)
            return await configs(topics, names)

        monkeypatch.setattr(stage.b, "topic_configs", slow)
        stage.sources[0].data(10)
        stage.a.grow()
        await until(stage.whole)
