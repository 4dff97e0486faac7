"""A broker that the mirror alone cannot reach: it lives, leads and coordinates, and the other brokers see it.

Three brokers with a listener for each other and one for the mirror; that of broker 3 is advertised behind a proxy which
refuses, or swallows all. The cluster is source and target at once, so that three JVMs are enough.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.protocol.coordination import FindCoordinatorRequest

from actors.checks import prepare
from deploy.local.cluster import Cluster
from deploy.local.ports import HOST, pick_ports
from deploy.local.proxy import Proxy
from engine.clock import now_s
from engine.config import load_config
from engine.config_keeper import config_sync
from engine.core.events import AnyEvent, GroupBrokerAway
from engine.core.map_blocks import map_topic
from engine.core.progress import LaneProgress
from engine.flow.config_sync import Scope
from engine.group_keeper import GroupKeeper
from engine.kafka.groups import KafkaGroups
from engine.runner import Copier, TopicKeeper
from engine.settings import FlowConfig, MirrorConfig
from engine.state import Holder
from engine.state_keeper import StateKeeper
from policies.model import PartitionSet, TopicPartition
from tests.harness.admin import admin
from tests.harness.load import numbered, produce
from tests.harness.mirror import cluster_client

pytestmark = [pytest.mark.integration, pytest.mark.full]

AWAY = 3
PARTITIONS, EACH = 9, 50
COORDINATED = 5
"""Partitions of the coordinators' topics, as deploy/local sets them."""
DEADLINE_S = 240.0
CONFIG = """
clusters = a, b
a.bootstrap.servers = {servers}
b.bootstrap.servers = {servers}
a->b.enabled = true
a->b.topics = orders
groups = g.*
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 1
replication.factor = 3
offset.storage.partitions = 2
offset.storage.replication.factor = 3
offset-syncs.topic.replication.factor = 3
checkpoints.topic.replication.factor = 3
"""


class Stage:
    """The cluster, its proxy, and the configuration of the mirror."""

    def __init__(self, cluster: Cluster, proxy: Proxy, file: Path) -> None:
        self.cluster, self.proxy, self.file = cluster, proxy, file
        self.config: MirrorConfig = load_config(file)
        self.flow: FlowConfig = self.config.flows[0]

    def break_(self, how: str) -> None:
        """Let the mirror's connections to broker 3 fail: refused at once, or accepted and never answered."""
        if how == "refuses":
            self.proxy.refusing = True
        else:
            self.proxy.hold()
        self.proxy.cut()

    def mend(self) -> None:
        """Let them through."""
        self.proxy.refusing = False
        self.proxy.release()
        self.proxy.cut()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    outside = pick_ports(3)
    async with Proxy((HOST, outside[AWAY - 1])) as proxy:
        cluster = Cluster("three", tmp_path / "three", brokers=3, heap_mib=512)
        cluster.overrides = {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "broker.session.timeout.ms": "60000",
            "auto.leader.rebalance.enable": "false",
        }
        for broker, port in zip(cluster.brokers, outside, strict=True):
            inside, seen = broker.address, proxy.port if broker.node_id == AWAY else port
            cluster.own[broker.node_id] = {
                "listeners": f"PLAINTEXT://{HOST}:{inside.port},OUTSIDE://{HOST}:{port},"
                f"CONTROLLER://{HOST}:{inside.controller_port}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{inside.port},OUTSIDE://{HOST}:{seen}",
            }
        await asyncio.to_thread(cluster.start)
        try:
            # Broker 3 is the first of the addresses that are asked, too.
            servers = ",".join(f"{HOST}:{port}" for port in (proxy.port, *outside[:2]))
            file = tmp_path / "mm2.properties"
            file.write_text(CONFIG.format(servers=servers))
            made = Stage(cluster, proxy, file)
            await lay_out(made)
            yield made
        finally:
            await asyncio.to_thread(cluster.stop)


