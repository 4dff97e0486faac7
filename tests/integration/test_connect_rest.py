"""A real Connect 4.3.1 with MM2's three connectors, and raymirror beside it: the same requests, the same answers."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from tests.conftest import Pair
from tests.harness.admin import admin, create_topics, delete_topic
from tests.harness.compare import read_topic
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
    """Connect and raymirror, each with a flow of the same topic; `config`: raymirror's file."""

    def __init__(self, theirs: RestServer, ours: RestServer, target: EmbeddedCluster, config: Path) -> None:
        self.theirs, self.ours, self.target, self.config = theirs, ours, target, config

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
        theirs = RestServer(worker.port, str(mirror.flow))
        servers = BothServers(theirs, RestServer(port, OURS), cluster_pair.target, config)
        servers.until_state("RUNNING", 1)
        servers.until(_has_offsets, "positions are stored")
        servers.until(_has_checkpoints, "checkpoints are written")
        yield servers
    finally:
        process.terminate()
        process.wait(120)
        asyncio.run(worker.kill())
        asyncio.run(_forget_heartbeats(cluster_pair))


async def _forget_heartbeats(clusters: Pair) -> None:
    """Delete heartbeats and their copies: other tests would find them in these clusters, and copy them."""
    for cluster in clusters:
        async with admin(cluster) as client:
            found = [topic for topic in await client.list_topics() if topic.endswith("heartbeats")]
        for topic in found:
            await delete_topic(cluster, topic)


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


@pytest.mark.full
def test_offsets_are_equal(both: BothServers) -> None:
    row = ContractRow("offsets", "GET", f"/connectors/{SOURCE}/offsets")

    def is_whole(server: RestServer) -> bool:
        alias = server.flow.partition("->")[0]
        partition = {"cluster": alias, "partition": 0, "topic": TOPIC}
        reply = server.send(row)
        wanted = {"partition": partition, "offset": {"offset": RECORDS - 1}}
        return reply.status == 200 and wanted in reply.body["offsets"]

    both.until(is_whole, "the offset of the last record is stored")


@pytest.mark.full
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


PATCH_SETTING = ContractRow("patch", "PATCH", f"/connectors/{SOURCE}/config", {"refresh.topics.interval.seconds": "2"})
REMOVE_SETTING = ContractRow("remove", "PATCH", f"/connectors/{SOURCE}/config", {"sync.topic.acls.enabled": None})
SET_SETTING = ContractRow("set", "PATCH", f"/connectors/{SOURCE}/config", {"sync.topic.acls.enabled": "false"})
INVALID = ContractRow("invalid", "PATCH", f"/connectors/{SOURCE}/config", {"refresh.topics.interval.seconds": "x"})


@pytest.mark.full
def test_settings_are_changed_in_the_file_and_the_mirror_follows(both: BothServers) -> None:
    before = both.config.read_text()
    both.until_state("RUNNING", 1)
    both.compare([INVALID])
    assert both.config.read_text() == before
    both.compare([PATCH_SETTING, SET_SETTING])
    own = {"ours->b.refresh.topics.interval.seconds = 2", "ours->b.sync.topic.acls.enabled = false"}
    assert own <= set(both.config.read_text().splitlines())
    shown = both.ours.send(ContractRow("config", "GET", f"/connectors/{SOURCE}/config")).body
    assert (shown["refresh.topics.interval.seconds"], shown["sync.topic.acls.enabled"]) == ("2", "false")
    both.until_state("RUNNING", 1)
    both.compare([REMOVE_SETTING])
    assert "sync.topic.acls.enabled" not in both.config.read_text()
    same = ContractRow("same", "PUT", f"/connectors/{SOURCE}/config", {**shown, "sync.topic.acls.enabled": "false"})
    assert both.ours.send(same).status == 200
    text = both.config.read_text()
    assert both.ours.send(same).status == 200
    assert both.config.read_text() == text
    both.until_state("RUNNING", 1)


