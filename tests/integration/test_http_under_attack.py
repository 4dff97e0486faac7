"""A live mirror whose HTTP server is attacked: it copies on, its memory is flat, it says no secret and never 500.

The steps are one story. One flow is what the clients ask for, stop and change; the other one copies beside it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from actors.http.connections import MOST_CONNECTIONS
from actors.http.table import ROUTES
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from engine.base.clock import pause
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.beside import beside
from tests.harness.compare import assert_identical, read_topic
from tests.harness.eventually import until, until_equal
from tests.harness.live import DEADLINE_S, LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.rest_attacks import AttackedPort, floods, smugglings
from tests.harness.schemathesis import fuzz_server
from tests.integration.test_supervisor_killed_under_requests import supervisor_of

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

BEATEN, BESIDE, CALM = "beaten", "beside", "calm"
NAMES = [f"{BEATEN}->{CALM}.Mirror{kind}Connector" for kind in ("Source", "Checkpoint")]
ADMIN, ADMIN_TOKEN = "attacked-admin-token", "Bearer attacked-admin-token"
SECRETS = (ADMIN, "attacked-eve-password", "attacked-jaas-password", "attacked-store-password")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";'
FLAT = 160 * 1024 * 1024
"""Bytes that the supervisor may grow by, a tenth of what one connection sends: buffers of its connections, what the
allocator keeps of them, and what the supervisor's work beside them takes."""
FUZZ_S = 60.0


class AttackedMirror:
    """A mirror of two flows, and the topic of one of them, which grows."""

    def __init__(self, clusters: Pair, folder: Path) -> None:
        (port,) = pick_ports(1)
        self.port = AttackedPort(port, f"Authorization: {ADMIN_TOKEN}\r\n".encode())
        self.clusters, self.sent = clusters, 0
        aliases: dict[str, EmbeddedCluster] = {
            BEATEN: clusters.source,
            BESIDE: clusters.source,
            CALM: clusters.target,
        }
        flows = {f"{BEATEN}->{CALM}": BEATEN, f"{BESIDE}->{CALM}": BESIDE}
        settings = {
            "raymirror.http.port": str(port),
            "raymirror.http.users": "root, eve",
            "raymirror.http.user.root.role": "admin",
            "raymirror.http.user.root.token": ADMIN,
            "raymirror.http.user.eve.password": SECRETS[1],
            f"{BEATEN}.sasl.jaas.config": JAAS.format(SECRETS[2]),
            f"{BESIDE}.ssl.keystore.password": SECRETS[3],
        }
        config = write_properties(folder / "mm2.properties", aliases, flows, settings)
        env = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        self.live = LiveMirror(folder, config, env=env)

    def supervisor(self) -> psutil.Process:
        return supervisor_of(self.live.process.pid)

    @asynccontextmanager
    async def growing(self) -> AsyncIterator[None]:
        """Append records until the end of the block; then all are copied, once and in order."""
        async with producer(self.clusters.source) as client, beside(self._grow(client)):
            yield
        give_up_at = asyncio.get_running_loop().time() + DEADLINE_S
        copy = f"{BESIDE}.{BESIDE}"
        while sum(map(len, (await read_topic(self.clusters.target, copy)).values())) < self.sent:
            assert asyncio.get_running_loop().time() < give_up_at, self.live.describe()
            await pause(0.5)
        assert await assert_identical(self.clusters.source, self.clusters.target, BESIDE, copy) == self.sent

    async def _grow(self, client: Any) -> None:
        while True:
            some = asyncio.ensure_future(append(client, BESIDE, 0, numbered(20, first=self.sent)))
            self.sent += 20
            await asyncio.shield(some)
            await pause(0.1)

    async def until_copied_on(self) -> None:
        """Wait until records that are appended from now on are copied."""
        goal = self.sent + 40

        def is_copied() -> bool:
            self.live.look()
            return bool(self.live.flow(f"{BESIDE}->{CALM}")["records"] >= goal)

        await until(is_copied, "the other flow copies on")


async def test_an_attacked_mirror_copies_on(cluster_pair: Pair, tmp_path: Path) -> None:
    await create_topics(cluster_pair.source, {BEATEN: 1, BESIDE: 1}, replicas=1)
    mirror = AttackedMirror(cluster_pair, tmp_path)
    try:
        await asyncio.to_thread(mirror.live.until_whole, {f"{BEATEN}->{CALM}": 0, f"{BESIDE}->{CALM}": 0})
        await until_equal(mirror.port.status, 200)
        async with mirror.growing():
            await _attack(mirror)
            await _no_secret_in(mirror)
            await _fuzz(mirror, tmp_path)
            await _resume(mirror)
            await mirror.until_copied_on()
    finally:
        mirror.live.close()


