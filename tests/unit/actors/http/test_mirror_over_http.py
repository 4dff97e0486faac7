"""The supervisor's shell with its HTTP server: what a request changes, a reload, and the end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.config.config_ref import refer
from actors.http.service import NoConsole
from actors.model.messages import ConsoleDoor
from tests.harness.eventually import until_equal
from tests.unit.actors.http.http_servers import free_port
from tests.unit.actors.ray.test_supervisor_actor import Stage
from tests.unit.actors.rest.rest_views import SOURCE

pytestmark = pytest.mark.local

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
ONE = f"/connectors/{SOURCE.replace('->', '%2D%3E')}"


class HttpStage:
    """A mirror whose HTTP server is asked by a client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, session: aiohttp.ClientSession) -> None:
        self.port, self._session = free_port(), session
        monkeypatch.setattr("actors.ray.supervisor_actor.keep_spec", lambda _spec: None)
        monkeypatch.setattr("actors.ray.supervisor_actor.forget_spec", lambda: None)
        self.stage = Stage(monkeypatch, folder, text=BASE + self.settings())

    def settings(self, more: str = "") -> str:
        return f"raymirror.http.port = {self.port}\n{more}"

    async def ask(self, method: str, path: str) -> tuple[int, Any]:
        """Send a request as soon as the server listens."""
        async with asyncio.timeout(120):
            while True:
                try:
                    async with self._session.request(method, f"http://127.0.0.1:{self.port}{path}") as answer:
                        return answer.status, await answer.json(content_type=None)
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.01)

    async def enter(self, once: str) -> int:
        """Open a session with a one-time token."""
        url = f"http://127.0.0.1:{self.port}/console/session"
        async with self._session.post(url, json={"once": once}) as answer:
            return answer.status

    async def state(self) -> str:
        """The state of the source connector."""
        return str((await self.ask("GET", f"{ONE}/status"))[1]["connector"]["state"])

    async def reload(self, more: str) -> None:
        """Reload with more settings."""
        running = self.stage.shell._spec.config.digest
        self.stage.file.write_text(BASE + self.settings(more))
        await self.stage.shell.reload(msgspec.msgpack.encode(refer(self.stage.file)), running)


@pytest.fixture
async def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[HttpStage]:
    async with aiohttp.ClientSession() as session:
        made = HttpStage(monkeypatch, tmp_path, session)
        await made.stage.until(lambda status: status.phase == "starting")
        yield made
        if not made.stage.shell._task.done():
            await made.stage.end()


async def test_a_flow_is_paused_resumed_and_stopped_and_its_mirror_stays(mirror: HttpStage) -> None:
    for verb, status, state in (
        ("pause", 202, "PAUSED"),
        ("pause", 202, "PAUSED"),
        ("stop", 204, "STOPPED"),
        ("stop", 204, "STOPPED"),
        ("pause", 202, "PAUSED"),
        ("stop", 204, "STOPPED"),
        ("resume", 202, "UNASSIGNED"),
    ):
        assert (await mirror.ask("PUT", f"{ONE}/{verb}"))[0] == status
        await until_equal(mirror.state, state)
        assert (await mirror.stage.status()).phase not in ("draining", "stopped")


async def test_positions_are_read_from_the_target(mirror: HttpStage) -> None:
    assert await mirror.ask("GET", f"{ONE}/offsets") == (
        200,
        {"offsets": [{"partition": {"cluster": "A", "partition": 3, "topic": "t"}, "offset": {"offset": 8}}]},
    )


async def test_a_reload_changes_what_is_shown_and_keeps_connections(mirror: HttpStage) -> None:
    await mirror.ask("GET", "/connectors")  # so that it listens
    reader, writer = await asyncio.open_connection("127.0.0.1", mirror.port)
    await mirror.reload("A->B.topics = orders\n")
    assert (await mirror.ask("GET", f"{ONE}/config"))[1]["topics"] == "orders"
    writer.write(b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(120):
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_reload_moves_the_port_and_closes_it(mirror: HttpStage) -> None:
    await mirror.ask("GET", "/connectors")
    before, mirror.port = mirror.port, free_port()
    await mirror.reload("")
    assert (await mirror.ask("GET", "/connectors"))[0] == 200
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", before)


async def test_a_reload_asks_for_users_from_now_on(mirror: HttpStage) -> None:
    assert (await mirror.ask("GET", "/connectors"))[0] == 200
    await mirror.reload("raymirror.http.users = eve\nraymirror.http.user.eve.token = t0ken\n")
    assert (await mirror.ask("GET", "/connectors"))[0] == 401


async def test_the_supervisor_gives_an_address_that_logs_in_once(mirror: HttpStage) -> None:
    await mirror.reload("raymirror.http.users = eve\nraymirror.http.user.eve.token = t0ken\n")
    assert (await mirror.ask("GET", "/connectors"))[0] == 401
    door = msgspec.msgpack.decode(await mirror.stage.shell.console("root", "view"), type=ConsoleDoor)
    assert (door.scheme, door.bind, door.port) == ("http", "127.0.0.1", mirror.port)
    assert await mirror.enter(door.token) == 200
    assert await mirror.enter(door.token) == 401


async def test_without_users_or_without_a_server_there_is_no_token(mirror: HttpStage) -> None:
    assert msgspec.msgpack.decode(await mirror.stage.shell.console("root", "admin"), type=ConsoleDoor).token == ""
    mirror.port = 0
    await mirror.reload("")
    with pytest.raises(NoConsole, match=r"raymirror.http.port = 8083 in .*, then: raymirror reload"):
        await mirror.stage.shell.console("root", "admin")


async def test_probes_know_of_the_steps(mirror: HttpStage) -> None:
    assert (await mirror.ask("GET", "/health"))[1]["status"] in ("healthy", "starting")


async def test_the_port_is_closed_with_the_mirror(mirror: HttpStage) -> None:
    await mirror.ask("GET", "/connectors")
    await mirror.stage.end()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", mirror.port)
