"""Takeover of MM2 that runs as a connector of a Connect cluster, and back: positions under the connector's name.

`raymirror convert` finds name and topic of the positions in what Connect's REST shows.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from actors.demo.topics import topic_names
from engine.base.errors import ConnectionLost
from engine.config.config import load_config
from engine.core.events.events import Resumed
from engine.core.position.position import ForeignPosition, decode_value
from engine.services.runner import options_for
from engine.services.topic_service import TopicService
from tests.conftest import Pair
from tests.harness.compare import read_topic
from tests.harness.connect import ConnectWorker, source_connector
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.shell import Shell

pytestmark = pytest.mark.integration

TOPIC = "in-connect"
POSITIONS, GROUP, CONNECTOR = "in-connect-offsets", "in-connect-workers", "dr-copy"
PARTITIONS, RECORDS = 2, 1000
DEADLINE_S = 240.0


class Scene:
    """A topic that a connector copies, and raymirror beside it."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.mirror = Mirror(*pair, TOPIC, positions_topic=POSITIONS, connector=CONNECTOR, positions_partitions=25)
        self.mirror.lanes = lanes_of(TOPIC, self.mirror.copied(TOPIC), PARTITIONS)
        self.folder, self.shell, self.sent = folder, Shell(folder), 0

    def file(self, *more: str) -> str:
        """Write a configuration of ours beside the connector's."""
        mirror = self.mirror
        lines = (
            f"clusters = {TOPIC}, b",
            f"{TOPIC}.bootstrap.servers = {mirror.source_servers}",
            f"b.bootstrap.servers = {mirror.target_servers}",
            f"{mirror.flow}.enabled = true",
            f"{mirror.flow}.topics = {TOPIC}",
            f"b.group.id = {GROUP}",
            f"offset.storage.topic = {POSITIONS}",
            "replication.factor = 1",
            "offset.storage.replication.factor = 1",
            *more,
        )
        path = self.folder / f"mm2-{len(more)}.properties"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    async def worker(self, name: str) -> ConnectWorker:
        """Start a worker with the connector."""
        worker = ConnectWorker(self.folder / name, self.mirror, group=GROUP, positions_topic=POSITIONS)
        await worker.submit(CONNECTOR, source_connector(self.mirror, TOPIC))
        return worker

    async def send(self) -> None:
        """Append to every partition."""
        async with producer(self.mirror.source) as client:
            for one in range(PARTITIONS):
                await append(client, TOPIC, one, numbered(RECORDS, first=self.sent))
        self.sent += RECORDS

    async def told_by(self, worker: ConnectWorker) -> None:
        """Wait until the connector's positions tell of everything that was sent."""
        keys = self.mirror.options.position_keys
        wanted = {lane.source: ForeignPosition(offset=self.sent - 1) for lane in self.mirror.lanes}
        async with asyncio.timeout(DEADLINE_S), self.mirror.asking_target() as target:
            while True:
                worker.assert_running()
                try:
                    records = await target.read_records(POSITIONS)
                except ConnectionLost:  # a topic that was just created
                    records = []
                found = {lane: decode_value(value) for key, value in records if (lane := keys.decode(key)) is not None}
                if found == wanted:
                    return
                await asyncio.sleep(0.1)

    async def command(self, *words: str) -> tuple[int, str, str]:
        """Run a command: exit code, output, errors."""
        done = await asyncio.to_thread(self.shell, *words)
        return done.returncode, done.stdout, done.stderr

    async def converted(self, worker: ConnectWorker) -> str:
        """Write the configuration that `raymirror convert` makes of the connector and its worker."""
        connectors, path = self.folder / "connectors.json", str(self.folder / "mirror.yaml")
        connectors.write_bytes(await worker.connectors())
        done = await self.command("convert", str(connectors), str(worker.file), "-o", path)
        assert done[0] == 0, done
        return path

    async def until_gone(self, config: str) -> dict[str, Any]:
        """Wait until the worker group's session has timed out; return what `takeover --check` says then."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                _, output, _ = await self.command("takeover", config, "--check", "--json")
                (flow,) = json.loads(output)["flows"]
                if not flow["mm2_active"]:
                    return dict(flow)
                await asyncio.sleep(0.5)


async def test_a_connector_is_taken_over_under_its_name_and_goes_on_from_ours(
    cluster_pair: Pair, tmp_path: Path
) -> None:
    scene = Scene(cluster_pair, tmp_path)
    mirror = scene.mirror
    await mirror.topic_on_source(TOPIC, PARTITIONS)
    await scene.send()
    unnamed, named = scene.file(), scene.file(f"{mirror.flow}.raymirror.connector.name = {CONNECTOR}")
    worker = await scene.worker("1")
    try:
        await scene.told_by(worker)
        code, _, errors = await scene.command("check", named)
        assert code == 2
        assert f"group '{GROUP}' on cluster 'b' has members" in errors
        converted = await scene.converted(worker)
    finally:
        await worker.kill()
    for file in (named, converted):
        flow = await scene.until_gone(file)
        assert (flow["ready"], flow["exact"], flow["to_copy"]) == (True, True, 0), flow
    # without the connector's name its positions are not ours to find: said, and nothing created
    before = await topic_names(mirror.target_servers)
    code, _, errors = await scene.command("check", unnamed)
    assert code == 2
    assert f"set {mirror.flow}.raymirror.connector.name = {CONNECTOR}" in errors
    assert await topic_names(mirror.target_servers) == before
    assert not (await scene.until_gone(unnamed))["ready"]
    # ours goes on under its name
    config = load_config(Path(named))
    keeper = TopicService(config, config.flows[0])
    await keeper.open()
    try:
        await keeper.step()
    finally:
        await keeper.close()
    assert options_for(config.flows[0], "test").position_keys == mirror.options.position_keys
    await scene.send()
    async with mirror.run() as run:
        await run.until(
            lambda: len({one.lane for one in run.told(Resumed)}) == PARTITIONS, "both lanes are taken over", DEADLINE_S
        )
        await run.until_copied(deadline_s=DEADLINE_S)
    # and the connector goes on from ours
    worker = await scene.worker("2")
    try:
        await scene.send()
        await scene.told_by(worker)
    finally:
        await worker.kill()
    copied = await read_topic(mirror.target, mirror.copied(TOPIC))
    assert copied == await read_topic(mirror.source, TOPIC)
    assert {len(records) for records in copied.values()} == {scene.sent}
