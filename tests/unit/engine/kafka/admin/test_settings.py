"""The Settings port over a scripted client: requests in parts, a lost request, brokers that are too old."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.protocol.admin import (
    AlterConfigsRequest_v0,
    CreateAclsResponse_v1,
    DescribeAclsResponse_v1,
    DescribeConfigsResponse_v1,
)

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.flow.ports.settings_port import TopicConfig
from engine.kafka.admin import settings, unknown_configs
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.protocol import admin_codec as codec
from policies.grants.rights import Grantee
from policies.sync.acl_sync import Binding, Resource
from policies.sync.config_sync import CreateTopic
from policies.sync.creation import Create
from tests.unit.engine.kafka.protocol.test_admin_codec import ALTERED

READ = Binding(2, "t", 3, "User:ann", "*", 3, 3)


class Broker:
    """A connection and the client that has it; answers come from a script, an exception is raised."""

    alias = "b"
    address = "b:9092"
    grantee = Grantee("b", "mirror")

    def __init__(self, *script: bytes | Exception, knows: bool = True) -> None:
        self.script, self.knows = list(script), knows
        self.bodies: list[bytes] = []

    async def controller(self) -> Any:
        return self

    any_connection = controller

    def supports(self, _key: int, _version: int) -> bool:
        return self.knows

    async def request(self, _key: int, _version: int, _flexible: bool, parts: Sequence[bytes], _wait_s: float) -> bytes:
        self.bodies += parts
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def port(broker: Any) -> KafkaSettings:
    return KafkaSettings(broker)


def altered(*topics: str, code: int = 0) -> bytes:
    return bytes(ALTERED.encode((0, [(code, "no" if code else None, 2, topic) for topic in topics])))


async def test_a_part_that_is_lost_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "ENTRIES_AT_ONCE", 3)
    broker = Broker(altered("a"), ConnectionLost("b:1"), altered("d", "e", code=44))
    made = port(broker)
    one: dict[str, str | None] = {"x": "1"}
    wanted: dict[str, dict[str, str | None]] = {"a": one, "b": {"x": "1", "y": "2", "z": None}, "c": {}, "d": one}
    refused = await made.alter({**wanted, "e": one})
    assert broker.bodies == [
        codec.alter_configs(part) for part in ({"a": one}, {"b": wanted["b"], "c": {}}, {"d": one, "e": one})
    ]
    assert list(refused) == ["b", "c", "d", "e"]
    assert "connection lost: b:1" in refused["b"]
    assert "PolicyViolation: no" in refused["d"]
    assert made.requests == 3


async def test_a_config_that_is_refused_hinders_no_other() -> None:
    both: dict[str, str | None] = {"x": "1", "y": None}
    wanted: dict[str, dict[str, str | None]] = {"fine": both, "mixed": both, "denied": both, "alone": {"x": "1"}}
    rows = [(0, None, 2, "fine"), (40, "bad y", 2, "mixed"), (29, None, 2, "denied"), (44, "bad x", 2, "alone")]
    broker = Broker(bytes(ALTERED.encode((0, rows))), altered("mixed"), altered("mixed", code=40))
    refused = await port(broker).alter_each(wanted)
    parts: list[dict[str, dict[str, str | None]]] = [wanted, {"mixed": {"x": "1"}}, {"mixed": {"y": None}}]
    assert broker.bodies == [codec.alter_configs(part) for part in parts]
    assert set(refused) == {("mixed", "y"), ("denied", "x"), ("denied", "y"), ("alone", "x")}
    assert refused[TopicConfig("mixed", "y")] == (
        "config y of topic mixed on cluster 'b': InvalidConfiguration: no; make the cluster accept it, or add y to"
        " config.properties.exclude"
    )
    assert "exclude" not in refused[TopicConfig("denied", "x")]


async def test_a_lost_request_is_not_split() -> None:
    broker = Broker(ConnectionLost("b:1"))
    refused = await port(broker).alter_each({"t": {"x": "1", "y": "2"}})
    assert set(refused) == {("t", "x"), ("t", "y")}
    assert len(broker.bodies) == 1


async def test_a_topic_is_created_without_configs_that_the_cluster_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, str]] = []

    async def create_topics(_client: object, new: dict[str, Create], *, waits: bool) -> dict[str, bool | KafkaRefusal]:
        assert waits
        ((topic, one),) = new.items()
        asked.append(one.configs)
        strange = "brand.new" in one.configs
        return {topic: KafkaRefusal("creating", 40, "Unknown topic config name: brand.new", "") if strange else True}

    monkeypatch.setattr(unknown_configs, "create_topics", create_topics)
    made = port(Broker())
    wanted = {"brand.new": "1", "retention.ms": "5"}
    for topic in ("t", "u"):
        change = CreateTopic(topic=topic, target=topic, partitions=1, replication_factor=1, configs=wanted)
        assert await made.create(change) == ("brand.new",)
    assert asked == [wanted, {"retention.ms": "5"}, {"retention.ms": "5"}]


async def test_bindings_go_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "BINDINGS_AT_ONCE", 1)
    bindings = [READ._replace(principal=f"User:{number}") for number in range(3)]
    answers = [CreateAclsResponse_v1(0, [(code, None)]).encode() for code in (0, 31)]
    refused = await port(Broker(answers[0], ConnectionLost("b:1"), answers[1])).add_acls(bindings)
    assert list(refused) == bindings[1:]
    assert "ClusterAuthorizationFailed" in refused[bindings[2]]


async def test_a_broker_that_is_too_old_says_so() -> None:
    refused = await port(Broker(knows=False)).alter({"t": {"x": "1"}})
    assert "Kafka 2.3 or newer" in refused["t"]
    with pytest.raises(KafkaRefusal, match="or newer"):
        await port(Broker(knows=False)).acls(Resource.TOPIC)


async def test_acls_that_may_not_be_read_are_a_refusal() -> None:
    with pytest.raises(KafkaRefusal, match="grant Describe on cluster"):
        await port(Broker(DescribeAclsResponse_v1(0, 31, None, []).encode())).acls(Resource.TOPIC)


class Replacing(Broker):
    """A broker without IncrementalAlterConfigs; it has the given configs of its topics."""

    def __init__(self, configs: dict[str, tuple[int, list[tuple[str, str | None, int, bool]]]]) -> None:
        super().__init__()
        self.configs = configs
        self.replaced: list[bytes] = []

    def supports(self, key: int, version: int) -> bool:
        return (key, version) != codec.INCREMENTAL_ALTER_CONFIGS

    async def nth_connection(self, _turn: int) -> Any:
        return self

    async def request(self, key: int, _version: int, _flexible: bool, parts: Sequence[bytes], _wait_s: float) -> bytes:
        if key == codec.DESCRIBE_CONFIGS[0]:
            rows: list[Any] = [
                (
                    code,
                    None,
                    2,
                    topic,
                    [(name, value, False, source, secret, []) for name, value, source, secret in own],
                )
                for topic, (code, own) in self.configs.items()
            ]
            return bytes(DescribeConfigsResponse_v1(0, rows).encode())
        assert (key, _version) == codec.ALTER_CONFIGS
        self.replaced += parts
        return altered("kept")


async def test_brokers_that_replace_all_configs_get_the_present_ones_merged_with_the_change() -> None:
    present: dict[str, tuple[int, list[tuple[str, str | None, int, bool]]]] = {
        "kept": (0, [("a", "1", 1, False), ("b", "2", 1, False), ("c", "3", 5, False), ("d", "4", 4, False)]),
        "secret": (0, [("password", None, 1, True)]),
        "vague": (0, [("a", "1", 0, False)]),
        "denied": (29, []),
    }
    broker = Replacing(present)
    change: dict[str, str | None] = {"b": None, "e": "5"}
    refused = await port(broker).alter(dict.fromkeys(present, change))
    assert broker.replaced == [codec.replace_configs({"kept": {"a": "1", "e": "5"}})]
    assert refused.keys() == {"secret", "vague", "denied"}
    assert "do not show the value of password, and AlterConfigs would remove it" in refused["secret"]
    assert "do not say whether the topic itself has a" in refused["vague"]
    assert "TopicAuthorizationFailed; needed: DescribeConfigs" in refused["denied"]


async def test_nothing_is_written_if_no_topic_can_change() -> None:
    broker = Replacing({"denied": (29, [])})
    made = port(broker)
    assert (await made.alter({"denied": {"a": "1"}})).keys() == {"denied"}
    assert (broker.replaced, made.requests) == ([], 0)


def test_the_request_that_replaces_configs_is_what_aiokafka_writes() -> None:
    rows: list[Any] = [(2, "t", [("a", "1"), ("b", "")]), (2, "u", [])]
    assert codec.replace_configs({"t": {"a": "1", "b": ""}, "u": {}}) == AlterConfigsRequest_v0(rows, False).encode()
