"""Each right of a running mirror is taken away and given back: a named error, other flows go on, it recovers by itself.

One mirror with two flows on two secured clusters; the rights of the first flow are taken one by one. `USES` says for
each right what makes the mirror use it. A right that only a start uses, or whose lack costs nothing that could be seen,
is in `UNSEEN`, with the reason; `test_grants_at_start.py` takes these.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from aiokafka.admin import NewPartitions

from engine.checks.grants import needed_grants
from engine.config.config import load_config
from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import IMPLIED, ResourceKind, operation_name
from policies.model import FlowName
from policies.sync.acl_sync import Operation
from tests.harness import groups as stock
from tests.harness.admin import admin, create_topics, partition_count, set_configs
from tests.harness.grants import GrantDesk, denied
from tests.harness.group_mirror import GroupMirror
from tests.harness.load import numbered, produce
from tests.harness.ray_cluster import RayCluster
from tests.harness.secured import NAME
from tests.harness.shell import Shell
from tests.harness.spark_nodes import processes_on
from tests.integration.test_grants import COPIED, FLOW, GROUP, TOPIC, Pair, running_grants, secured_pair

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full, pytest.mark.fault]

BACK, BACK_COPY = "back", "right.back"
MORE = {
    "right->left.enabled": "true",
    "right->left.topics": BACK,
    "right->left.emit.checkpoints.enabled": "false",
    "right->left.sync.group.offsets.enabled": "false",
    "right->left.sync.topic.configs.enabled": "false",
    "right->left.raymirror.groups.on.commit": "false",
    "heartbeats.replication.enabled": "false",
    "sync.topic.acls.enabled": "false",  # it would give back what is taken away: rights on topics are mirrored
    "topics": f"{TOPIC}, clicks.*",
}
Key = tuple[str, str, Operation]
"""Cluster, name of the resource, operation."""


class Live:
    """The running mirror, and the ways to make it use a right."""

    def __init__(self, pair: Pair, mirror: GroupMirror, ray: RayCluster, folder: Path) -> None:
        self.mirror, self._ray, self._shell = mirror, ray, Shell(folder, ray.env)
        self.left, self.right = pair.clusters["left"], pair.clusters["right"]
        self.records = self.back = 0
        self._count = 0

    async def append(self) -> None:
        """Append records to a topic of the flow."""
        await produce(self.left, TOPIC, 0, numbered(10, first=self.records))
        self.records += 10

    async def new_topic(self) -> None:
        """Make a topic that the flow copies."""
        self._count += 1
        await create_topics(self.left, {f"clicks-{self._count}": 1})

    async def grow(self) -> None:
        """Give the flow's topics a partition more."""
        async with admin(self.left) as client:
            for topic in (TOPIC, "clicks-0"):
                await client.create_partitions({topic: NewPartitions(await partition_count(self.left, topic) + 1)})

    async def change_configs(self) -> None:
        """Change a config of the flow's topics."""
        self._count += 1
        for topic in (TOPIC, "clicks-0"):
            await set_configs(self.left, topic, {"retention.ms": str(100_000_000 + self._count)})

    async def commit(self) -> None:
        """Let the group move on."""
        await self.append()
        await stock.commit(self.left, GROUP, TOPIC, {0: self.records})

    async def restart(self) -> None:
        """Replace the copiers of the flow: each partition gets a new owner."""
        await self.append()
        done = await asyncio.to_thread(self._shell, "restart", FLOW)
        assert done.returncode == 0, done.stderr

    async def lose_copiers(self) -> None:
        """Kill the copiers: each partition gets a new owner, which must fence the old one."""
        for process in processes_on(self._ray.head, "ray::CopierActor"):
            process.kill()

    async def nothing(self) -> None:
        """The mirror uses the right by itself."""

    async def until_other_flow_goes_on(self) -> None:
        """Append to the other flow's topic, and wait for its copy."""
        await produce(self.right, BACK, 0, numbered(5, first=self.back))
        self.back += 5
        await self.mirror.until_copied("right->left", BACK, BACK_COPY, self.back)

    def says(self, wanted: Callable[[str], bool]) -> bool:
        """Whether an event or the status says it."""
        assert self.mirror.live is not None
        status = self.mirror.live.look()
        now = json.dumps({key: value for key, value in status.items() if key != "events"})
        return wanted(now) or any(wanted(text) for _, text in self.mirror.live.events)

    def complains(self) -> bool:
        """Whether the status still names a missing right."""
        assert self.mirror.live is not None
        status = self.mirror.live.look()
        return "AuthorizationFailed" in json.dumps({key: value for key, value in status.items() if key != "events"})


