"""The HTTP port on each Ray node: what it answers with a supervisor, without one, after a reload and after the end.

The steps are one story. Nodes of one machine have addresses of their own, so each has the same port.
"""

import asyncio
import base64
import http.client
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from tests.harness.eventually import wait_until
from tests.harness.growing import actors_on
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.shell import Shell, copied, write_config
from tests.integration.test_run_command import produce

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC = "forwarded"
ONE, TWO = "127.0.0.2", "127.0.0.3"
SOURCE = "/connectors/source-%3Etarget.MirrorSourceConnector"
CUT = 0
"""The status of a request whose connection was closed or refused."""
BASIC = {"Authorization": "Basic " + base64.b64encode(b"eve:hunter2").decode()}


class Server(NamedTuple):
    """The port at one address."""

    address: str
    port: int

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Send a request over a connection of its own; give its status and body, CUT if there is no answer."""
        connection = http.client.HTTPConnection(self.address, self.port, timeout=60)
        try:
            connection.request(method, path, headers=BASIC if headers is None else headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return CUT, None
        finally:
            connection.close()
        return answer.status, json.loads(body) if body else None

    def status(self) -> int:
        """The status of a request for the connectors."""
        return self.ask("GET", "/connectors")[0]


def address_of(cluster: RayCluster, name: str) -> str:
    """The address of a node, as Ray has it."""
    resources = cluster.seen()[name].resources
    (found,) = [one for key in resources if (one := key.removeprefix("node:")) != key and not one.startswith("__")]
    return found


def test_each_node_answers_for_the_supervisor(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {TOPIC: 2}))
    produce(source_cluster, TOPIC, 1000)
    (port,) = pick_ports(1)
    settings = {
        "raymirror.http.port": str(port),
        "raymirror.http.bind": "node",
        "raymirror.http.nodes": "all",
        "raymirror.http.users": "eve",
        "raymirror.http.user.eve.role": "operate",
        "raymirror.http.user.eve.password": "${env:EVE}",
    }
    config = write_config(tmp_path, source_cluster, target_cluster, TOPIC, settings)
    with ray_cluster(tmp_path / "ray", head_cpus=2, token=True) as cluster:
        node = cluster.add_node(1, address=ONE)
        shell = Shell(tmp_path)
        shell.env |= cluster.env
        config.write_text(config.read_text().replace("${env:EVE}", "hunter2"))
        started = shell("run", str(config), "--name", "forwarded", "--detach")
        assert started.returncode == 0, started.stderr
        shell.until(copied(1000))

        head, one, two = (Server(at, port) for at in (address_of(cluster, "head"), ONE, TWO))
        for server in (head, one):
            wait_until(lambda server=server: server.status() == 200, f"{server.address} answers")  # type: ignore[misc]
        assert one.ask("GET", "/connectors") == head.ask("GET", "/connectors")
        assert one.ask("GET", "/connectors", {})[0] == 401
        assert one.ask("DELETE", SOURCE)[0] == 403, "the role is too weak"
        assert one.ask("PUT", f"{SOURCE}/pause")[0] == 202
        assert head.ask("GET", f"{SOURCE}/status")[1]["connector"]["state"] == "PAUSED"
        assert one.ask("PUT", f"{SOURCE}/resume")[0] == 202

        cluster.add_node(1, address=TWO)
        wait_until(lambda: two.status() == 200, "a new node answers")
        before = actors_on(node, "ForwarderActor")

        (supervisor,) = actors_on(cluster.head, "SupervisorActor")
        supervisor.kill()
        seen, refusal = _until_answered_again(one, supervisor)
        print(f"\nwhile the supervisor was away, node {ONE} answered {dict(seen)}")  # noqa: T201
        assert set(seen) <= {200, 409, CUT}
        assert seen[409] >= 1
        assert refusal["error_code"] == 409
        assert actors_on(node, "ForwarderActor") == before, "it was taken over"
        wait_until(lambda: head.status() == two.status() == 200, "all answer again")

        text = config.read_text()
        config.write_text(text.replace("nodes = all", "nodes = head"))
        assert shell("reload", str(config)).returncode == 0
        wait_until(lambda: one.status() == two.status() == CUT, "only the head listens")
        assert head.status() == 200
        config.write_text(text)
        assert shell("reload", str(config)).returncode == 0
        wait_until(lambda: one.status() == 200, "and now each node again")

        assert shell("stop").returncode == 0
        wait_until(lambda: not actors_on(node, "ForwarderActor"), "no process is left")
        assert one.status() == head.status() == CUT


def _until_answered_again(server: Server, supervisor: psutil.Process) -> tuple[Counter[int], Any]:
    """Ask every 20 ms until the next supervisor answers; give the statuses, and the body of a 409."""
    supervisor.wait(60)
    seen, refusal = Counter[int](), None
    give_up_at = time.monotonic() + 120
    while True:
        status, body = server.ask("GET", "/connectors")
        seen[status] += 1
        refusal = body if status == 409 else refusal
        if status == 200:
            return seen, refusal
        assert time.monotonic() < give_up_at, seen
        time.sleep(0.02)
