"""The typed API on a live mirror, and commands that ask it from elsewhere; one story."""

import asyncio
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.local.ports import pick_ports
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.eventually import wait_until
from tests.harness.groups import commit
from tests.harness.load import append, numbered, producer
from tests.harness.shell import Shell, copied, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC, GROUP, RECORDS, MORE = "api-a", "api-group", 100, 10
FLOW = "/api/v1/flows/source-%3Etarget"
DEADLINE_S = 300.0
TOKENS = {"view": "token-of-the-viewer", "admin": "token-of-the-admin"}


class ServedMirror:
    """A running mirror with an HTTP server and two users."""

    def __init__(self, shell: Shell, port: int, config: Path, clusters: Pair) -> None:
        self.shell, self.port, self.config, self.clusters = shell, port, config, clusters
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: object = None, role: str = "admin") -> tuple[int, Any]:
        """Send a request; status 0 while nobody listens."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKENS[role]}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except urllib.error.URLError:
            return 0, None

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", path, role="view")
        assert status == 200, found
        return found

    def produce(self, count: int) -> None:
        async def send() -> None:
            async with producer(self.clusters.source) as client:
                await append(client, TOPIC, 0, numbered(count))

        asyncio.run(send())

    def elsewhere(self, folder: Path, *words: str, role: str = "admin") -> subprocess.CompletedProcess[str]:
        """Run a command that knows nothing but the address and a token."""
        shell = Shell(folder)
        shell.env |= {"RAYMIRROR_TOKEN": TOKENS[role], "RAY_ADDRESS": "127.0.0.1:1"}
        return shell(*words, "--url", self.url)


@pytest.fixture(scope="module")
def mirror(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedMirror]:
    folder = tmp_path_factory.mktemp("api")
    asyncio.run(create_topics(cluster_pair.source, {TOPIC: 2}, replicas=1))
    (port,) = pick_ports(1)
    settings = {
        "raymirror.http.port": str(port),
        "raymirror.http.users": "eve, ann",
        "raymirror.http.user.eve.token": TOKENS["view"],
        "raymirror.http.user.ann.token": TOKENS["admin"],
        "raymirror.http.user.ann.role": "admin",
        "raymirror.storage": f"file:{folder}/kept",
    }
    config = write_config(folder, *cluster_pair, TOPIC, settings)
    shell = Shell(folder)
    process = shell.start("run", str(config))
    served = ServedMirror(shell, port, config, cluster_pair)
    served.produce(RECORDS)
    asyncio.run(commit(cluster_pair.source, GROUP, TOPIC, {0: RECORDS}))
    try:
        shell.until(copied(RECORDS))
        yield served
    finally:
        process.terminate()
        process.wait(120)


def test_it_says_how_it_is_and_what_a_loss_would_cost(mirror: ServedMirror) -> None:
    wait_until(lambda: mirror.get("/api/v1/mirror")["mirror"]["rpo"]["records"] == 0, "all is copied")
    page = mirror.get("/api/v1/mirror")
    (flow,) = page["flows"]
    assert (flow["flow"], flow["state"], flow["partitions"]) == ("source->target", "running", 2)
    assert {cluster["name"]: bool(cluster["id"]) for cluster in page["clusters"]} == {"source": False, "target": True}
    found = mirror.get(f"{FLOW}/partitions?limit=1&sort=name")
    assert (found["total"], len(found["partitions"])) == (2, 1)
    assert found["partitions"][0]["source_next"] == RECORDS
    assert [one["topic"] for one in mirror.get(f"{FLOW}/topics")["topics"]] == [TOPIC]
    assert mirror.ask("POST", f"{FLOW}/pause", role="view")[0] == 403
    wait_until(lambda: len(mirror.get(f"{FLOW}/series")["at_ms"]) >= 2, "the series has points")
    wait_until(lambda: mirror.get(f"{FLOW}/groups")["report"] is not None, "a round of the groups has ended")


def test_a_page_sees_live_what_a_command_elsewhere_does(mirror: ServedMirror, tmp_path: Path) -> None:
    async def watch() -> list[tuple[str, Any]]:
        headers, url = {"Authorization": f"Bearer {TOKENS['view']}"}, f"{mirror.url}/api/v1/stream"
        seen: list[tuple[str, Any]] = []
        kind, paused = "", None
        async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
            async with asyncio.timeout(DEADLINE_S):
                async for line in response.content:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    kind = value if name == "event" else kind
                    if name != "data":
                        continue
                    seen.append((kind, json.loads(value)))
                    if kind == "snapshot":
                        words = ("pause", "source->target", "--timeout", "120")
                        paused = asyncio.create_task(asyncio.to_thread(mirror.elsewhere, tmp_path, *words))
                    if kind == "event" and "paused" in seen[-1][1]["text"]:
                        break
        assert paused is not None
        done = await paused
        assert done.returncode == 0, done.stderr
        return seen

    seen = asyncio.run(watch())
    assert seen[0][0] == "snapshot"
    assert "paused" in [body["state"] for kind, body in seen if kind == "flow"]
    done = mirror.elsewhere(tmp_path, "lag", role="view")
    assert done.returncode == 0, done.stderr
    assert f"{TOPIC}-0" in done.stdout
    assert "paused" in done.stdout
    done = mirror.elsewhere(tmp_path, "resume", role="view")
    assert done.returncode == 2
    assert "403" in done.stderr


def test_a_preview_says_what_would_be_lost_now(mirror: ServedMirror) -> None:
    mirror.produce(MORE)  # the flow is paused
    found = mirror.get(f"{FLOW}/failover-preview")
    assert (found["loss"]["records"], found["whole"]) == (MORE, False)
    assert found["preview"]["losses"][0]["topic"] == TOPIC
    assert found["groups"] == 1
    assert f"would lose {MORE} records" in found["sentence"]


def test_a_plan_of_the_flow_compares_topics(mirror: ServedMirror) -> None:
    found = mirror.get(f"{FLOW}/plan")
    assert found["plan"]["topics"] == 1
    assert found["changes"] == len(found["plan"]["changes"])


def test_an_edited_file_is_compared_and_applied(mirror: ServedMirror) -> None:
    assert mirror.get("/api/v1/plan")["edited"] is False
    with mirror.config.open("a") as file:
        file.write("raymirror.rpo.seconds = 30\n")
    plan = mirror.get("/api/v1/plan")
    assert (plan["edited"], plan["error"]) == (True, "")
    assert any("raymirror.rpo" in one["key"] for one in plan["changes"]), plan
    assert mirror.ask("POST", "/api/v1/reload", {"new": "0"})[0] == 409
    status, said = mirror.ask("POST", "/api/v1/reload", {"new": plan["new"]})
    assert status == 202, said
    wait_until(lambda: mirror.get(FLOW)["rpo_objective_seconds"] == 30.0, "the file is applied")


def test_what_was_changed_on_the_copies_is_kept(mirror: ServedMirror) -> None:
    wait_until(lambda: mirror.get("/api/v1/audit")["total"] >= 1, "the trail has the created copy")
    found = mirror.get("/api/v1/audit")
    assert found["kept"].startswith("file:")
    assert found["rows"][0]["flow"] == "source->target"


def test_history_that_is_not_kept_yet_is_said_so(mirror: ServedMirror) -> None:
    status, said = mirror.ask("GET", f"{FLOW}/history")
    assert (status, "has no history" in said["message"]) == (409, True)


def test_looks_say_what_their_commands_say(mirror: ServedMirror, tmp_path: Path) -> None:
    ends = {row["partition"]: row for row in mirror.get(f"{FLOW}/ends")["partitions"]}
    assert (ends[0]["copied"], ends[0]["waiting"]) == (RECORDS, MORE)
    translation = mirror.get(f"{FLOW}/translation?group={GROUP}")["translation"]
    assert [(row["source_offset"], row["why_not"]) for row in translation["rows"]] == [(RECORDS, "")]
    assert [one["group"] for one in mirror.get(f"{FLOW}/moves")["progress"]["groups"]] == [GROUP]
    assert mirror.get(f"{FLOW}/quarantine")["total"] == 0
    assert "audit" in [one["name"] for one in mirror.get("/api/v1/tables")["tables"]]
    assert mirror.get("/api/v1/sql?q=SELECT%20count(*)%20%3E%200%20FROM%20audit")["rows"] == [[True]]
    for words, said in (
        (("quarantine", "list"), "source->target: no refused records\n"),
        (("sql", "SELECT flow FROM audit LIMIT 1", "--csv"), "flow\nsource->target\n"),
    ):
        done = mirror.elsewhere(tmp_path, *words, role="view")
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_a_proof_is_a_run_with_its_result(mirror: ServedMirror) -> None:
    assert mirror.ask("POST", f"{FLOW}/verify", {"flow": "source->target"}, role="view")[0] == 403
    status, run = mirror.ask("POST", f"{FLOW}/verify", {"flow": "source->target"})
    assert status == 202, run
    path = f"{FLOW}/runs/{run['run']}"
    wait_until(lambda: mirror.get(path)["state"] != "running", "the proof has ended")
    found = mirror.get(path)
    assert (found["state"], found["why"]) == ("done", ""), found
    assert [(one["flow"], one["whole"]) for one in found["result"]["flows"]] == [("source->target", True)]
    status, said = mirror.ask("DELETE", path)
    assert (status, "has no process" in said["message"]) == (409, True)


def test_a_stop_from_elsewhere_ends_the_mirror(mirror: ServedMirror, tmp_path: Path) -> None:
    done = mirror.elsewhere(tmp_path, "resume")
    assert done.returncode == 0, done.stderr
    done = mirror.elsewhere(tmp_path, "stop", "--timeout", "120")
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    assert mirror.shell.started is not None
    assert mirror.shell.started.wait(120) == 0