Stimulus = Callable[[Live], Awaitable[None]]
SYNCS, OFFSETS = "mm2-offset-syncs.left.internal", "mm2-offsets.left.internal"
USES: dict[Key, Stimulus] = {
    ("left", TOPIC, Operation.READ): Live.append,
    ("left", TOPIC, Operation.DESCRIBE_CONFIGS): Live.change_configs,
    ("left", "clicks", Operation.DESCRIBE_CONFIGS): Live.change_configs,
    ("left", GROUP, Operation.DESCRIBE): Live.commit,
    ("left", "__consumer_offsets", Operation.READ): Live.commit,
    ("right", COPIED, Operation.READ): Live.commit,
    ("right", COPIED, Operation.WRITE): Live.append,
    ("right", COPIED, Operation.ALTER): Live.grow,
    ("right", COPIED, Operation.ALTER_CONFIGS): Live.change_configs,
    ("right", "left.clicks", Operation.CREATE): Live.new_topic,
    ("right", "left.clicks", Operation.ALTER): Live.grow,
    ("right", "left.clicks", Operation.ALTER_CONFIGS): Live.change_configs,
    ("right", "left.checkpoints.internal", Operation.WRITE): Live.commit,
    ("right", "heartbeats", Operation.WRITE): Live.nothing,
    ("right", SYNCS, Operation.WRITE): Live.append,
    ("right", OFFSETS, Operation.READ): Live.restart,
    ("right", OFFSETS, Operation.WRITE): Live.append,
    ("right", "raymirror-map.left.internal", Operation.WRITE): Live.lose_copiers,
    ("right", "raymirror-state.left.internal", Operation.WRITE): Live.nothing,
    ("right", GROUP, Operation.READ): Live.commit,
    ("right", "raymirror.left->right.", Operation.WRITE): Live.lose_copiers,
}
_STARTS = "only a start uses it"
_EXISTS = "the topic is there"
UNSEEN: dict[Key, str] = {
    ("left", "clicks", Operation.READ): "as for the topic with a name of its own",
    ("left", "kafka-cluster", Operation.DESCRIBE): "only `check` uses it",
    ("left", "kafka-cluster", Operation.DESCRIBE_CONFIGS): "only `check` uses it",
    ("right", COPIED, Operation.CREATE): _EXISTS,
    ("right", "left.clicks", Operation.READ): "as for the topic with a name of its own",
    ("right", "left.clicks", Operation.WRITE): "as for the topic with a name of its own",
    ("right", "left.checkpoints.internal", Operation.READ): _STARTS,
    ("right", "left.checkpoints.internal", Operation.CREATE): _EXISTS,
    ("right", "heartbeats", Operation.CREATE): _EXISTS,
    ("right", SYNCS, Operation.READ): "offsets of records that raymirror copied are translated by its own map",
    ("right", SYNCS, Operation.CREATE): _EXISTS,
    ("right", OFFSETS, Operation.CREATE): _EXISTS,
    ("right", OFFSETS, Operation.DESCRIBE_CONFIGS): _STARTS,
    ("right", "raymirror-map.left.internal", Operation.READ): "blocks that this mirror wrote are in its memory",
    ("right", "raymirror-map.left.internal", Operation.CREATE): _EXISTS,
    ("right", "raymirror-map.left.internal", Operation.DESCRIBE_CONFIGS): _STARTS,
    ("right", "raymirror-state.left.internal", Operation.READ): _STARTS,
    ("right", "raymirror-state.left.internal", Operation.CREATE): _EXISTS,
    ("right", "raymirror-state.left.internal", Operation.DESCRIBE_CONFIGS): _STARTS,
    ("right", "raymirror-events.left.internal", Operation.READ): _STARTS,
    ("right", "raymirror-events.left.internal", Operation.WRITE): "an event about events could not be kept either",
    ("right", "raymirror-events.left.internal", Operation.CREATE): _EXISTS,
    ("right", "raymirror-events.left.internal", Operation.DESCRIBE_CONFIGS): _STARTS,
    ("right", "__consumer_offsets", Operation.DESCRIBE): _STARTS,
    ("right", "left-mm2", Operation.DESCRIBE): _STARTS,
    ("right", "kafka-cluster", Operation.DESCRIBE): "only `check` uses it",
    ("right", "kafka-cluster", Operation.DESCRIBE_CONFIGS): "the answer of the start is kept",
}


