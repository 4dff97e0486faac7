"""A broker that only the mirror cannot reach: it lives, leads and coordinates, and the other brokers see it.

Three brokers with a listener for each other and one for the mirror. Broker 3 advertises its mirror listener behind a
proxy that refuses or swallows everything. The cluster is source and target at once, so that three JVMs are enough.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka.admin import NewTopic
from aiokafka.protocol.coordination import FindCoordinatorRequest

from actors.config.checks import prepare
from actors.control.flow_state import UNSURE_S
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST, pick_ports
from deploy.local.proxy import Proxy
from engine.base.clock import now_s
from engine.base.errors import StateTaken
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import AnyEvent, GroupBrokerAway
from engine.core.offset_map.map_blocks import map_topic
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.progress import LaneProgress
from engine.flow.config_sync.planning import Scope
from engine.kafka.groups.groups import KafkaGroups
from engine.services.config_service import config_sync
from engine.services.group_service import GroupService
from engine.services.runner import Copier
from engine.services.state_service import StateService
from engine.services.topic_service import TopicService
from engine.state.state import StateHolder
from policies.model import LaneName, PartitionSet, TopicPartition
from tests.harness.admin import admin
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import cluster_client
from tests.harness.whole import read_whole

pytestmark = [pytest.mark.integration, pytest.mark.full]

AWAY = 3
PARTITIONS, EACH = 9, 50
COMMITTED = 20
COORDINATED = 5
"""Partitions of the coordinators' topics, as deploy/local sets them."""
DEADLINE_S = 240.0
LEASE_S = 6.0
"""How long a lease lasts that a copier was granted a moment before."""
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
raymirror.same.cluster = allow
heartbeats.replication.enabled = false
offset.storage.partitions = 2
offset.storage.replication.factor = 3
offset-syncs.topic.replication.factor = 3
checkpoints.topic.replication.factor = 3
"""


class Stage:
    """The cluster, its proxy, and the configuration of the mirror; `beside` is one that needs no proxy."""

    def __init__(self, cluster: EmbeddedCluster, proxy: Proxy, file: Path, beside: Path) -> None:
        self.cluster, self.proxy, self.file, self.beside = cluster, proxy, file, beside
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
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Give the stage; its parameter is the broker that leads the topic of the flow's state, 1 if there is none."""
    outside = pick_ports(3)
    async with Proxy((HOST, outside[AWAY - 1])) as proxy:
        cluster = EmbeddedCluster("three", tmp_path / "three", brokers=3, heap_mib=512)
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
            beside = tmp_path / "beside.properties"
            beside.write_text(CONFIG.format(servers=cluster.bootstrap_servers))
            made = Stage(cluster, proxy, file, beside)
            await lay_out(made, getattr(request, "param", 1))
            yield made
        finally:
            await asyncio.to_thread(cluster.stop)


async def lay_out(stage: Stage, state_leader: int) -> None:
    """Make the topics: broker 3 leads a third of the records' partitions, and nothing that all lanes need.

    The flow's state alone is led by whom the test says.
    """
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
        "raymirror-state.a.internal": ({0: [state_leader, *sorted({1, 2, 3} - {state_leader})]}, compacted),
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
    """Look until something is so; fails with how it stands by then."""
    give_up_at = now_s() + DEADLINE_S
    while not holds():
        assert now_s() < give_up_at, what()
        await asyncio.sleep(0.05)


async def coordinated_by_3(stage: Stage, keys: Collection[str], kind: int) -> set[str]:
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


