"""Topics are created by one request; each has an outcome, and a throttled cluster is left alone."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.protocol.api import Request

from engine.base.clock import now_s
from engine.base.errors import KafkaRefusal
from engine.kafka.admin import admin
from engine.kafka.admin.admin import create_topic, create_topics, grow_topic
from engine.kafka.client import throttle
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.throttle import Throttle
from policies.grants.rights import Grantee
from policies.sync.creation import Create

NEW = {topic: Create(2, 3, {}) for topic in ("a", "b")}


class Controller:
    """Answers as a controller does: rows of its own order, with a throttle time."""

    alias = "B"
    nodes = (1, 2, 3)
    grantee = Grantee("B", "mirror")

    def __init__(self, *rows: tuple[str, int, str | None], throttle_ms: int = 0) -> None:
        self.rows, self.throttle_ms = rows, throttle_ms
        self.asked: list[Request[Any]] = []
        self.waits_s = 0.0
        self.closed = 0
        self.changes = Throttle()
        self.tuning = SimpleNamespace(api_s=30.0, answer_s=30.0)

    async def controller(self) -> "Controller":
        return self

    async def call(self, request: Request[Any], timeout_s: float) -> Any:
        self.asked.append(request)
        self.waits_s = timeout_s
        return SimpleNamespace(topic_errors=list(self.rows), throttle_time_ms=self.throttle_ms)

    async def close(self) -> None:
        self.closed += 1

    async def create(self) -> dict[str, bool | KafkaRefusal]:
        return await create_topics(cast("ClusterClient", self), NEW)


def refusals(made: dict[str, bool | KafkaRefusal]) -> dict[str, int]:
    return {topic: one.code for topic, one in made.items() if isinstance(one, KafkaRefusal)}


async def test_each_topic_has_its_own_outcome_in_any_order() -> None:
    assert await Controller(("b", 0, None), ("a", 36, "exists")).create() == {"a": False, "b": True}
    made = await Controller(("b", 44, "no such name"), ("a", 0, None)).create()
    assert made["a"] is True
    assert str(made["b"]) == "creating topic b on cluster 'B': PolicyViolation: no such name (44)"


async def test_a_topic_that_the_answer_leaves_out_is_not_made() -> None:
    made = await Controller(("b", 0, None)).create()
    assert made["b"] is True
    assert "the answer leaves it out" in str(made["a"])


async def test_the_answer_may_come_after_the_time_that_the_cluster_has() -> None:
    """The time-out of a broker is an answer, which says of each topic whether it was created."""
    controller = Controller(("a", 0, None), ("b", 0, None))
    await controller.create()
    assert controller.waits_s > 30.0


async def test_a_throttled_cluster_is_left_alone_until_it_takes_changes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker reads nothing from a throttled connection (KIP-219); the quota is KIP-599's."""
    controller = Controller(("a", 0, None), ("b", 0, None), throttle_ms=400_000)
    client = cast("ClusterClient", controller)
    assert await controller.create() == {"a": True, "b": True}
    assert controller.closed == 1, "the next questions do not wait behind it"
    assert refusals(await controller.create()) == {"a": 89, "b": 89}
    with pytest.raises(KafkaRefusal, match="controller_mutation_rate"):
        await grow_topic(client, "a", 4)
    assert len(controller.asked) == 1
    later_s = now_s() + 400.0
    monkeypatch.setattr(throttle, "now_s", lambda: later_s)
    await controller.create()
    assert len(controller.asked) == 2


async def test_a_change_of_one_topic_waits_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator orders is worth a wait; discovery looks after other topics meanwhile."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(admin, "pause", pause)
    controller = Controller(("a", 0, None), throttle_ms=20_000)
    client = cast("ClusterClient", controller)
    await create_topic(client, "a", 1, 1, {})
    with pytest.raises(KafkaRefusal):
        await grow_topic(client, "a", 4, waits=False)
    assert paused == []
    await grow_topic(client, "a", 4)
    (waited_s,) = paused
    assert 15.0 < waited_s <= 20.0


async def test_a_short_throttle_is_the_brokers_business() -> None:
    controller = Controller(("a", 0, None), ("b", 0, None), throttle_ms=900)
    await controller.create()
    await controller.create()
    assert (len(controller.asked), controller.closed) == (2, 0)