async def _resume(mirror: AttackedMirror) -> None:
    """Let the other flow copy again: an administrator that finds its name in answers may have paused it."""
    answer = await mirror.port.send(
        f"POST /api/v1/flows/{BESIDE}-%3E{CALM}/resume HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {ADMIN_TOKEN}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.partition(b" ")[2][:2] == b"20", answer


async def _attack(mirror: AttackedMirror) -> None:
    """Send every attack; after each, the other flow copies, and the supervisor is the same process and no larger."""
    port = mirror.port
    await mirror.until_copied_on()
    victim = await asyncio.to_thread(mirror.supervisor)
    before = victim.memory_info().rss
    sizes = {}
    for flood in floods():
        await port.flood(flood)
        sizes[flood.name] = victim.memory_info().rss - before
    for one in smugglings(f"/connectors/{NAMES[0].replace('>', '%3E')}/stop"):
        answer = await port.send(one.data)
        assert answer.partition(b" ")[2][:3] in (b"400", b"401"), one.name
        assert answer.count(b"HTTP/1.") == 1, one.name
    await port.drip(MOST_CONNECTIONS)
    sizes["drip"] = victim.memory_info().rss - before
    async with port.crowd(10_000) as opened:
        assert opened > MOST_CONNECTIONS
    await until_equal(port.status, 200)
    assert await port.pipeline(500) == 500
    sizes["all"] = victim.memory_info().rss - before
    grown = {name: f"{size / 1024 / 1024:.0f}" for name, size in sizes.items()}
    print(f"\nthe supervisor has {before / 1024 / 1024:.0f} MiB, and more by, MiB: {grown}")  # noqa: T201
    assert max(sizes.values()) < FLAT, sizes
    await mirror.until_copied_on()
    assert (await asyncio.to_thread(mirror.supervisor)).pid == victim.pid
    status = await port.send(
        f"GET /connectors/{NAMES[0].replace('>', '%3E')}/status HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: {ADMIN_TOKEN}\r\nConnection: close\r\n\r\n".encode()
    )
    assert b'"state":"RUNNING"' in status, "it was not stopped by any of them"


async def _no_secret_in(mirror: AttackedMirror) -> None:
    """Ask every route that only reads, as an administrator: no answer has a secret of the file."""
    url = f"http://127.0.0.1:{mirror.port.port}"
    values = {"{connector}": NAMES[0], "{task}": "0", "{plugin}": "MirrorSourceConnector", "{logger}": "raymirror"}
    values |= {"{flow}": f"{BEATEN}->{CALM}", "{run}": "none"}
    async with aiohttp.ClientSession(headers={"Authorization": ADMIN_TOKEN}) as session:
        asked = 0
        for route in ROUTES:
            path = route.template
            for variable, value in values.items():
                path = path.replace(variable, value.replace(">", "%3E"))
            if route.method != "GET":
                continue
            for more in ("", "?expand=info&expand=status"):
                async with session.get(f"{url}{path}{more}") as answer:
                    is_stream = answer.content_type == "text/event-stream"  # it has no end: its first part will do
                    text = (await answer.content.readany()).decode() if is_stream else await answer.text()
                    asked += answer.status == 200
                    assert not any(secret in text for secret in SECRETS), path
        assert asked > 40


OF_ALL_FLOWS = ("/api/v1/mirror/stop", "/api/v1/mirror/pause")
"""An administrator's requests of these paths end or pause the flow that has to copy on, as they should."""


async def _fuzz(mirror: AttackedMirror, folder: Path) -> None:
    url, headers = f"http://127.0.0.1:{mirror.port.port}", {"Authorization": ADMIN_TOKEN}
    known = {"connector": NAMES, "task": ("0", "1"), "plugin": ("MirrorSourceConnector",), "logger": ("raymirror",)}
    found = await asyncio.to_thread(fuzz_server, url, known, FUZZ_S, folder, headers, OF_ALL_FLOWS)
    if found is None:
        print("\nNOT FUZZED: schemathesis does not install here")  # noqa: T201
        return
    print(found.text.rpartition("SUMMARY")[2])  # noqa: T201
    assert found.is_clean, found.text
    log = "".join(path.read_text() for path in folder.rglob("*.log"))
    assert not any(secret in log for secret in SECRETS)
