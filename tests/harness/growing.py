"""A mirror on a real Ray, of a topic that grows: for tests that disturb its processes."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import pause
from tests.harness.beside import beside
from tests.harness.compare import assert_identical, read_topic
from tests.harness.live import DEADLINE_S, LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_node import RayNode

ROUND_S = 0.2


class GrowingMirror:
    """One flow `<alias>->calm` with one topic of many partitions; create the topic before `submit`."""

    def __init__(
        self,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        ray: RayCluster,
        folder: Path,
        *,
        alias: str,
        partitions: int,
    ) -> None:
        self.source, self.target, self.ray = source, target, ray
        self.alias, self.partitions = alias, partitions
        self.topic, self.copied, self.flow = f"{alias}-topic", f"{alias}.{alias}-topic", f"{alias}->calm"
        self.runs: list[LiveMirror] = []
        self.config = folder / "mm2.properties"
        self._folder = folder
        self._rounds = 0

    @property
    def live(self) -> LiveMirror:
        """The `raymirror run` that was started last."""
        return self.runs[-1]

    def submit(self, *, copiers: int) -> None:
        """`raymirror run` with so many copiers; a mirror that runs already is changed to that."""
        clusters = {self.alias: self.source, "calm": self.target}
        settings = {"raymirror.copiers": str(copiers), "tasks.max": str(copiers)}
        config = write_properties(self.config, clusters, {self.flow: self.topic}, settings)
        self.runs.append(LiveMirror(self._folder, config, env=self.ray.env))

    def close(self) -> None:
        """End every `raymirror run`, the last one first."""
        for live in reversed(self.runs):
            live.close()

    @asynccontextmanager
    async def growing(self) -> AsyncIterator[None]:
        """Append a record to every partition, again and again; at the end, everything is copied and compared."""
        async with producer(self.source) as client, beside(self._grow(client)):
            yield
        await self._until_all_is_there()
        assert await assert_identical(self.source, self.target, self.topic, self.copied) == self.sent

    @property
    def sent(self) -> int:
        """Records in the source."""
        return self._rounds * self.partitions

    async def _grow(self, client: Any) -> None:
        while True:
            everywhere = asyncio.gather(
                *(append(client, self.topic, n, numbered(1, first=self._rounds)) for n in range(self.partitions))
            )
            self._rounds += 1
            await asyncio.shield(everywhere)  # a round that has begun is sent whole
            await pause(ROUND_S)

    async def _until_all_is_there(self) -> None:
        give_up_at = time.monotonic() + DEADLINE_S
        while sum(map(len, (await read_topic(self.target, self.copied)).values())) < self.sent:
            self.live.look()
            assert time.monotonic() < give_up_at, self.live.describe()
            await pause(ROUND_S)

    async def until_grown(self, rounds: int = 10) -> None:
        """Wait until so many records more were appended to every partition."""
        goal = self._rounds + rounds
        while self._rounds < goal:
            await pause(ROUND_S / 4)

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something in the status, while records go on coming."""
        await asyncio.to_thread(self.live.until, holds, what)

    def owners(self) -> dict[str, set[str]]:
        """Say which copier has which sets, as far as the latest status knows."""
        return {one["copier_id"]: set(one["set_ids"]) for one in self.live.status.get("copiers", ())}

    def is_shared_by(self, count: int) -> bool:
        """Whether so many copiers share all partitions, and each of them is copied."""
        if len(self.owners()) != count:
            return False
        flow = self.live.flow(self.flow)
        idle = flow["lane_states"].keys() - {"copying"}
        return all(self.owners().values()) and not flow["unknown_lanes"] and not idle

    async def epochs(self) -> dict[int, int]:
        """Read from the target at which assignment epoch each partition's position was written last."""
        found: dict[int, int] = {}
        for records in (await read_topic(self.target, f"mm2-offsets.{self.alias}.internal")).values():
            for one in records:
                partition = json.loads(one.key or b"")[1]["partition"]
                found[partition] = max(found.get(partition, 0), json.loads(one.value or b"")["assignment_epoch"])
        return found

    async def all_epochs(self) -> dict[int, int]:
        """Read them once there is one of each partition: a lane that is copied writes its first position beside."""
        give_up_at = time.monotonic() + DEADLINE_S
        while len(found := await self.epochs()) < self.partitions:
            self.live.look()
            assert time.monotonic() < give_up_at, self.live.describe()
            await pause(ROUND_S)
        return found

    async def partitions_of(self, set_ids: set[str]) -> set[int]:
        """Ask `raymirror status` in a process of its own which partitions some sets have."""
        command = [sys.executable, "-m", "actors", "status", "--json"]
        asked = asyncio.to_thread(subprocess.run, command, env=self.live.env, capture_output=True, check=True)
        lanes = json.loads((await asked).stdout)["lanes"]
        return {lane["lane"][1] for lane in lanes if lane["set_id"] in set_ids}

    def processes(self, shell: str) -> list[psutil.Process]:
        """Find the processes of an actor class, on all nodes."""
        return [one for node in self.ray.nodes for one in actors_on(node, shell)]


def actors_on(node: RayNode, shell: str) -> list[psutil.Process]:
    """Find the processes of an actor class on a node."""
    return [one for one in node.workers() if "".join(one.cmdline()).startswith(f"ray::{shell}")]
