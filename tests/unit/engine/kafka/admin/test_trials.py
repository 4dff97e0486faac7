"""Topics that a cluster validates and does not create."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.base.errors import KafkaRefusal
from engine.kafka.admin import trials
from engine.kafka.admin.trials import NewTopic, Refused, try_creating, try_growing
from engine.kafka.client.cluster import ClusterClient


class Controller:
    """Refuses what the script names; remembers each request."""

    def __init__(self, refused: dict[str, tuple[int, str | None]]) -> None:
        self.refused = refused
        self.asked: list[list[str]] = []

    async def call(self, request: Any) -> Any:
        specs, _, validate_only = vars(request).values()
        assert validate_only is True
        self.asked.append([spec[0] for spec in specs])
        return SimpleNamespace(topic_errors=[(spec[0], *self.refused.get(spec[0], (0, None))) for spec in specs])


def client(controller: Controller) -> ClusterClient:
    async def ask() -> Controller:
        return controller

    return cast("ClusterClient", SimpleNamespace(controller=ask))


async def test_what_is_refused_is_named_and_what_exists_is_fine() -> None:
    controller = Controller({"a": (38, "too many"), "b": (36, "exists"), "c": (44, None)})
    topics = [NewTopic(name=name, partitions=1, replicas=1) for name in "abcd"]
    assert await try_creating(client(controller), topics) == {
        "a": Refused(38, "InvalidReplicationFactor: too many"),
        "c": Refused(44, "PolicyViolation"),
    }
    assert await try_growing(client(controller), {"c": 3, "d": 4}) == {"c": Refused(44, "PolicyViolation")}
    assert await try_creating(client(controller), []) == {}
    assert controller.asked == [["a", "b", "c", "d"], ["c", "d"]]


async def test_a_request_stays_within_what_a_controller_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_MOST_RECORDS", 10)
    controller = Controller({})
    sizes = {"a": 4, "b": 3, "c": 3, "huge": 50, "d": 1}
    await try_creating(
        client(controller),
        [NewTopic(name=name, partitions=count, replicas=1, configs={"x": "1"}) for name, count in sizes.items()],
    )
    assert controller.asked == [["a"], ["b", "c"], ["huge"], ["d"]]


class Unable(Controller):
    """Offers neither request."""

    async def call(self, request: Any) -> Any:
        raise KafkaRefusal("b:1", 35, "UnsupportedVersion", "it does not offer it")


async def test_brokers_that_create_no_topics_say_so_for_each() -> None:
    topics = [NewTopic(name=name, partitions=1, replicas=1) for name in "ab"]
    refused = await try_creating(client(Unable({})), topics)
    assert {name: one.code for name, one in refused.items()} == {"a": 35, "b": 35}
    assert "its brokers do not offer that" in refused["a"].text
    assert (await try_growing(client(Unable({})), {"a": 3})) == {"a": refused["a"]}