def key_of(grant: Grant) -> Key:
    return grant.cluster, grant.name.name, grant.operation


def named(grant: Grant, text: str) -> bool:
    """Whether a text names the missing right: principal, operation (or one that it includes), resource, cluster."""
    operations = {grant.operation, *(one for one, by in IMPLIED.items() if grant.operation in by)}
    resource = "" if grant.kind is ResourceKind.CLUSTER else f" on {grant.kind.value} {grant.name.name}"
    to = f" on cluster '{grant.cluster}' to User:{NAME}"
    return to in text and any(f"grant {operation_name(one)}{resource}" in text for one in operations)


async def test_each_right_that_is_taken_away_is_named_and_comes_back_by_itself(
    shared_ray: RayCluster, tmp_path: Path
) -> None:
    async with secured_pair(tmp_path) as pair:
        left, right = pair.clusters["left"], pair.clusters["right"]
        await create_topics(left, {TOPIC: 1, "clicks-0": 1})
        await create_topics(right, {BACK: 1})
        mirror = pair.mirror(f"{TOPIC}, clicks.*", shared_ray, tmp_path, MORE)
        config = tmp_path / "mm2.properties"
        await pair.give(running_grants(config))
        found = load_config(config)
        one_flow = msgspec.structs.replace(found, flows=(found.flow(FlowName("left", "right")),))
        grants = {key_of(one): one for one in needed_grants(one_flow) if one.need is not GrantNeed.COMMAND}
        seen = {key for key in grants if key in USES}
        assert seen == USES.keys()
        assert grants.keys() - seen <= UNSEEN.keys(), "say in USES or UNSEEN what a new right is for"
        live = Live(pair, mirror, shared_ray, tmp_path)
        try:
            mirror.start()
            await live.commit()
            await mirror.until_copied(FLOW, TOPIC, COPIED, live.records)
            await mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)
            for key in USES:
                await _take_and_give_back(live, pair.desks[key[0]], grants[key])
            mirror.end()
            assert denied([left, right])  # so a test that finds none says something
        finally:
            mirror.close()


async def _take_and_give_back(live: Live, desk: GrantDesk, grant: Grant) -> None:
    """Take one right away: it is named, and the other flow goes on. Give it back: the flow has all again."""
    mirror = live.mirror
    assert mirror.live is not None
    mirror.live.events.clear()
    await desk.take([grant])
    try:
        await USES[key_of(grant)](live)

        async def is_named() -> bool:
            return live.says(lambda text: named(grant, text))

        await mirror.until(is_named, f"the missing right is named: {key_of(grant)}")
        await live.until_other_flow_goes_on()
    finally:
        await desk.give([grant])
    await live.commit()
    await mirror.until_copied(FLOW, TOPIC, COPIED, live.records)
    await mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)

    async def is_well() -> bool:
        return not live.complains()

    await mirror.until(is_well, f"nothing is missing any more: {key_of(grant)}")
