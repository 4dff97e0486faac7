"""A running mirror of groups: its checkpoints and commits compared with the records on both sides."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiokafka.errors import KafkaError

from deploy.local.cluster import EmbeddedCluster
from engine.core.mm2.mm2_records import Checkpoint
from tests.harness.admin import admin
from tests.harness.live import DEADLINE_S, LiveMirror, write_properties
from tests.harness.places import every_checkpoint, read_places, same_place
from tests.harness.ray_cluster import RayCluster

EVERY_SECOND = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}
_POLL_S = 0.2


class GroupMirror:
    """Flows between clusters by alias; `start` and `end` as often as a test likes, each time a `raymirror run`."""

    def __init__(
        self,
        clusters: Mapping[str, EmbeddedCluster],
        flows: Mapping[str, str],
        settings: Mapping[str, str],
        ray: RayCluster,
        folder: Path,
    ) -> None:
        self.clusters, self._ray, self._folder = clusters, ray, folder
        self._config = write_properties(folder / "mm2.properties", clusters, flows, {**EVERY_SECOND, **settings})
        self.live: LiveMirror | None = None

    def start(self) -> None:
        """`raymirror run`."""
        self.live = LiveMirror(self._folder, self._config, env=self._ray.env)

    def end(self) -> None:
        """Let it drain."""
        assert self.live is not None
        self.live.end()

    def close(self) -> None:
        """End it, in order or not."""
        if self.live is not None:
            self.live.close()

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Ask until the answer is yes, and give it; fails with how the mirror stands."""
        assert self.live is not None
        give_up_at = time.monotonic() + DEADLINE_S
        while not (found := await _asked(holds)):
            self.live.look()
            assert self.live.process.poll() is None, f"ended before: {what}\n{self.live.describe()}"
            assert time.monotonic() < give_up_at, f"not within {DEADLINE_S:.0f} s: {what}\n{self.live.describe()}"
            await asyncio.sleep(_POLL_S)
        return found

    async def until_copied(self, flow: str, topic: str, copied: str, count: int) -> None:
        """Wait until the copy of a topic has so many committed records."""
        target = self.clusters[flow.split("->")[1]]

        async def there() -> bool:
            async with admin(target) as client:
                if copied not in await client.list_topics():
                    return False
            return sum(map(len, (await read_places(target, copied)).values())) >= count

        await self.until(there, f"{count} records of {topic} in {copied}")

    async def stored(self, alias: str, group: str, topic: str) -> dict[int, int]:
        """Ask a cluster for what a group has committed in a topic, by partition."""
        async with admin(self.clusters[alias]) as client:
            found = await client.list_consumer_group_offsets(group)
        return {where.partition: one.offset for where, one in found.items() if where.topic == topic and one.offset >= 0}

    async def until_equal(self, flow: str, group: str, topic: str, copied: str) -> dict[int, int]:
        """Wait until a group stands at the same record on both sides, everywhere; give its offsets on the target."""
        source, target = flow.split("->")
        log, here = await read_places(self.clusters[source], topic), await self.stored(source, group, topic)
        assert here, f"{group} has committed nothing in {topic}"

        async def equal() -> dict[int, int]:
            there = await self.stored(target, group, copied)
            if there.keys() != here.keys():
                return {}
            copy = await read_places(self.clusters[target], copied)  # each time: it may not have been whole before
            return there if all(same_place(log[at], here[at], copy[at], there[at]) for at in here) else {}

        found: dict[int, int] = await self.until(equal, f"{group} stands where it stands on the source: {here}")
        return found

    async def checkpoints(self, flow: str, group: str, copied: str) -> list[Checkpoint]:
        """Read all checkpoints that were ever told of a group in a topic's copy."""
        source, target = flow.split("->")
        told = await every_checkpoint(self.clusters[target], f"{source}.checkpoints.internal", group)
        return [one for one in told if one.topic == copied]

    async def assert_exact(self, flow: str, group: str, topic: str, copied: str) -> list[Checkpoint]:
        """Every checkpoint that was ever told of a group means the same record on both sides; gives them."""
        source, target = flow.split("->")
        logs = await read_places(self.clusters[source], topic), await read_places(self.clusters[target], copied)
        told = await self.checkpoints(flow, group, copied)
        assert told
        for one in told:
            at = one.partition
            assert same_place(logs[0][at], one.source_offset, logs[1][at], one.target_offset), one
        return told


async def _asked(holds: Callable[[], Awaitable[Any]]) -> Any:
    """Ask once; a broker that is not ready for the question yet, as before its first group, has not said yes."""
    try:
        return await holds()
    except KafkaError as error:
        if not error.retriable:
            raise
        return None


def rises(told: list[Checkpoint]) -> bool:
    """Whether no checkpoint of a partition lies below an earlier one, on either side."""
    last: dict[int, tuple[int, int]] = {}
    for one in told:
        before = last.get(one.partition, (0, 0))
        if one.source_offset < before[0] or one.target_offset < before[1]:
            return False
        last[one.partition] = one.source_offset, one.target_offset
    return True
