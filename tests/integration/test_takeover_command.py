"""`raymirror takeover --check` with real MM2 and the real start, and what is refused while MM2 runs."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.demo.topics import topic_names
from engine.base.errors import ConnectionLost
from engine.config.config import load_config
from engine.core.events.events import Mm2Active, Resumed
from engine.services.topic_service import TopicService
from tests.conftest import Pair
from tests.harness.compare import read_topic
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.mm2 import Mm2, mm2_properties
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

TOPIC = "in-place"
PARTITIONS = 2
DEADLINE_S = 180.0
MORE = {"b.offset.flush.interval.ms": "3000", "tasks.max": "1", "emit.heartbeats.enabled": "false"}


class Scene:
    """A topic that MM2 copies, and the command line beside it."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.mirror = Mirror(
            *pair, alias=TOPIC, positions_partitions=25, flush_s=3600.0, unsynced_s=3600.0, epoch_s=3600.0
        )
        self.mirror.lanes = lanes_of(TOPIC, self.mirror.copied(TOPIC), PARTITIONS)
        self.folder, self.shell, self.sent = folder, Shell(folder), 0
        self.config = str(folder / "1" / "mm2.properties")

    def mm2(self, name: str) -> Mm2:
        """Start it."""
        return Mm2(self.folder / name, mm2_properties(self.mirror, TOPIC, MORE))

    async def send(self, records: int) -> None:
        """Append so many to every partition, in small batches."""
        async with producer(self.mirror.source) as client:
            for _ in range(0, records, 100):
                for one in range(PARTITIONS):
                    await append(client, TOPIC, one, numbered(100, first=self.sent))
                self.sent += 100

    async def copied(self, mm2: Mm2, records: int) -> None:
        """Wait until MM2 has so many in every partition."""
        async with asyncio.timeout(DEADLINE_S), self.mirror.asking_target() as target:
            names = [lane.target for lane in self.mirror.lanes]
            while True:
                mm2.assert_running()
                try:
                    if len(await target.leaders(names)) == len(names):
                        ends = await target.offsets(names, -1)
                        if min(ends.values()) >= records:
                            return
                except ConnectionLost:  # a topic that was just created
                    pass
                await asyncio.sleep(0.05)

    async def repeated(self, mm2: Mm2, counts: Mapping[int, int]) -> dict[int, list[bytes | None]]:
        """Wait until MM2 has copied all, and so many again in each partition; return the keys that are there then.

        Counted record by record: the copy has markers of ours too, which take offsets.
        """
        async with asyncio.timeout(DEADLINE_S):
            while True:
                mm2.assert_running()
                found = await read_topic(self.mirror.target, self.mirror.copied(TOPIC))
                if all(len(found[one]) >= self.sent + count for one, count in counts.items()):
                    return {one: [record.key for record in records] for one, records in found.items()}
                await asyncio.sleep(0.2)

    async def settled(self, mm2: Mm2) -> None:
        """Wait until MM2 has made the last of its topics: the one for checkpoints, when that connector has started."""
        async with asyncio.timeout(DEADLINE_S):
            while f"{TOPIC}.checkpoints.internal" not in await topic_names(self.mirror.target_servers):
                mm2.assert_running()
                await asyncio.sleep(0.2)

    async def look(self) -> tuple[int, dict[str, Any]]:
        """Ask `takeover --check`: its exit code and the flow."""
        done = await asyncio.to_thread(self.shell, "takeover", self.config, "--check", "--json")
        assert done.returncode in (0, 1), done.stderr
        (flow,) = json.loads(done.stdout)["flows"]
        return done.returncode, flow

    async def refused(self, command: str) -> str:
        """Ask for a command that is refused; return its one line, having seen that nothing was created."""
        servers = self.mirror.target_servers
        before = await topic_names(servers)
        done = await asyncio.to_thread(self.shell, command, self.config)
        assert done.returncode == 2, done.stderr
        assert await topic_names(servers) == before
        (line,) = [line for line in done.stderr.splitlines() if not line.startswith("warning:")]
        return line

    async def discovered(self) -> list[Mm2Active]:
        """Make the first two rounds of discovery, and the topics we need; return what is said of MM2."""
        config = load_config(Path(self.config))
        keeper = TopicService(config, config.flows[0])
        await keeper.open()
        try:
            events = [*(await keeper.step()).events, *(await keeper.step()).events]
        finally:
            await keeper.close()
        return [event for event in events if isinstance(event, Mm2Active)]

    async def until_gone(self) -> None:
        """Wait until the session of a killed MM2 has timed out."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self.look())[1]["mm2_active"]:  # noqa: ASYNC110 - another process's session ends
                await asyncio.sleep(0.5)


async def test_in_place_and_the_way_back(cluster_pair: Pair, tmp_path: Path) -> None:
    scene = Scene(cluster_pair, tmp_path)
    await scene.mirror.topic_on_source(TOPIC, PARTITIONS)
    mm2 = scene.mm2("1")
    try:
        await scene.send(3000)
        await scene.copied(mm2, 3000)
        await scene.settled(mm2)
        code, flow = await scene.look()
        assert (code, flow["mm2_active"], flow["ready"]) == (1, True, False)
        for command in ("check", "run"):
            line = await scene.refused(command)
            assert f"group '{TOPIC}-mm2' on cluster 'b' has members" in line
            assert "stop MM2" in line
        assert [event.group for event in await scene.discovered()] == [f"{TOPIC}-mm2"]
        await scene.send(1500)
        await scene.copied(mm2, 4000)
    finally:
        await mm2.kill()
    await scene.until_gone()
    # what is said beforehand is what happens
    code, flow = await scene.look()
    assert (code, flow["ready"], flow["exact"]) == (0, True, True), flow
    assert (await asyncio.to_thread(scene.shell, "check", scene.config)).returncode == 0
    async with scene.mirror.run(drain=False) as run:
        await run.until(
            lambda: len({one.lane for one in run.told(Resumed)}) == PARTITIONS, "both lanes are taken over", DEADLINE_S
        )
        told = {(one.lane.partition, one.source_offset, one.tail_records) for one in run.told(Resumed)}
        assert told == {(one["partition"], one["source_next"], one["behind"]) for one in flow["lanes"]}
        await scene.send(700)
        await run.until_copied(deadline_s=DEADLINE_S)
    # and so it is with the way back: ours was cut off with a tail that no position tells of
    code, flow = await scene.look()
    assert (code, flow["writers"], flow["to_copy"]) == (0, {"raymirror": PARTITIONS}, 0), flow
    repeats = {one["partition"]: one["repeats"] for one in flow["lanes"]}
    assert min(repeats.values()) >= 700
    mm2 = scene.mm2("2")
    try:
        keys = await scene.repeated(mm2, repeats)
        for partition, count in repeats.items():
            numbers = keys[partition]
            assert len(set(numbers)) == scene.sent
            assert len(numbers) - scene.sent == count
    finally:
        await mm2.kill()
