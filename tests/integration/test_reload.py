"""`raymirror reload` on one machine: flows are added, changed and removed, and an unchanged flow is not touched.

The tests are steps of one story and run in order.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from actors.config.config_ref import digest_of
from actors.demo.reader import read_topics
from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import wall_ms
from engine.config.settings import ClusterConfig
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for
from engine.state.state import state_topic
from policies.model import TopicPartition
from tests.harness.live import LiveMirror, write_properties
from tests.harness.shell import Shell
from tests.integration.test_closed_terminal import Terminal
from tests.integration.test_run_command import produce

pytestmark = [pytest.mark.integration, pytest.mark.ray]

T = TypeVar("T")
STAYS, CHANGES, COMES = "dawn->dusk", "dusk->dawn", "origin->dusk"
LEFT, RIGHT, MORE = "reload-left", "reload-right", "reload-more"
FLOWS = {STAYS: LEFT, CHANGES: RIGHT}
QUIET = {"heartbeats.replication.enabled": "false"}
COPIES = [TopicPartition(f"dawn.{LEFT}", number) for number in range(2)]
LATEST = -1
OTHER = {"dusk->dawn.producer.override.request.timeout.ms": "20000"}


class Story:
    """One running mirror of two flows, on a Ray of its own."""

    def __init__(self, folder: Path, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        self.shell, self.source, self.target = Shell(folder), source, target
        self.file = self.shell.folder / "mm2.properties"
        self.write(FLOWS)
        self.live = LiveMirror(folder, self.file, env=self.shell.env)

    def write(self, flows: Mapping[str, str], more: Mapping[str, str] = {}) -> None:
        """Edit the file."""
        aliases = {"dawn": self.source, "dusk": self.target}
        aliases |= {"origin": self.source} if COMES in flows else {}
        write_properties(self.file, aliases, flows, {**QUIET, **more})

    def reload(self, *words: str, code: int = 0) -> dict[str, Any]:
        """`raymirror reload --json`; give what it printed."""
        done = self.shell("reload", "--json", *words)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else {"error": done.stderr}

    def held(self) -> list[dict[str, Any]]:
        """Say who holds each partition of the flow that stays, at which epoch, since when; and its copiers."""
        status = self.shell.status()
        lanes = [lane for lane in status["lanes"] if lane["lane"][0] == LEFT]
        copiers = [one["copier_id"] for one in status["copiers"] if one["flow"] == STAYS]
        return [
            {name: lane[name] for name in ("lane", "set_id", "epoch", "began_ms")} | {"by": copiers} for lane in lanes
        ]

    def runs_file(self) -> bool:
        """Whether the mirror runs with the file as it is."""
        return bool(self.live.status["config_digest"] == digest_of(self.file.read_bytes()))

    def has_event(self, kind: str, part: str) -> bool:
        return any(one["kind"] == kind and part in one["text"] for one in self.live.status["events"])

    def copiers(self, flow: str) -> set[str]:
        """Name the copiers of a flow, as it printed last."""
        return {one["copier_id"] for one in self.live.status["copiers"] if one["flow"] == flow}

    def is_whole(self, flow: str, since_ms: int) -> bool:
        """Whether a flow is at its source's ends, as all of them were heard after an instant."""
        found = self.live.flow(flow)
        heard_ms = self.live.status["at_ms"] - found["source_end_age_ms"]
        known = found["lanes"] and not found["unknown_lanes"] and found["source_end_age_ms"] >= 0
        return bool(known and heard_ms > since_ms and not found["lag_records"])

    def producers(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Give ids and epochs of all who write the copies, and the state, of the flow that stays."""

        async def ask(target: KafkaCluster) -> dict[TopicPartition, list[tuple[int, int]]]:
            found = await target.producers([*COPIES, TopicPartition(state_topic("dawn"), 0)])
            return {where: sorted((one.producer_id, one.epoch) for one in rows) for where, rows in found.items()}

        return asyncio.run(self._ask(ask))

    def end(self) -> int:
        """Give the sum of the ends of the copies of the flow that stays: records, and markers."""

        async def ask(target: KafkaCluster) -> int:
            return sum((await target.offsets(COPIES, LATEST)).values())

        return asyncio.run(self._ask(ask))

    async def _ask(self, ask: Callable[[KafkaCluster], Awaitable[T]]) -> T:
        host, _, port = self.target.bootstrap_servers.partition(",")[0].rpartition(":")
        client = client_for(ClusterConfig("target", ((host, int(port)),)), "test-reload")
        await client.open()
        try:
            return await ask(KafkaCluster(client))
        finally:
            await client.close()

    def assert_same(self, alias: str, topic: str, source: EmbeddedCluster, target: EmbeddedCluster) -> None:
        """Compare a topic with its copy, record by record."""
        theirs = read_topics(source.bootstrap_servers, [topic])
        ours = read_topics(target.bootstrap_servers, [f"{alias}.{topic}"])
        assert {number: one for (_, number), one in ours.items()} == {
            number: one for (_, number), one in theirs.items()
        }


@pytest.fixture(scope="module")
def story(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {LEFT: 2, MORE: 2}))
    asyncio.run(create_topics(target_cluster.bootstrap_servers, {RIGHT: 2}))
    for cluster, topic in ((source_cluster, LEFT), (source_cluster, MORE), (target_cluster, RIGHT)):
        produce(cluster, topic, 1000)
    made = Story(tmp_path_factory.mktemp("reload"), source_cluster, target_cluster)
    try:
        yield made
    finally:
        made.live.close()


def test_a_second_run_says_what_to_do(story: Story) -> None:
    story.live.until_whole({STAYS: 1000, CHANGES: 1000})
    done = story.shell("run", str(story.file))
    assert (done.returncode, f"raymirror reload {story.file}" in done.stderr) == (2, True), done.stderr


@pytest.mark.full
def test_what_is_wrong_or_cannot_be_changes_nothing(story: Story) -> None:
    before = story.live.status["config_digest"]
    story.write({**FLOWS, COMES: MORE}, OTHER)
    dry = story.reload("--dry-run")
    assert (dry["done"], dry["differs"]) == (False, True)
    story.write(FLOWS, {"tasks.max": "many", "offset.storage.partitions": "none"})
    assert "tasks.max" in story.reload(code=2)["error"]
    story.write(FLOWS, {"replication.policy.separator": "--"})
    refused = story.reload(code=2)
    assert "done" in refused, refused
    assert (refused["done"], len(refused["refused"])) == (False, 2)
    story.write({STAYS: LEFT, "dusk->nowhere": RIGHT})
    assert "nowhere" in story.reload(code=2)["error"]
    assert story.shell.status()["config_digest"] == before


def test_a_flow_comes_another_changes_and_the_one_beside_them_stays(story: Story) -> None:
    held, producers, end = story.held(), story.producers(), story.end()
    assert len(held) == 2
    story.write({**FLOWS, COMES: MORE}, OTHER)
    former = story.copiers(CHANGES)
    done = story.reload()
    assert {row["flow"]: row["change"] for row in done["rows"] if not row["key"] and row["flow"] != "(mirror)"} == {
        STAYS: "untouched",
        CHANGES: "changed",
        COMES: "added",
    }
    produce(story.source, LEFT, 500, first=1000)
    produce(story.target, RIGHT, 500, first=1000)

    story.live.until(lambda: COMES in [flow["flow"] for flow in story.live.status["flows"]], "the flow is there")
    story.live.until_whole({STAYS: 1500, CHANGES: 1500, COMES: 1000})
    story.live.until(lambda: story.copiers(CHANGES) and not story.copiers(CHANGES) & former, "another copier")
    story.live.until_whole({STAYS: 1500, CHANGES: 1500, COMES: 1000})
    story.assert_same("dawn", LEFT, story.source, story.target)
    story.assert_same("dusk", RIGHT, story.target, story.source)
    story.assert_same("origin", MORE, story.source, story.target)
    assert story.held() == held
    assert story.producers() == producers, "nobody took the flow, or its state, again"
    assert story.end() == end + 500, "records, and no marker between them"


def test_a_watched_file_is_applied_and_the_flow_beside_stays(story: Story) -> None:
    held, producers, end = story.held(), story.producers(), story.end()
    watched = {**OTHER, "raymirror.reload": "watch"}
    story.write({**FLOWS, COMES: MORE}, watched)
    story.reload()

    story.write({**FLOWS, COMES: MORE}, {**watched, f"{STAYS}.topics.exclude": "nothing", "tasks.max": "many"})
    story.live.until(lambda: story.has_event("reload_refused", "tasks.max"), "the refusal is an event")
    story.write({**FLOWS, COMES: MORE}, {**watched, f"{COMES}.topics.exclude": MORE})
    story.live.until(story.runs_file, "the watched file is applied")
    story.live.until(lambda: story.live.flow(COMES)["lanes"] == 0, "the excluded topic is left")
    assert story.held() == held
    assert story.producers() == producers
    assert story.end() == end

    story.write({**FLOWS, COMES: MORE}, OTHER)  # the tests behind this one reload by command
    story.live.until(story.runs_file, "the file that is no longer watched is applied")


@pytest.mark.full
def test_flows_go_and_the_one_beside_them_stays(story: Story) -> None:
    held, producers, end = story.held(), story.producers(), story.end()
    story.write({STAYS: LEFT})
    done = story.reload()
    assert {row["flow"] for row in done["rows"] if row["change"] == "removed" and not row["key"]} == {CHANGES, COMES}
    story.live.until(lambda: [flow["flow"] for flow in story.live.status["flows"]] == [STAYS], "the flows are gone")
    produce(story.source, LEFT, 500, first=1500)
    story.live.until_whole({STAYS: 2000})
    story.assert_same("dawn", LEFT, story.source, story.target)
    assert story.held() == held
    assert story.producers() == producers
    assert story.end() == end + 500


@pytest.mark.full
def test_a_second_run_on_a_terminal_asks_and_a_flow_that_comes_back_goes_on_where_it_was(story: Story) -> None:
    produce(story.target, RIGHT, 500, first=1500)
    story.write(FLOWS)
    terminal = Terminal(story.shell, "run", str(story.file))
    terminal.until_printed(lambda text: "[y/N]" in text)
    assert terminal.answer("y") == 0
    terminal.close()
    story.live.until(lambda: len(story.live.status["flows"]) == 2, "the flow is there")
    story.live.until_whole({STAYS: 2000, CHANGES: 500})
    story.assert_same("dusk", RIGHT, story.target, story.source)


@pytest.mark.full
def test_a_supervisor_that_dies_while_all_follow_a_reload_begins_with_the_new_file(story: Story) -> None:
    held, former = story.held(), story.copiers(CHANGES)
    story.write(FLOWS, OTHER)
    new, up_s = story.reload()["new"], story.live.status["up_s"]
    for process in psutil.Process(story.live.process.pid).children(recursive=True):
        if "SupervisorActor" in " ".join(process.cmdline()):
            process.kill()  # copiers are being replaced now
    story.live.until(lambda: story.live.status["up_s"] < up_s, "another supervisor leads")
    produce(story.source, LEFT, 500, first=2000)
    produce(story.target, RIGHT, 500, first=2000)
    produced_ms = wall_ms()
    story.live.until(lambda: story.copiers(CHANGES) and not story.copiers(CHANGES) & former, "other copiers")
    assert story.live.status["config_digest"] == new
    assert [flow["flow"] for flow in story.live.status["flows"]] == [STAYS, CHANGES]
    story.live.until(lambda: all(story.is_whole(flow, produced_ms) for flow in (STAYS, CHANGES)), "whole")
    assert story.held() == held, "the copiers that the reload left alone were taken over as they are"
    story.live.end()
    story.assert_same("dawn", LEFT, story.source, story.target)
    story.assert_same("dusk", RIGHT, story.target, story.source)
