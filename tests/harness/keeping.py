"""The group keeper of a mirror in the test's own process, and the groups' data on both clusters."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from engine.base.clock import now_s
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import MirrorConfig
from engine.core.mm2.mm2_records import Checkpoint, decode_checkpoint
from engine.core.reports.group_report import GroupsReport
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.group_service import GroupService
from tests.harness.mirror import Mirror, cluster_client

POLLED = "raymirror.groups.on.commit = false"
"""Every turn of the keeper is a round over all groups: `rounds` then says that all was looked at."""
DEADLINE_S = 180.0


def config_of(mirror: Mirror, *lines: str) -> MirrorConfig:
    """Configure a mirror's flow, rounds every second."""
    alias = mirror.flow.source
    text = [
        f"clusters = {alias}, b",
        f"{alias}.bootstrap.servers = {mirror.source_servers}",
        f"b.bootstrap.servers = {mirror.target_servers}",
        f"{alias}->b.enabled = true",
        f"groups = {alias}.*",
        f"offset.storage.partitions = {mirror.options.positions_partitions}",
        "offset.storage.replication.factor = 1",
        "checkpoints.topic.replication.factor = 1",
        "sync.group.offsets.enabled = true",
        "sync.group.offsets.interval.seconds = 1",
        "emit.checkpoints.interval.seconds = 1",
        "refresh.groups.interval.seconds = 1",
        *lines,
    ]
    return read_config(parse_properties("\n".join([*text, ""]), "mm2.properties"))


@asynccontextmanager
async def keeping(mirror: Mirror, *lines: str) -> AsyncIterator[GroupService]:
    """Run the group keeper of a mirror's flow."""
    config = config_of(mirror, *lines)
    keeper = GroupService(config, config.flows[0])
    task = asyncio.create_task(keeper.run())
    try:
        yield keeper
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await keeper.close()


async def until(holds: Callable[[], Any], what: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait until something holds."""
    give_up_at = now_s() + deadline_s
    while True:
        found = holds()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        assert now_s() < give_up_at, what()
        await asyncio.sleep(0.05)


async def rounds(keeper: GroupService, count: int = 2) -> GroupsReport:
    """Wait for whole rounds that began after this call."""
    seen: set[int] = set()

    def enough() -> bool:
        seen.add(keeper.report.at_ms)
        return len(seen) > count

    await until(enough, lambda: keeper.report)
    return keeper.report


class Sides:
    """Groups of both clusters, and the checkpoints."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._clients = [cluster_client("a", mirror.source_servers), cluster_client("b", mirror.target_servers)]
        self.source, self.target = (KafkaGroups(client) for client in self._clients)

    async def __aenter__(self) -> Self:
        for client in self._clients:
            await client.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        for client in self._clients:
            await client.close()

    async def stored(self, group: str) -> dict[int, int]:
        """Return what the target has for a group, by partition."""
        (offsets,) = (await self.target.offsets([group])).found.values()
        return {where.partition: offset for where, (offset, _) in offsets.items()}

    async def checkpoints(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the last checkpoint of each group and partition: offsets on both sides."""
        topic = f"{self._mirror.flow.source}.checkpoints.internal"
        records = await KafkaCluster(self._clients[1]).read_records(topic)
        found: list[Checkpoint] = [decode_checkpoint(*record) for record in records]
        return {(one.group, one.partition): (one.source_offset, one.target_offset) for one in found}


async def until_moved(sides: Sides, group: str) -> dict[int, int]:
    """Wait until the group's last checkpoints are of what it has committed on the source, and the target has them.

    Returns what it has committed there, which may be nothing. That is asked for each time: a commit may lie in the
    broker's queue when whoever made it is gone already.
    """

    async def committed() -> dict[int, int]:
        offsets = (await sides.source.offsets([group])).found[group]
        return {where.partition: offset for where, (offset, _) in offsets.items()}

    wanted: dict[int, int] = {}

    async def moved() -> bool:
        nonlocal wanted
        told, wanted = await sides.checkpoints(), await committed()
        found = {partition: told.get((group, partition), (-1, -1)) for partition in wanted}
        at = {partition: one[0] for partition, one in found.items()}
        return at == wanted and await sides.stored(group) == {n: one[1] for n, one in found.items()}

    await until(moved, lambda: (group, wanted))
    return wanted
