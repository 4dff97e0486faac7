"""Topics, configs and ACLs of a cluster, read and changed: on the fake, and on a broker with Kafka's own client."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import KafkaRefusal
from engine.flow.ports.settings_port import NoAuthorizer, Settings, TopicConfig
from engine.kafka.admin.settings import KafkaSettings
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from policies.sync.config_sync import CreateTopic, GrowTopic
from policies.sync.topic_configs import DEFAULT, TOPIC_OVERRIDE
from tests.fakes.settings import FakeSettings
from tests.harness.admin import create_topics, own_configs
from tests.harness.eventually import until_equal
from tests.harness.kafka_admin import AUTHORIZER, KafkaAdmin
from tests.harness.mirror import cluster_client

pytestmark = pytest.mark.contract


class SettingsStage(Protocol):
    """A cluster behind the port, with what only others tell of it."""

    port: Settings
    name: str

    async def put(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic."""

    async def own(self, topic: str) -> dict[str, str]:
        """Return what was set for a topic alone."""

    def acls(self) -> set[Binding]:
        """Return all bindings."""


class FakeStage:
    """The cluster in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fake = FakeSettings("b")
        self.port: Settings = self.fake

    async def put(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        self.fake.put(topic, partitions)
        self.fake.own[topic] = dict(configs)

    async def own(self, topic: str) -> dict[str, str]:
        return self.fake.own[topic]

    def acls(self) -> set[Binding]:
        return self.fake.bindings


class RealStage:
    """An embedded cluster with an authorizer."""

    def __init__(self, name: str, cluster: EmbeddedCluster, port: Settings, judge: KafkaAdmin) -> None:
        self.name, self.port = name, port
        self._cluster, self._judge = cluster, judge

    async def put(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        await create_topics(self._cluster, {topic: partitions}, configs=configs)

        async def seen() -> tuple[list[str], list[str]]:
            return list(await self.port.topics([topic])), list((await self.port.configs({topic: None})).found)

        await until_equal(seen, ([topic], [topic]))

    async def own(self, topic: str) -> dict[str, str]:
        return (await own_configs(self._cluster, [topic]))[topic]

    def acls(self) -> set[Binding]:
        return self._judge.acls()


@pytest.fixture(scope="module")
def acl_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Start a cluster that has ACLs."""
    with EmbeddedCluster("acls", tmp_path_factory.mktemp("acls"), overrides=AUTHORIZER) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def judge(acl_cluster: EmbeddedCluster, java: Any) -> Iterator[KafkaAdmin]:
    """Open Kafka's own client."""
    made = KafkaAdmin(java, acl_cluster.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[SettingsStage]:
    """A stage whose topics bear the test's name."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    if request.param == "fake":
        yield FakeStage(name)
        return
    cluster = request.getfixturevalue("acl_cluster")
    client = cluster_client("b", cluster.bootstrap_servers)
    await client.open()
    try:
        yield RealStage(name, cluster, KafkaSettings(client), request.getfixturevalue("judge"))
    finally:
        await client.close()


def binding(name: str, **more: Any) -> Binding:
    plain = Binding(int(Resource.TOPIC), name, int(Pattern.LITERAL), "User:ann", "*", int(Operation.READ), 3)
    coded: dict[str, Any] = {key: value if isinstance(value, str) else int(value) for key, value in more.items()}
    return plain._replace(**coded)


async def test_topics_that_are_there(stage: SettingsStage) -> None:
    await stage.put(stage.name, 3, {})
    found = await stage.port.topics([stage.name, f"{stage.name}-not"])
    assert list(found) == [stage.name]
    assert (found[stage.name].partitions, found[stage.name].replicas) == (3, 1)
    everything = await stage.port.topics(None)
    assert stage.name in everything
    assert not any(name.startswith("__") for name in everything)


async def test_configs_and_who_set_them(stage: SettingsStage) -> None:
    await stage.put(stage.name, 1, {"retention.ms": "5000"})
    answers = await stage.port.configs({stage.name: None, f"{stage.name}-not": None})
    (configs,) = answers.found.values()
    own, default = configs["retention.ms"], configs["segment.bytes"]
    assert (own.value, own.source, own.read_only, own.sensitive) == ("5000", TOPIC_OVERRIDE, False, False)
    assert (default.value, default.source) == ("1073741824", DEFAULT)
    (why,) = answers.failed.values()
    assert "UnknownTopicOrPartition" in why
    some = await stage.port.configs({stage.name: ("retention.ms", "no.such.config")})
    assert some.found == {stage.name: {"retention.ms": own}}


async def test_changes_leave_everything_else_alone(stage: SettingsStage) -> None:
    await stage.put(stage.name, 1, {"retention.ms": "5000", "cleanup.policy": "compact"})
    refused = await stage.port.alter({stage.name: {"segment.bytes": "2000000", "retention.ms": None}})
    assert refused == {}
    await until_equal(lambda: stage.own(stage.name), {"cleanup.policy": "compact", "segment.bytes": "2000000"})


async def test_a_refused_topic_is_refused_alone(stage: SettingsStage) -> None:
    names = [f"{stage.name}-{number}" for number in range(3)]
    for name in names[:2]:
        await stage.put(name, 1, {})
    wanted: dict[str, dict[str, str | None]] = {name: {"retention.ms": "7000"} for name in names}
    wanted[names[0]]["no.such.config"] = "1"
    refused = await stage.port.alter(wanted)
    assert sorted(refused) == [names[0], names[2]]
    assert "InvalidConfig" in refused[names[0]] or "InvalidRequest" in refused[names[0]]
    await until_equal(lambda: stage.own(names[0]), dict[str, str]())
    await until_equal(lambda: stage.own(names[1]), {"retention.ms": "7000"})


async def test_a_config_that_the_cluster_does_not_know_hinders_no_other(stage: SettingsStage) -> None:
    await stage.put(stage.name, 1, {})
    refused = await stage.port.alter_each({stage.name: {"no.such.config": "1", "retention.ms": "7000"}})
    assert list(refused) == [TopicConfig(stage.name, "no.such.config")]
    await until_equal(lambda: stage.own(stage.name), {"retention.ms": "7000"})
    new = f"{stage.name}-new"
    configs = {"no.such.config": "1", "retention.ms": "7000", "nor.this": "2"}
    change = CreateTopic(topic="t", target=new, partitions=1, replication_factor=1, configs=configs)
    assert await stage.port.create(change) == ("no.such.config", "nor.this")
    await until_equal(lambda: stage.own(new), {"retention.ms": "7000"})


async def test_acls_are_added_once_and_read_by_kind(stage: SettingsStage) -> None:
    wanted = [
        binding(stage.name),
        binding(stage.name, pattern=Pattern.PREFIXED, operation=Operation.ALL, permission=Permission.DENY),
        binding(stage.name, resource=Resource.GROUP, host="10.0.0.1", principal="User:zoë"),
        binding(stage.name, resource=Resource.TRANSACTIONAL_ID, operation=Operation.WRITE),
    ]
    for _ in range(2):
        assert await stage.port.add_acls(wanted) == {}

    async def of(resource: Resource) -> set[Binding]:
        return {one for one in await stage.port.acls(resource) if one.name == stage.name}

    async def of_brokers() -> set[Binding]:
        (told,) = (await stage.port.acls_of_brokers(Resource.TOPIC)).values()
        return {one for one in told or () if one.name == stage.name}

    await until_equal(lambda: of(Resource.TOPIC), set(wanted[:2]))
    await until_equal(of_brokers, set(wanted[:2]))
    await until_equal(lambda: of(Resource.GROUP), set(wanted[2:3]))
    await until_equal(lambda: of(Resource.TRANSACTIONAL_ID), set(wanted[3:]))
    assert {one for one in stage.acls() if one.name == stage.name} == set(wanted)


async def test_topics_are_created_and_grow(stage: SettingsStage) -> None:
    create = CreateTopic(
        topic="t", target=stage.name, partitions=1, replication_factor=1, configs={"retention.ms": "5000"}
    )
    await stage.port.create(create)
    await stage.port.create(create)  # it is there already

    async def seen() -> list[str]:
        return list(await stage.port.topics([stage.name]))

    await until_equal(seen, [stage.name])
    await until_equal(lambda: stage.own(stage.name), {"retention.ms": "5000"})
    grow = GrowTopic(topic="t", target=stage.name, partitions=3, before=1)
    await stage.port.grow(grow)
    with pytest.raises(KafkaRefusal, match="InvalidPartitions"):
        await stage.port.grow(grow)


@pytest.mark.parametrize("kind", ["fake", pytest.param("real", marks=pytest.mark.integration)])
async def test_a_cluster_without_an_authorizer(kind: str, request: pytest.FixtureRequest) -> None:
    fake = FakeSettings("b")
    fake.has_authorizer = False
    port: Settings = fake
    close: Callable[[], Any] | None = None
    if kind == "real":
        client = cluster_client("b", request.getfixturevalue("source_cluster").bootstrap_servers)
        await client.open()
        port, close = KafkaSettings(client), client.close
    try:
        with pytest.raises(NoAuthorizer, match="cluster 'b'"):
            await port.acls(Resource.TOPIC)
        with pytest.raises(NoAuthorizer, match="cluster 'b'"):
            await port.acls_of_brokers(Resource.TOPIC)
        wanted = binding("t")
        refused = await port.add_acls([wanted])
        assert "SecurityDisabled" in refused[wanted]
    finally:
        if close is not None:
            await close()
