"""The state of a flow from its configuration: the topic is created and adapted, or refused with the right value."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import FlowHeld, KafkaRefusal
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.core.events.events import LaneReleased
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.kafka.admin.admin import describe_topic_configs
from engine.kafka.admin.internal_topics import EVENTS_CONFIGS, STATE_CONFIGS
from engine.services.event_service import EventService
from engine.services.state_service import StateService
from engine.state.state import DESIRED, DesiredState, StateHolder
from policies.model import TopicPartition
from tests.harness.admin import create_topics, delete_topic, partition_count

pytestmark = pytest.mark.integration

STOPPED = DesiredState(state="stopped", who="ann")


def config_of(target: EmbeddedCluster, source: str, *lines: str) -> MirrorConfig:
    text = [
        f"clusters = {source}, B",
        f"{source}.bootstrap.servers = nobody.invalid:9092",
        f"B.bootstrap.servers = {target.bootstrap_servers}",
        f"{source}->B.enabled = true",
        "offset.storage.replication.factor = 1",
        *lines,
    ]
    return read_config(parse_properties("\n".join([*text, ""]), "mm2.properties"))


@asynccontextmanager
async def keeper(config: MirrorConfig, instance: str) -> AsyncIterator[StateService]:
    holder = StateHolder(deployment_id="d", instance_id=instance, mirror="m", version="1", where=f"host-{instance}")
    made = StateService(config, config.flows[0], holder)
    try:
        await made.open()
        yield made
    finally:
        await made.close()


async def test_the_topic_is_made_and_the_next_mirror_reads_it(target_cluster: EmbeddedCluster) -> None:
    config = config_of(target_cluster, "made")
    async with keeper(config, "one") as one:
        assert one.fenced
        await one.put({DESIRED: STOPPED})
    async with keeper(config, "two") as two:
        assert two.load()[DESIRED] == STOPPED
        configs = (await describe_topic_configs(two._client, [two.options.topic]))[two.options.topic]
    assert {name: configs[name].value for name in STATE_CONFIGS} == STATE_CONFIGS
    assert await partition_count(target_cluster, "raymirror-state.made.internal") == 1


async def test_a_second_mirror_of_one_configuration_says_who_has_the_flow(target_cluster: EmbeddedCluster) -> None:
    config = config_of(target_cluster, "twice")
    async with keeper(config, "one") as one, asyncio.TaskGroup() as group:
        living = group.create_task(one.run())
        with pytest.raises(FlowHeld, match=r"flow twice->B belongs to mirror 'm' on host-one .* raymirror stop"):
            async with keeper(config, "two"):
                pass
        living.cancel()
        await one.put({DESIRED: STOPPED})


@pytest.mark.parametrize(
    ("source", "partitions", "configs", "complaint"),
    [
        ("deleting", 1, {}, "has cleanup.policy=delete .40.; set cleanup.policy=compact on the topic"),
        ("both", 1, {"cleanup.policy": "compact,delete"}, "set cleanup.policy=compact on the topic"),
        ("wide", 2, {"cleanup.policy": "compact"}, "has 2 partitions, but needs 1"),
    ],
)
async def test_a_topic_that_would_lose_state_is_refused(
    target_cluster: EmbeddedCluster, source: str, partitions: int, configs: dict[str, str], complaint: str
) -> None:
    topic = f"raymirror-state.{source}.internal"
    await create_topics(target_cluster, {topic: partitions}, configs=configs)
    with pytest.raises(KafkaRefusal, match=f"topic {topic} on cluster 'B': .*{complaint}"):
        async with keeper(config_of(target_cluster, source), "one"):
            pass


async def test_events_have_a_topic_that_forgets_after_a_week(target_cluster: EmbeddedCluster) -> None:
    config = config_of(target_cluster, "eventful")
    flow = config.flows[0]
    told = [LaneReleased(flow=flow.name, lane=TopicPartition("t", number)) for number in range(3)]
    events = EventService(config, flow)
    events.append(told)  # before there is a connection
    async with asyncio.TaskGroup() as group:
        running = group.create_task(events.run())
        async with asyncio.timeout(60):
            await events.flush()
        running.cancel()
    assert [one.event for one in await events.read()] == told
    await events.close()
    later = EventService(config, flow)
    assert [one.event for one in await later.read()] == told
    configs = (await describe_topic_configs(later._client, [events.options.topic]))[events.options.topic]
    assert {name: configs[name].value for name in EVENTS_CONFIGS} == EVENTS_CONFIGS
    await later.close()


async def test_events_that_cannot_be_written_say_why_and_stop_nobody(target_cluster: EmbeddedCluster) -> None:
    config = config_of(target_cluster, "eventless", "offset.storage.replication.factor = 3")
    events = EventService(config, config.flows[0])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(events.run())
        async with asyncio.timeout(60):
            while "asked: 3" not in events.trouble:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        running.cancel()
    await events.close()


async def test_more_replicas_than_brokers_are_refused(target_cluster: EmbeddedCluster) -> None:
    config = config_of(target_cluster, "replicas", "offset.storage.replication.factor = 3")
    with pytest.raises(KafkaRefusal, match=r"creating topic raymirror-state.replicas.internal .*asked: 3"):
        async with keeper(config, "one"):
            pass


async def test_a_state_topic_deleted_while_it_is_used_is_made_again_with_all_that_was_in_it(
    target_cluster: EmbeddedCluster,
) -> None:
    config = config_of(target_cluster, "deleted")
    holder = StateHolder(deployment_id="d", instance_id="one", mirror="m", version="1", where="host-one")
    one = StateService(config, config.flows[0], holder)
    one.options = msgspec.structs.replace(one.options, renew_s=0.2)
    await one.open()
    one._patience = BoundedRetry("the state topic", 3.0, lambda: one._writer.reason)
    await one.put({DESIRED: STOPPED})
    told: set[str] = set()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(one.run())
        await delete_topic(target_cluster, one.options.topic)
        async with asyncio.timeout(120):
            while one.trouble or not any("was deleted; raymirror created it again" in what for what in told):
                told.add(one.trouble)
                await asyncio.sleep(0.01)
        running.cancel()
    await one.close()
    async with keeper(config, "two") as two:
        assert two.load()[DESIRED] == STOPPED