@pytest.mark.full
def test_offsets_are_set_and_removed(both: BothServers) -> None:
    """As `MirrorConnectorsIntegrationExactlyOnceTest.testReplication`: copying starts again where the offsets say."""
    one = f"/connectors/{SOURCE}/offsets"
    half = RECORDS // 2 - 1
    entry = {"partition": {"cluster": "{source}", "partition": 0, "topic": TOPIC}, "offset": {"offset": half}}
    wanted = ContractRow("alter", "PATCH", one, {"offsets": [entry]})
    both.until_state("RUNNING", 1)
    both.compare([STOP])
    both.until_state("STOPPED", 0)
    both.until(lambda server: server.send(wanted).status == 200, "offsets are set: no copier or task is left")
    both.compare([wanted])
    for server in (both.theirs, both.ours):
        stored = server.send(ContractRow("offsets", "GET", one)).body["offsets"]
        (found,) = [one["offset"] for one in stored if one["partition"]["topic"] == TOPIC]
        assert found == {"offset": half}
    both.compare([RESUME])
    both.until(_has_records(both, RECORDS + RECORDS // 2), "the second half is there twice")
    both.compare([STOP])
    both.until_state("STOPPED", 0)
    reset = ContractRow("reset", "DELETE", one)
    both.until(lambda server: server.send(reset).status == 200, "offsets are removed")
    both.compare([reset, ContractRow("offsets", "GET", one), RESUME])
    both.until(_has_records(both, 2 * RECORDS + RECORDS // 2), "all records are there once more")
    both.until_state("RUNNING", 1)


def _has_records(both: BothServers, count: int) -> Callable[[RestServer], bool]:
    """Return a check whether a server's copy has at least so many records, and fail if it has more."""

    def check(server: RestServer) -> bool:
        copy = f"{server.flow.partition('->')[0]}.{TOPIC}"
        found = asyncio.run(read_topic(both.target, copy))
        assert len(found[0]) <= count
        return len(found[0]) == count

    return check


@pytest.mark.full
def test_a_flow_is_added_and_copies(both: BothServers) -> None:
    """Back from b: nothing matches but a topic of its own."""
    name = "b->ours.MirrorSourceConnector"
    one = f"/connectors/{name.replace('>', '%3E')}"
    asyncio.run(create_topics(both.target, {"rest-back": 1}, replicas=1))
    config = {"connector.class": "MirrorSourceConnector", "topics": "rest-back", "emit.heartbeats.enabled": "false"}
    new = ContractRow("new", "POST", "/connectors", {"name": name, "config": config | {"source.cluster.alias": "b"}})
    elsewhere = {"name": f"x{name}", "config": config | {"source.cluster.alias": "xb"}}
    refused = both.ours.send(ContractRow("other", "POST", "/connectors", elsewhere))
    assert refused.status == 400
    assert "cluster 'xb' is not in the file" in refused.body["message"]
    created = both.ours.send(new)
    assert (created.status, created.body["name"]) == (201, name), created.body
    assert created.headers["location"] == one
    assert {"b->ours.enabled = true", "b->ours.topics = rest-back"} <= set(both.config.read_text().splitlines())

    def runs(server: RestServer) -> bool:
        reply = server.send(ContractRow("status", "GET", f"{one}/status"))
        return server is both.theirs or [task["state"] for task in reply.body["tasks"]] == ["RUNNING"]

    both.until(runs, "the new flow runs")
    assert both.ours.send(ContractRow("delete", "DELETE", one)).status == 204


@pytest.mark.full
def test_a_connector_is_deleted_and_created_again(both: BothServers) -> None:
    one = f"/connectors/{SOURCE}"
    config = both.ours.send(ContractRow("config", "GET", f"{one}/config")).body
    assert both.ours.send(ContractRow("delete", "DELETE", one)).status == 204
    for path in ("", "/config", "/status", "/offsets"):
        assert both.ours.send(ContractRow("gone", "GET", f"{one}{path}")).status == 404
    assert SOURCE.replace("{flow}", OURS) not in both.ours.send(ContractRow("list", "GET", "/connectors")).body
    new = {"name": SOURCE, "config": config, "initial_state": "PAUSED"}
    created = both.ours.send(ContractRow("create", "POST", "/connectors", new))
    assert (created.status, created.body["config"]) == (201, config)
    assert both.ours.send(ContractRow("again", "POST", "/connectors", new)).status == 409
    resumed = ContractRow("resume", "PUT", f"{one}/resume")
    assert both.ours.send(resumed).status == 202
    both.until_state("RUNNING", 1)
