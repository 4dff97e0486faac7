"""A mirror on Ray observed from outside: scrapes, probes, `lag`, `events`, `logs`, conditions; one story."""

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.harness.shell import Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

DEADLINE_S = 300.0
RECORDS = 1000


def produce(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        try:
            for number in range(count):
                await producer.send(topic, b"record %d" % number, partition=number % 2)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(send())


class Seen:
    """The running mirror and the ways to look at it."""

    def __init__(self, shell: Shell, port: int) -> None:
        self.shell, self.port = shell, port

    def get(self, path: str) -> tuple[int, str]:
        """Ask the mirror's port; 0 where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except urllib.error.URLError:
            return 0, ""

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        status, page = self.get("/metrics")
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(page) if status == 200 else ():
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        return found

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {DEADLINE_S:.0f} s: {what}\n{self.shell.status()}")
            time.sleep(0.2)


@pytest.fixture(scope="module")
def seen(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("seen")
    shell = Shell(folder)
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {"seen-a": 2, "seen-b": 2}))
    produce(source_cluster, "seen-a", RECORDS)
    config = write_config(folder, source_cluster, target_cluster, "seen-.*")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    with Path(config).open("a") as file:
        file.write(f"raymirror.metrics.port = {port}\nraymirror.metrics.per.partition = false\n")
    process: subprocess.Popen[bytes] = shell.start("run", str(config))
    try:
        yield Seen(shell, port)
    finally:
        process.terminate()
        process.wait(60)


def test_it_becomes_ready_and_the_page_has_what_was_copied(seen: Seen) -> None:
    seen.until(lambda: seen.get("/readyz")[0] == 200, "ready")
    assert seen.get("/healthz") == (200, "ok\n")
    key = ("source->target", "seen-a")
    seen.until(lambda: seen.scrape().get("raymirror_records_total", {}).get(key) == RECORDS, "all is copied")
    page = seen.scrape()
    assert page["raymirror_lag_records"][key] == 0
    assert page["raymirror_lag_seconds"][key] == 0
    assert page["raymirror_record_bytes_total"][key] > 0
    assert page["raymirror_replication_latency_seconds_count"][("source->target",)] == RECORDS
    assert page["raymirror_append_latency_seconds_count"][("source->target",)] >= 1
    assert page["raymirror_partitions"][("source->target", "copying")] == 4
    assert page["raymirror_flow_running"] == {("source->target",): 1}
    assert sum(page["raymirror_copiers"].values()) == 1
    assert sum(page["raymirror_events_total"].values()) >= 4


def test_lag_lists_every_partition_with_its_owner(seen: Seen) -> None:
    done = seen.shell("lag", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["partitions"]
    assert [(row["topic"], row["partition"]) for row in rows] == [
        ("seen-a", 0),
        ("seen-a", 1),
        ("seen-b", 0),
        ("seen-b", 1),
    ]
    assert {row["state"] for row in rows} == {"copying"}
    assert {row["lag_records"] for row in rows} == {row["lag_bytes"] for row in rows} == {0}
    assert {row["lag_seconds"] for row in rows} == {0.0}
    assert len({row["owner"] for row in rows}) == 1
    assert all(row["owner"].startswith("copier") for row in rows)
    assert "seen-b-1" in seen.shell("lag", "source->target").stdout


def test_a_condition_fails_a_script(seen: Seen) -> None:
    assert seen.shell("status", "--fail-if", "lag_seconds>60").returncode == 0
    failed = seen.shell("status", "--fail-if", "partitions>3")
    assert failed.returncode == 1
    assert failed.stderr == "raymirror status: source->target: partitions is 4 (partitions>3)\n"


def test_a_paused_flow_is_measured_and_gives_its_reason(seen: Seen, source_cluster: EmbeddedCluster) -> None:
    assert seen.shell("pause").returncode == 0
    seen.until(lambda: seen.scrape()["raymirror_partitions"].get(("source->target", "paused")) == 4, "all are paused")
    produce(source_cluster, "seen-b", 10_000)
    key = ("source->target", "seen-b")
    seen.until(lambda: seen.scrape()["raymirror_lag_records"][key] > 0, "the source's end is known")
    assert seen.scrape()["raymirror_lag_seconds"][key] > 0
    assert seen.scrape()["raymirror_flow_running"] == {("source->target",): 0}
    rows = json.loads(seen.shell("lag", "--behind", "--json").stdout)["partitions"]
    assert {row["why"] for row in rows} == {"paused"}
    assert seen.shell("resume").returncode == 0
    seen.until(lambda: seen.scrape()["raymirror_records_total"][key] == 10_000, "all is copied")


def test_events_and_logs_say_what_happened(seen: Seen) -> None:
    events = [json.loads(line) for line in seen.shell("events", "--json").stdout.splitlines()]
    assert {"resumed", "topic_created"} <= {event["kind"] for event in events}
    longer = seen.shell("events", "--since", "1d", "--json")  # the target has those of mirrors before this one, too
    assert longer.returncode == 0, longer.stderr
    kept = [json.loads(line) for line in longer.stdout.splitlines()]
    assert [one for one in kept if one in events] == events
    assert created(kept) == created(events) != [], "each is told once"
    lines = [json.loads(line) for line in seen.shell("logs", "--json").stdout.splitlines()]
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    resumed = [line for line in lines if line["event"] == "resumed"]
    assert len(resumed) == 4
    assert all(line["set"].startswith("source->target/") and line["epoch"] > 0 for line in resumed)
    assert len([line for line in lines if line["event"] == "topic_created"]) == 2
    grave = seen.shell("logs", "--level", "warning", "--json").stdout.splitlines()
    assert {json.loads(line)["level"] for line in grave} <= {"warning", "error"}


def created(events: list[dict[str, Any]]) -> list[str]:
    """Which topics of these tests were created, by what events say."""
    return sorted(one["text"] for one in events if one["kind"] == "topic_created" and "seen-" in one["text"])


def test_a_copier_that_dies_leaves_no_series_and_counters_go_on(seen: Seen) -> None:
    (before,) = seen.scrape()["raymirror_copier_partitions"]
    records = seen.scrape()["raymirror_records_total"]
    kill_copier(before[1])

    def another_works() -> bool:
        page = seen.scrape()
        copiers = page.get("raymirror_copier_partitions", {})
        return before not in copiers and page["raymirror_partitions"].get(("source->target", "copying")) == 4

    seen.until(another_works, "another copier has the partitions")
    after = seen.scrape()["raymirror_records_total"]
    assert after == records
    assert seen.shell("status", "--fail-if", "unknown>0").returncode == 0
    assert "copier_ended" in {json.loads(line)["event"] for line in seen.shell("logs", "--json").stdout.splitlines()}


def asked(seen: Seen, *words: str) -> subprocess.CompletedProcess[str]:
    """Give a command; it fails where that needs Ray."""
    script = (
        "import sys\nfrom actors.cli.main import main\n"
        f"code = main({words!r})\nassert 'ray' not in sys.modules\nsys.exit(code)"
    )
    command = [sys.executable, "-c", script]
    env, folder = seen.shell.env, seen.shell.folder
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def lasting(status: dict[str, Any]) -> dict[str, Any]:
    """Leave out of a status what another moment changes."""
    flows = [{key: flow[key] for key in ("flow", "desired", "topics", "lanes", "records")} for flow in status["flows"]]
    lanes = [(lane["lane"], lane["state"], lane["source_next"], lane["epoch"]) for lane in status["lanes"]]
    same = ("namespace", "version", "config_digest", "desired", "phase", "instance_id", "socket", "unremembered")
    return {**{key: status[key] for key in same}, "flows": flows, "lanes": lanes}


def test_the_socket_says_what_ray_says(seen: Seen) -> None:
    local = asked(seen, "status", "--json")
    assert local.returncode == 0, local.stderr
    (state,) = (seen.shell.folder / "state" / "raymirror" / "mirrors").glob("*.json")
    address = json.loads(state.read_text())["address"]
    by_ray = seen.shell("status", "--json", "--address", address)
    assert by_ray.returncode == 0, by_ray.stderr
    assert lasting(json.loads(local.stdout)) == lasting(json.loads(by_ray.stdout))
    wrong = ("pause", "--topics", "nothing")
    refused, too = asked(seen, *wrong), seen.shell(*wrong, "--address", address)
    assert (refused.returncode, refused.stderr) == (too.returncode, too.stderr)
    assert (refused.returncode, "copies no topic 'nothing'" in refused.stderr) == (2, True)
    assert asked(seen, "pause").stdout == "pause: every flow\n"
    assert {flow["desired"] for flow in json.loads(asked(seen, "status", "--json").stdout)["flows"]} == {"paused"}
    assert asked(seen, "resume").returncode == 0


def test_a_killed_supervisor_is_asked_through_ray_until_its_next_one_listens(seen: Seen) -> None:
    before = seen.shell.status()
    kill_actor("SupervisorActor")
    meanwhile = seen.shell("status", "--json")
    assert meanwhile.returncode == 0 or "does not answer" in meanwhile.stderr, meanwhile.stderr
    seen.until(lambda: asked(seen, "status").returncode == 0, "its next one answers at the socket")
    after = seen.shell.status()
    assert (after["instance_id"], after["socket"]) == (before["instance_id"], before["socket"])
    assert after["up_s"] < before["up_s"]


def kill_copier(_copier_id: str) -> None:
    """Kill the one copier process of this test's mirror."""
    kill_actor("CopierActor")


def kill_actor(name: str) -> None:
    """Kill the one process of an actor of this test's mirror: the child of our raylet that is named so."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        if name in " ".join(child.cmdline()) or name in child.name():
            child.kill()
            return
    pytest.fail(f"no process of {name} found")