class Copying:
    """A copier that runs, and how its lanes are."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier

    @property
    def lanes(self) -> dict[int, LaneProgress]:
        """The lanes of `orders` by partition."""
        return {lane.lane.partition: lane for lane in self._copier.progress().lanes}

    async def until_copied(self, numbers: Collection[int]) -> None:
        """Wait until these lanes have copied every record."""

        def copied() -> bool:
            lanes = self.lanes
            return all(number in lanes and lanes[number].source_next >= EACH for number in numbers)

        await until(copied, lambda: {n: (one.state, one.reason, one.source_next) for n, one in self.lanes.items()})


@asynccontextmanager
async def copying(stage: Stage, lanes: tuple[LaneName, ...]) -> AsyncIterator[Copying]:
    copier = Copier(stage.config, stage.flow, copier_id="one", deployment_id="test")
    copier.assign(PartitionSet(set_id="a->b/000", flow=stage.flow.name, epoch=1, lanes=lanes))
    running = asyncio.create_task(copier.run())
    try:
        yield Copying(copier)
        await copier.drain()
        await running
    finally:
        running.cancel()
        await asyncio.wait([running])


class Grouping:
    """A keeper of groups that runs, what it told, and what the target has of it."""

    def __init__(self, keeper: GroupService, port: KafkaGroups) -> None:
        self._keeper, self._port = keeper, port
        self._events: list[AnyEvent] = []

    @property
    def report(self) -> GroupsReport:
        """How its last round went."""
        return self._keeper.report

    def told(self) -> list[GroupBrokerAway]:
        """Return every event so far that names a broker."""
        self._events.extend(self._keeper.take_events())
        return [event for event in self._events if isinstance(event, GroupBrokerAway)]

    async def until_stored(self, groups: Collection[str], offset: int) -> None:
        """Wait until the target has this offset for every one of the groups."""
        give_up_at, copy = now_s() + DEADLINE_S, TopicPartition("a.orders", 0)
        while True:
            found = (await self._port.offsets(sorted(groups))).found
            if all(found[group].get(copy, (-1, ""))[0] == offset for group in groups):
                return
            assert now_s() < give_up_at, (offset, found, msgspec.structs.asdict(self.report))
            await asyncio.sleep(0.1)


@asynccontextmanager
async def grouping(stage: Stage, port: KafkaGroups) -> AsyncIterator[Grouping]:
    keeper = GroupService(stage.config, stage.flow)
    running = asyncio.create_task(keeper.run())
    try:
        yield Grouping(keeper, port)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await keeper.close()


async def assert_named_by_check(stage: Stage) -> None:
    """`check` names the broker, and refuses nothing."""
    config, previews = await asyncio.to_thread(prepare, stage.file)
    assert {text[:23] for text in previews[0].unreachable} == {"broker 3 of cluster 'a'", "broker 3 of cluster 'b'"}
    assert any("broker 3 of cluster 'a' cannot be reached" in str(warning) for warning in config.warnings)


async def lanes_of_a_taken_flow(stage: Stage) -> tuple[LaneName, ...]:
    """Take the flow, find its topics, compare their configs."""
    holder = StateHolder(deployment_id="test", instance_id="i", mirror="m", version="v", where="here")
    state, topics = StateService(stage.config, stage.flow, holder), TopicService(stage.config, stage.flow)
    try:
        await state.open()
        await topics.open()
        lanes = (await topics.step()).lanes
    finally:
        await topics.close()
        await state.close()
    async with config_sync(stage.config, stage.flow, "test") as sync:
        assert not (await sync.compare(Scope(acls=False))).unread
    return lanes


async def copied_offset(stage: Stage, number: int) -> int:
    """Return where the copy of a record of partition 0 lies: behind a marker, so not where the record does."""
    offsets = [one.offset async for one in read_whole(stage.cluster, "a.orders", [0], committed=True)]
    return int(offsets[number])


@pytest.mark.parametrize("how", ["refuses", "swallows"])
async def test_only_what_a_broker_leads_waits_for_it(stage: Stage, how: str) -> None:
    inside = cluster_client("x", stage.cluster.bootstrap_servers)
    await inside.open()
    try:
        await one_broker_away(stage, KafkaGroups(inside), how)
    finally:
        await inside.close()


async def one_broker_away(stage: Stage, port: KafkaGroups, how: str) -> None:
    groups = {f"g{number}" for number in range(12)}
    for group in groups:
        assert await port.commit(group, {TopicPartition("orders", 0): (COMMITTED, "")}) == {}
    waiting_groups = await coordinated_by_3(stage, groups, 0)
    assert waiting_groups
    assert waiting_groups < groups
    ids = {f"raymirror.a->b.orders-{number}": number for number in range(PARTITIONS)}
    led = {number for number in range(PARTITIONS) if AWAY in (number % 3 + 1, (number // 3) % 3 + 1)}
    waiting = led | {ids[key] for key in await coordinated_by_3(stage, ids, 1)}
    free = set(range(PARTITIONS)) - waiting
    assert 0 in free, "groups commit in partition 0"
    stage.break_(how)

    await assert_named_by_check(stage)
    lanes = await lanes_of_a_taken_flow(stage)
    assert len(lanes) == PARTITIONS
    async with grouping(stage, port) as mirrored, copying(stage, lanes) as copied:
        await copied.until_copied(free)
        await until(
            lambda: all("broker 3" in copied.lanes[number].reason for number in led),
            lambda: {number: one.reason for number, one in copied.lanes.items()},
        )
        offset = await copied_offset(stage, COMMITTED)
        await mirrored.until_stored(groups - waiting_groups, offset)
        await until(mirrored.told, lambda: mirrored.report)
        assert {event.group for event in mirrored.told()} <= {f"broker 3 of cluster {name!r}" for name in "ab"}
        assert "broker 3 of cluster 'a'" in mirrored.report.away
        assert not mirrored.report.failing, mirrored.report
        assert not mirrored.report.trouble
        assert all(copied.lanes[number].source_next < EACH for number in waiting), copied.lanes

        stage.mend()
        await copied.until_copied(range(PARTITIONS))
        await mirrored.until_stored(groups, offset)
        await until(lambda: not mirrored.report.away, lambda: mirrored.report)
    assert await assert_identical(stage.cluster, stage.cluster, "orders", "a.orders") == PARTITIONS * EACH


@asynccontextmanager
async def keeping(file: Path, name: str) -> AsyncIterator[StateService]:
    """Give the state of the flow as a mirror of that name keeps it, not yet opened."""
    config = load_config(file)
    holder = StateHolder(deployment_id=f"d-{name}", instance_id=name, mirror=name, version="v", where=f"host-{name}")
    keeper = StateService(config, config.flows[0], holder)
    try:
        yield keeper
    finally:
        await keeper.close(release=False)


@pytest.mark.parametrize("stage", [AWAY], indirect=True)
async def test_a_flow_whose_state_is_led_by_that_broker_is_its_mirrors_until_another_comes(stage: Stage) -> None:
    """Copiers get no lease any more when it was not sure for 20 s whose the flow is; another may take it after 30 s."""
    async with keeping(stage.file, "one") as owner, keeping(stage.beside, "two") as other:
        await owner.open()
        running = asyncio.create_task(owner.run())
        stage.break_("swallows")
        await until(lambda: "not done within 30 s" in owner.trouble, lambda: owner.trouble)
        assert owner.unrenewed_s < UNSURE_S, "followers were not asked"

        await other.open()  # it reaches the leader, sees no renewal, and has said before that it waits
        assert owner.unrenewed_s > UNSURE_S + LEASE_S, "two mirrors were sure that the flow is theirs"
        stage.mend()
        await asyncio.wait([running], timeout=DEADLINE_S)
        assert isinstance(running.exception(), StateTaken)
