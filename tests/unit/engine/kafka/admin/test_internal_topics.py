"""raymirror's internal topics, created by another program: checked, also if a broker does not know them yet."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.kafka.admin import internal_topics
from engine.kafka.admin.internal_topics import (
    MAP_CONFIGS,
    QUARANTINE_CONFIGS,
    check_policy,
    ensure_internal_topic,
    ensure_quarantine_topic,
)

TOPIC = "raymirror-map.a.internal"


class Client:
    """A cluster whose brokers hear of a topic after a few answers; None: never."""

    alias = "B"
    grantee = SimpleNamespace(needs_on_topic=lambda operation, topic: f"grant {operation.name} on {topic}")

    def __init__(self, partitions: int, unheard: int | None, code: int = 0) -> None:
        self._partitions, self._unheard, self._code = partitions, unheard, code
        self.asked = 0

    async def metadata(self, topics: list[str]) -> Any:
        self.asked += 1
        heard = self._unheard is not None and self.asked > self._unheard
        topic = SimpleNamespace(partitions=range(self._partitions), error_code=self._code)
        return SimpleNamespace(topics={TOPIC: topic} if heard else {})


@pytest.fixture(autouse=True)
def made_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def exists(*_: object, key: str) -> bool:
        assert key == "offset.storage.replication.factor"
        return False

    async def policy(*_: object) -> str:
        return "compact"

    monkeypatch.setattr(internal_topics, "create_topic", exists)
    monkeypatch.setattr(internal_topics, "_policy", policy)


async def ensure(client: Client) -> bool:
    given: Any = client
    return await ensure_internal_topic(given, TOPIC, 1, MAP_CONFIGS, partitions=5)


@pytest.mark.parametrize("unheard", [0, 1, 3])
async def test_another_number_of_partitions_is_refused_whenever_the_broker_hears_of_the_topic(unheard: int) -> None:
    with pytest.raises(KafkaRefusal, match="has 2 partitions, but needs 5"):
        await ensure(Client(2, unheard))


async def test_a_topic_that_somebody_made_just_now_is_taken() -> None:
    client = Client(5, 2)
    assert not await ensure(client)
    assert client.asked == 3


async def test_a_topic_that_is_there_and_may_not_be_seen_is_refused_at_once() -> None:
    client = Client(0, 0, code=29)
    with pytest.raises(KafkaRefusal, match=f"topic {TOPIC} on cluster 'B'.*grant WRITE on {TOPIC}"):
        await ensure(client)
    assert client.asked == 1


async def test_a_topic_that_no_broker_hears_of_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "HEARD_S", 0.1)
    with pytest.raises(ConnectionLost, match=r"still do not know it after 0\.1 s"):
        await ensure(Client(5, None))


async def test_a_cluster_that_allows_no_large_records_gets_the_quarantine_topic_with_its_own_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[dict[str, str]] = []

    async def refuses(client: object, topic: str, partitions: int, replicas: int, configs: Any, *, key: str) -> bool:
        tried.append(configs)
        if "max.message.bytes" in configs:
            raise KafkaRefusal("creating", 44, "PolicyViolation: too large", "")
        return True

    monkeypatch.setattr(internal_topics, "create_topic", refuses)
    given: Any = Client(3, None)
    await ensure_quarantine_topic(given, TOPIC, 1)
    assert tried == [QUARANTINE_CONFIGS, {"cleanup.policy": "compact"}]


async def test_other_refusals_of_the_quarantine_topic_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*_: object, key: str) -> bool:
        raise KafkaRefusal("creating", 29, "TopicAuthorizationFailed", "")

    monkeypatch.setattr(internal_topics, "create_topic", refuses)
    given: Any = Client(3, None)
    with pytest.raises(KafkaRefusal, match="TopicAuthorizationFailed"):
        await ensure_quarantine_topic(given, TOPIC, 1)


@pytest.mark.parametrize(("code", "passes"), [(29, True), (35, False)])
async def test_a_policy_that_may_not_be_read_is_a_doubt(
    code: int, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> str:
        raise KafkaRefusal("configs", code, "refused", "grant DescribeConfigs")

    monkeypatch.setattr(internal_topics, "_policy", refused)
    given: Any = Client(5, 0)
    if passes:
        doubt = await check_policy(given, TOPIC, MAP_CONFIGS)
        assert doubt.startswith(f"cannot check that topic {TOPIC} on cluster 'B' has cleanup.policy=compact, ")
        assert doubt.endswith("grant DescribeConfigs")
    else:
        with pytest.raises(KafkaRefusal):
            await check_policy(given, TOPIC, MAP_CONFIGS)
