"""A real Connect 4.3.1 with MM2's three connectors, and raymirror beside it: the same requests, the same answers."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.connect import ConnectWorker, connector_of
from tests.harness.groups import commit
from tests.harness.load import append, numbered, producer
from tests.harness.mirror import Mirror
from tests.harness.rest_contract import (
    CHECKPOINT,
    MEANT,
    PAUSE,
    RESUME,
    RESUME_GROUPS,
    RUNNING,
    SOURCE,
    STOP,
    STOP_GROUPS,
    ContractRow,
    RestServer,
    reading,
)
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC, RECORDS = "rest-a", 100
DEADLINE_S = 300.0
KINDS = ("Source", "Checkpoint", "Heartbeat")
THEIRS, OURS = "theirs->b", "ours->b"
ALL = ContractRow("all", "GET", "/connectors?expand=status")
GROUPS = ContractRow("groups", "GET", f"/connectors/{CHECKPOINT}/status")


class BothServers:
    """Connect and raymirror, each with a flow of the same topic."""

    def __init__(self, theirs: RestServer, ours: RestServer) -> None:
        self.theirs, self.ours = theirs, ours

    def until(self, holds: Callable[[RestServer], Any], what: str) -> None:
        """Wait until something holds of both."""
        give_up_at = time.monotonic() + DEADLINE_S
        for server in (self.theirs, self.ours):
            while not _is_so(server, holds):
                late = time.monotonic() > give_up_at
                assert not late, f"{server.flow}: not within {DEADLINE_S:.0f} s: {what}; {server.send(ALL).body}"
                time.sleep(0.2)

    def until_state(self, state: str, *counts: int) -> None:
        """Wait until the source connectors and their tasks have a state, and there are so many tasks."""

        def holds(server: RestServer) -> bool:
            reply = server.send(ContractRow("state", "GET", f"/connectors/{SOURCE}/status"))
            if reply.status != 200:
                return False
            states = [one["state"] for one in reply.body["tasks"]]
            are_so = reply.body["connector"]["state"] == state and set(states) <= {state}
            return are_so and len(states) in counts

        self.until(holds, f"{state} with {counts} tasks")

    def compare(self, rows: list[ContractRow]) -> None:
        """Send requests to both; fail with each answer that differs and is not meant to, or the other way round."""
        found = []
        for row in rows:
            theirs, ours = self.theirs.compared(row), self.ours.compared(row)
            if (theirs != ours) is not (row.name in MEANT):
                found += [row.name, f"  Connect:   {json.dumps(theirs)}", f"  raymirror: {json.dumps(ours)}"]
        assert not found, "\n".join(["", *found])


@pytest.fixture(scope="module")
def both(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothServers]:
    folder = tmp_path_factory.mktemp("rest")
    mirror = Mirror(*cluster_pair, THEIRS.partition("->")[0])
    asyncio.run(_prepare(cluster_pair.source))
    (port,) = pick_ports(1)
    settings = {"raymirror.http.port": str(port), "emit.heartbeats.enabled": "true"}
    config = write_config(folder, *cluster_pair, TOPIC, settings)
    config.write_text(config.read_text().replace("source", "ours").replace("target", "b"))
    shell = Shell(folder)
    process: subprocess.Popen[bytes] = shell.start("run", str(config))
    worker = ConnectWorker(folder / "worker", mirror, group="rest-workers", positions_topic="rest-offsets")
    try:
        asyncio.run(_submit(worker, mirror))
        servers = BothServers(RestServer(worker.port, str(mirror.flow)), RestServer(port, OURS))
        servers.until_state("RUNNING", 1)
        servers.until(_has_offsets, "positions are stored")
        servers.until(_has_checkpoints, "checkpoints are written")
        yield servers
    finally:
        process.terminate()
        process.wait(120)
        asyncio.run(worker.kill())


def _is_so(server: RestServer, holds: Callable[[RestServer], Any]) -> bool:
    """Whether something holds of a server; not while it does not listen yet."""
    try:
        return bool(holds(server))
    except ConnectionRefusedError:
        return False


async def _prepare(source: EmbeddedCluster) -> None:
    await create_topics(source, {TOPIC: 1}, replicas=1)
    async with producer(source) as client:
        await append(client, TOPIC, 0, numbered(RECORDS))
    await commit(source, "rest-group", TOPIC, {0: RECORDS})


async def _submit(worker: ConnectWorker, mirror: Mirror) -> None:
    for kind in KINDS:
        await worker.submit(f"{mirror.flow}.Mirror{kind}Connector", connector_of(kind, mirror, TOPIC))


def _has_offsets(server: RestServer) -> bool:
    reply = server.send(ContractRow("offsets", "GET", f"/connectors/{SOURCE}/offsets"))
    return reply.status == 200 and bool(reply.body["offsets"])


def _has_checkpoints(server: RestServer) -> bool:
    one = f"/connectors/{CHECKPOINT}"
    topics = server.send(ContractRow("topics", "GET", f"{one}/topics"))
    offsets = server.send(ContractRow("offsets", "GET", f"{one}/offsets"))
    has_offsets = offsets.status == 200 and (bool(offsets.body["offsets"]) or server.flow != THEIRS)
    return topics.status == 200 and all(names["topics"] for names in topics.body.values()) and has_offsets


def test_a_running_mirror_answers_as_connect_does(both: BothServers) -> None:
    both.compare(RUNNING)


def test_offsets_are_equal(both: BothServers) -> None:
    row = ContractRow("offsets", "GET", f"/connectors/{SOURCE}/offsets")

    def is_whole(server: RestServer) -> bool:
        alias = server.flow.partition("->")[0]
        partition = {"cluster": alias, "partition": 0, "topic": TOPIC}
        reply = server.send(row)
        wanted = {"partition": partition, "offset": {"offset": RECORDS - 1}}
        return reply.status == 200 and wanted in reply.body["offsets"]

    both.until(is_whole, "the offset of the last record is stored")


def test_paused_stopped_and_running_again(both: BothServers) -> None:
    both.until_state("RUNNING", 1)
    both.compare([PAUSE])
    both.until_state("PAUSED", 1)
    both.compare(reading("paused"))
    both.compare([PAUSE, RESUME])
    both.until_state("RUNNING", 1)
    both.compare([STOP])
    both.until_state("STOPPED", 0)
    both.compare([STOP_GROUPS])
    both.until(lambda server: server.send(GROUPS).body["connector"]["state"] == "STOPPED", "groups are stopped")
    both.compare([*reading("stopped"), STOP, PAUSE])
    both.until_state("PAUSED", 0, 1)  # Connect makes no tasks for it before it runs again; raymirror starts a copier
    both.compare([RESUME, RESUME_GROUPS])
    both.until_state("RUNNING", 1)