async def lay_out(stage: Stage) -> None:
    """Make the topics: broker 3 leads a third of the records' partitions, and nothing that all lanes need."""
    positions, blocks = stage.flow.positions_topic, map_topic("a")
    compacted = {"cleanup.policy": "compact"}
    spread = {n: [n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(PARTITIONS)}
    turned = {n: [(n // 3) % 3 + 1, (n // 3 + 1) % 3 + 1, (n // 3 + 2) % 3 + 1] for n in range(PARTITIONS)}
    safe = {0: [1, 2, 3], 1: [2, 1, 3]}
    one = {0: [1, 2, 3]}
    # Nothing but the coordinator of its transactional id can fence a flow's state: that is a broker that is there.
    state = coordinated_at(f"raymirror.{stage.flow.name}.state")
    of_transactions = {n: [AWAY, 1, 2] if n == (state + 1) % COORDINATED else [1, 2, 3] for n in range(COORDINATED)}
    of_groups = {n: [n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(COORDINATED)}
    made: Mapping[str, tuple[dict[int, list[int]], dict[str, str]]] = {
        "__transaction_state": (of_transactions, compacted),
        "__consumer_offsets": (of_groups, compacted),
        "orders": (spread, {}),
        "a.orders": (turned, {}),
        positions: (safe, compacted),
        blocks: (safe, compacted),
        "raymirror-state.a.internal": (one, compacted),
        "a.checkpoints.internal": (one, compacted),
        "mm2-offset-syncs.b.internal": (one, compacted),
    }
    async with admin(stage.cluster) as client:
        answer = await client.create_topics(
            [NewTopic(name, -1, -1, assignment, configs) for name, (assignment, configs) in made.items()]
        )
        assert not [row for row in answer.topic_errors if row[1]], answer
    for number in range(PARTITIONS):
        await produce(stage.cluster, "orders", number, numbered(EACH, first=1000 * number))


def coordinated_at(key: str) -> int:
    """Return the partition of a coordinator's topic that has a group or transactional id, as Java hashes it."""
    code = 0
    for letter in key:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % COORDINATED


async def until(holds: Callable[[], Any], what: Callable[[], object]) -> None:
    give_up_at = now_s() + DEADLINE_S
    while not holds():
        assert now_s() < give_up_at, what()
        await asyncio.sleep(0.05)


async def coordinated_by_3(stage: Stage, keys: list[str], kind: int) -> set[str]:
    """Ask, as one who reaches every broker, which groups (0) or transactional ids (1) broker 3 coordinates."""
    client = cluster_client("x", stage.cluster.bootstrap_servers)
    await client.open()
    found: set[str] = set()
    try:
        for key in keys:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    answer = await (await client.any_connection()).call(FindCoordinatorRequest(key, kind))
                    if not answer.error_code:
                        break
                    await asyncio.sleep(0.1)
            if answer.coordinator_id == AWAY:
                found.add(key)
    finally:
        await client.close()
    return found


@asynccontextmanager
async def copying(stage: Stage, lanes: tuple[Any, ...]) -> AsyncIterator[Callable[[], dict[int, LaneProgress]]]:
    copier = Copier(stage.config, stage.flow, copier_id="one", deployment_id="test")
    copier.assign(PartitionSet(set_id="a->b/000", flow=stage.flow.name, epoch=1, lanes=lanes))
    running = asyncio.create_task(copier.run())
    try:
        yield lambda: {lane.lane.partition: lane for lane in copier.progress().lanes}
        await copier.drain()
        await running
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize("how", ["refuses", "swallows"])
async def test_only_what_a_broker_leads_waits_for_it(stage: Stage, how: str) -> None:
    groups = [f"g{number}" for number in range(12)]
    inside = cluster_client("x", stage.cluster.bootstrap_servers)
    await inside.open()
    port = KafkaGroups(inside)
    where = TopicPartition("orders", 0)
    for group in groups:
        assert await port.commit(group, {where: (20, "")}) == {}
    waiting_groups = await coordinated_by_3(stage, groups, 0)
    ids = {f"raymirror.a->b.orders-{number}": number for number in range(PARTITIONS)}
    elsewhere = {ids[key] for key in await coordinated_by_3(stage, list(ids), 1)}
    led = {n for n in range(PARTITIONS) if AWAY in (n % 3 + 1, (n // 3) % 3 + 1)}
    free = set(range(PARTITIONS)) - led - elsewhere
    assert free, "broker 3 coordinates every lane that it does not lead"
    assert waiting_groups
    assert waiting_groups != set(groups)
    stage.break_(how)

    # check names the broker, and refuses nothing.
    config, previews = await asyncio.to_thread(prepare, stage.file)
    assert {text[:23] for text in previews[0].unreachable} == {"broker 3 of cluster 'a'", "broker 3 of cluster 'b'"}
    assert any("broker 3 of cluster 'a' cannot be reached" in str(warning) for warning in config.warnings)

    # The flow is taken, topics are found, configs compared.
    holder = Holder(deployment_id="test", instance_id="i", mirror="m", version="v", where="here")
    state = StateKeeper(stage.config, stage.flow, holder)
    await state.open()
    topics = TopicKeeper(stage.config, stage.flow)
    await topics.open()
    lanes = (await topics.step()).lanes
    assert len(lanes) == PARTITIONS
    async with config_sync(stage.config, stage.flow, "test") as sync:
        assert not (await sync.look(Scope(acls=False))).unread

    # Lanes of other leaders are copied, groups of other coordinators mirrored.
    keeper = GroupKeeper(stage.config, stage.flow)
    keeping = asyncio.create_task(keeper.run())
    events: list[AnyEvent] = []

    async def stored(group: str) -> int:
        found = (await port.offsets([group])).found[group]
        return found.get(TopicPartition("a.orders", 0), (-1, ""))[0]

    try:
        async with copying(stage, lanes) as progress:
            await until(
                lambda: all(progress()[n].source_next >= EACH for n in free),
                lambda: {n: (one.state, one.reason, one.source_next) for n, one in progress().items()},
            )
            began_s = now_s()
            for number in led:
                assert progress()[number].source_next < EACH
            assert any("broker 3" in progress()[number].reason for number in led), {
                n: one.reason for n, one in progress().items()
            }
            others = [group for group in groups if group not in waiting_groups]
            for group in others:
                while await stored(group) != 20:
                    assert now_s() < began_s + DEADLINE_S, keeper.report
                    await asyncio.sleep(0.1)

            def told() -> list[GroupBrokerAway]:
                events.extend(keeper.take_events())
                return [event for event in events if isinstance(event, GroupBrokerAway)]

            await until(told, lambda: (keeper.report, events))
            assert {event.group for event in told()} <= {f"broker 3 of cluster {name!r}" for name in "ab"}
            assert "broker 3 of cluster 'a'" in keeper.report.away
            assert keeper.report.failing == 0, keeper.report
            assert not keeper.report.trouble

            stage.mend()
            await until(
                lambda: all(one.source_next >= EACH for one in progress().values()),
                lambda: {n: (one.state, one.reason, one.source_next) for n, one in progress().items()},
            )
            for group in waiting_groups:
                while await stored(group) != 20:
                    assert now_s() < began_s + 2 * DEADLINE_S, keeper.report
                    await asyncio.sleep(0.1)
            await until(lambda: not keeper.report.away, lambda: keeper.report)
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await keeper.close()
        await topics.close()
        await state.close()
        await inside.close()
